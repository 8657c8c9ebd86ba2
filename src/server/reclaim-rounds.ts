/**
 * Rounds in which a service processes all databases. The nodes of a store share each round: an idle
 * node takes the next page of databases. If a node dies, the rest of its page is processed in the
 * next round.
 */
import { type Runtime, utf8Decode, utf8Encode } from "../base/index.ts";
import type { DatabaseRegistry } from "../databases/index.ts";
import type { Key, KeyValueStore, Transaction } from "../kv/index.ts";
import { RECLAIM_ROUND_KEY } from "./layout.ts";

/** Interval between the starts of two rounds. */
const INTERVAL_MS = 10 * 60_000;
const PAGE_COUNT = 100;

export interface ReclaimRoundsParts {
  readonly runtime: Pick<Runtime, "clock">;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
}

interface Round {
  readonly beganMs: number;
  /**
   * Name of the database that was claimed last, by any node. It is "" before the first claim, and
   * undefined when all databases are claimed.
   */
  readonly after?: string | undefined;
}

/**
 * Performs the work for each database until the signal aborts. A failure for one database does not
 * prevent the work for the others. Throws the first error at the end.
 */
export async function forEachDatabase(
  names: readonly string[],
  signal: AbortSignal,
  work: (name: string) => Promise<void>,
): Promise<void> {
  const errors: unknown[] = [];
  for (const name of names) {
    if (signal.aborted) return;
    await work(name).catch((error: unknown) => errors.push(error));
  }
  if (errors.length > 0) throw errors[0];
}

export class ReclaimRounds {
  readonly #parts: ReclaimRoundsParts;
  readonly #key: Key;
  readonly #isDueAtFirst: boolean;

  /**
   * `key` is the key of the stored round. The first round begins immediately if `isDueAtFirst` is
   * set, and otherwise after the interval.
   */
  constructor(parts: ReclaimRoundsParts, { key = RECLAIM_ROUND_KEY, isDueAtFirst = false } = {}) {
    this.#parts = parts;
    this.#key = key;
    this.#isDueAtFirst = isDueAtFirst;
  }

  /**
   * Returns the databases that this node should process next. Returns none if no round is due, or
   * if other nodes have claimed the rest.
   */
  take(signal: AbortSignal): Promise<readonly string[]> {
    return this.#parts.kv.transact((tx) => this.#take(tx), { signal, whenUnknown: "retry" });
  }

  async #take(tx: Transaction): Promise<readonly string[]> {
    const stored = await tx.get(this.#key);
    const nowMs = this.#parts.runtime.clock.nowMs();
    const beganMs = this.#isDueAtFirst ? nowMs - INTERVAL_MS : nowMs;
    const last: Round = stored === undefined ? { beganMs } : JSON.parse(utf8Decode(stored));
    const round =
      last.after === undefined && isOver(last, nowMs) ? { beganMs: nowMs, after: "" } : last;
    const { after } = round;
    if (after === undefined) {
      if (stored === undefined) this.#setRound(tx, round);
      return [];
    }
    const found = await this.#parts.databases.names(tx.snapshot, {
      startName: after,
      limit: PAGE_COUNT + 1,
    });
    const names = found.filter((name) => name !== after).slice(0, PAGE_COUNT);
    const isLast = found.length <= PAGE_COUNT;
    this.#setRound(tx, { beganMs: round.beganMs, ...(isLast ? {} : { after: names.at(-1) }) });
    return names;
  }

  #setRound(tx: Transaction, round: Round): void {
    tx.set(this.#key, utf8Encode(JSON.stringify(round)));
  }
}

/**
 * Whether the next round is due. Uses the absolute difference of the times, so that a clock that
 * was set back does not delay the round.
 */
function isOver({ beganMs }: Round, nowMs: number): boolean {
  return Math.abs(nowMs - beganMs) >= INTERVAL_MS;
}
