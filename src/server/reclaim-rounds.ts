/**
 * Rounds through all databases, shared by the nodes of a store: each idle node takes the next page.
 * A page whose node dies waits for the next round.
 */
import { type Runtime, utf8Decode, utf8Encode } from "../base/index.ts";
import type { DatabaseRegistry } from "../databases/index.ts";
import type { KeyValueStore, Transaction } from "../kv/index.ts";
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
  /** The last database claimed by a node; "" before the first, undefined when all are claimed. */
  readonly after?: string | undefined;
}

export class ReclaimRounds {
  readonly #parts: ReclaimRoundsParts;

  constructor(parts: ReclaimRoundsParts) {
    this.#parts = parts;
  }

  /**
   * The databases that this node should process next; empty if no round is due or other nodes have
   * claimed the rest.
   */
  take(signal: AbortSignal): Promise<readonly string[]> {
    return this.#parts.kv.transact((tx) => this.#take(tx), { signal, whenUnknown: "retry" });
  }

  async #take(tx: Transaction): Promise<readonly string[]> {
    const stored = await tx.get(RECLAIM_ROUND_KEY);
    const nowMs = this.#parts.runtime.clock.nowMs();
    // A new store contains no old data, so its first round is due only later.
    const last: Round = stored === undefined ? { beganMs: nowMs } : JSON.parse(utf8Decode(stored));
    const round =
      last.after === undefined && isOver(last, nowMs) ? { beganMs: nowMs, after: "" } : last;
    const { beganMs, after } = round;
    if (after === undefined) {
      if (stored === undefined) setRound(tx, round);
      return [];
    }
    const found = await this.#parts.databases.names(tx.snapshot, {
      startName: after,
      limit: PAGE_COUNT + 1,
    });
    const names = found.filter((name) => name !== after).slice(0, PAGE_COUNT);
    const isLast = found.length <= PAGE_COUNT;
    setRound(tx, isLast ? { beganMs } : { beganMs, after: names.at(-1) });
    return names;
  }
}

/** Nodes' clocks differ. A clock that was set back would otherwise delay the next round. */
function isOver({ beganMs }: Round, nowMs: number): boolean {
  return Math.abs(nowMs - beganMs) >= INTERVAL_MS;
}

function setRound(tx: Transaction, round: Round): void {
  tx.set(RECLAIM_ROUND_KEY, utf8Encode(JSON.stringify(round)));
}
