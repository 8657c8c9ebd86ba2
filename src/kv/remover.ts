/**
 * Service of every node that carries out queued removals (`removals.ts`), one page per transaction.
 * A page is bounded in keys and bytes. After each page, the remover pauses for the page's duration,
 * so that other writers can use the store in between. A claim on the row keeps two nodes from
 * working on the same removal; when a node dies, its claim lapses and another node continues.
 */
import { type Random, type Runtime, randomHex, waitAtMost } from "../base/index.ts";
import { keyAfter } from "./key-bytes.ts";
import type { KeyValueStore } from "./key-value-store.ts";
import {
  clearRemoval,
  getRemoval,
  listRemovals,
  type Removal,
  type RemovalKind,
  setRemoval,
  watchRemovals,
} from "./removals.ts";
import type { Transaction } from "./transaction.ts";

/**
 * Maximum number of keys per page. Lower than the limit of a transaction, because the rows of a
 * page become garbage, for which V8 enlarges its heap.
 */
const PAGE_KEYS_MAX = 500;
const PAGE_BYTES_MAX = 524_288;
/** Maximum number of removals per round. A round removes one page per removal. */
const ROUND_COUNT_MAX = 100;
/** Validity of a claim. Removing a page takes milliseconds and renews the claim. */
const CLAIM_MS = 5_000;
const REST_MS_MAX = 1_000;
/** Upper bound for the wait for new removals, in case a watch is missed. */
const LOOK_MS = 60_000;

export interface RemovedPage {
  readonly keyCount: number;
  readonly byteCount: number;
  readonly isLast: boolean;
}

/** Removes the next page of rows, for a removal that cannot simply clear its range. */
export type RemovePage = (tx: Transaction, removal: Removal) => Promise<RemovedPage>;

export interface RemoverParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  /** Name of the node, for operators. */
  readonly node: string;
  /** Handlers for the kinds of removals that cannot simply clear their range. */
  readonly handlers?: Partial<Readonly<Record<RemovalKind, RemovePage>>>;
}

type PageOutcome = "removed" | "finished" | "claimed-by-other" | "gone";

export class Remover {
  readonly name = "kv.remover";
  readonly #parts: RemoverParts;
  readonly #random: Random;
  readonly #claimId: string;

  constructor(parts: RemoverParts) {
    this.#parts = parts;
    this.#random = parts.runtime.random.fork("kv.remover");
    this.#claimId = randomHex(this.#random);
  }

  /** Removes all queued ranges that no other node has claimed. */
  async once(signal: AbortSignal): Promise<void> {
    const { kv } = this.#parts;
    let isBusy = true;
    while (isBusy && !signal.aborted) {
      const removals = await kv.read((tx) => listRemovals(tx, ROUND_COUNT_MAX));
      isBusy = await this.#round(removals, signal);
    }
  }

  async run(signal: AbortSignal): Promise<void> {
    const { kv, runtime } = this.#parts;
    while (!signal.aborted) {
      const { removals, watch } = await kv.transact(async (tx) => ({
        removals: await listRemovals(tx.snapshot, ROUND_COUNT_MAX),
        watch: watchRemovals(tx),
      }));
      try {
        const isBusy = await this.#round(removals, signal);
        if (isBusy || signal.aborted) continue;
        const waitMs = removals.length > 0 ? CLAIM_MS : LOOK_MS;
        await waitAtMost(runtime.clock, waitMs, signal, (over) => watch.fired(over));
      } finally {
        watch.cancel();
      }
    }
  }

  /** Removes one page of each removal. Returns whether there was work for this node. */
  async #round(removals: readonly Removal[], signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#parts.runtime;
    let isBusy = false;
    // Starts at a random removal, so that nodes starting together claim different removals.
    const start = this.#random.integer(Math.max(1, removals.length));
    for (const removal of [...removals.slice(start), ...removals.slice(0, start)]) {
      if (signal.aborted) return isBusy;
      const beganMs = clock.monotonicMs();
      const outcome = await this.#removePage(removal, signal);
      if (outcome === "claimed-by-other") continue;
      isBusy = true;
      const restMs = Math.min(clock.monotonicMs() - beganMs, REST_MS_MAX);
      await clock.sleep(restMs, signal).catch(() => {});
    }
    return isBusy;
  }

  async #removePage(listed: Removal, signal: AbortSignal): Promise<PageOutcome> {
    const { kv, runtime } = this.#parts;
    const { kind, subject } = listed;
    const { outcome, page, total } = await kv.transact(
      async (tx) => {
        const nowMs = Math.floor(runtime.clock.nowMs());
        const removal = await getRemoval(tx, listed);
        if (removal === undefined) return { outcome: "gone" as const };
        if (this.#isClaimedByOther(removal, nowMs)) return { outcome: "claimed-by-other" as const };
        const page = await (this.#parts.handlers?.[kind] ?? this.#clearPage)(tx, removal);
        const keyCount = removal.keyCount + page.keyCount;
        const byteCount = removal.byteCount + page.byteCount;
        const claim = { id: this.#claimId, node: this.#parts.node, untilMs: nowMs + CLAIM_MS };
        if (page.isLast) clearRemoval(tx, removal);
        else setRemoval(tx, { ...removal, updatedMs: nowMs, keyCount, byteCount, claim });
        const outcome: PageOutcome = page.isLast ? "finished" : "removed";
        return { outcome, page, total: { keyCount, byteCount } };
      },
      { signal, whenUnknown: "retry" },
    );
    const { trace } = runtime;
    if (page !== undefined) {
      const { keyCount, byteCount } = page;
      trace.event("kv.page-removed", { kind, keyCount, byteCount });
    }
    if (outcome === "finished") trace.event("kv.removed", { kind, subject, ...total });
    return outcome;
  }

  /**
   * Whether another remover has a valid claim. Since the clocks of nodes differ, a claim that ends
   * more than `CLAIM_MS` from now is ignored.
   */
  #isClaimedByOther({ claim }: Removal, nowMs: number): boolean {
    if (claim === undefined || claim.id === this.#claimId) return false;
    return nowMs < claim.untilMs && claim.untilMs - nowMs <= CLAIM_MS;
  }

  readonly #clearPage: RemovePage = async (tx, { begin, end }) => {
    if (this.#parts.kv.clearsRangesAtOnce) {
      tx.clearRange({ begin, end });
      return { keyCount: 0, byteCount: 0, isLast: true };
    }
    const { entries, stoppedBy } = await tx.snapshot.getRangePage(
      { begin, end },
      { limit: PAGE_KEYS_MAX, byteLimit: PAGE_BYTES_MAX, lengthsOnly: true },
    );
    const last = entries.at(-1);
    if (last !== undefined) tx.clearRange({ begin, end: keyAfter(last.key) });
    let byteCount = 0;
    for (const { key, value } of entries) byteCount += key.length + value.length;
    return { keyCount: entries.length, byteCount, isLast: stoppedBy === "exhausted" };
  };
}
