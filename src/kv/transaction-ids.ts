/**
 * Ids that are written with a transaction, so that a later one can see whether it was committed
 * (`whenUnknown: "check"`, the default). The next such transaction clears the id of a transaction
 * that has been settled. Ids that a crash leaves behind are cleared after a day.
 *
 *   0xfe "id" (writtenAtMs, id) = versionstamp of the commit
 */
import { concatBytes, type Random, type Runtime, utf8Encode } from "../base/index.ts";
import type { KeyShape } from "./key-shape.ts";
import { Subspace } from "./subspace.ts";
import type { ReadTransaction, Transaction } from "./transaction.ts";
import { Versionstamp } from "./versionstamp.ts";

/** No tuple begins with 0xfe, so this does not overlap any layer's keys. */
const IDS = new Subspace(concatBytes([new Uint8Array([0xfe]), utf8Encode("id")]));

const ID_BYTES = 16;

/** Bounds the clean-up for others, so that it does not make a transaction large. */
const CLEAR_COUNT_MAX = 64;

/** No outcome stays unknown for this long. */
const LIFETIME_MS = 24 * 60 * 60 * 1_000;

export const KV_KEY_SHAPES: readonly KeyShape[] = [
  {
    key: '0xfe "id" (writtenAtMs, id)',
    value: "versionstamp of the commit, 12 bytes",
    note: "of transactions that are not idempotent; cleared by the next one, at the latest after a day",
  },
];

export class TransactionIds {
  readonly #clock: Runtime["clock"];
  readonly #random: Random;
  /** In the order in which later transactions clear them. */
  readonly #settled = new Set<Uint8Array>();
  #areOldLeft = true;

  constructor(runtime: Runtime) {
    this.#clock = runtime.clock;
    this.#random = runtime.random.fork("kv.transaction-ids");
  }

  /** Draws a new id and returns its key. */
  draw(): Uint8Array {
    return IDS.pack([Math.floor(this.#clock.nowMs()), this.#random.bytes(ID_BYTES)]);
  }

  /** Whether ids of crashed processes may remain. The first transactions clear a page each. */
  get areOldLeft(): boolean {
    return this.#areOldLeft;
  }

  async clearOld(tx: Transaction): Promise<void> {
    const endMs = Math.max(0, this.#clock.nowMs() - LIFETIME_MS);
    const range = { begin: IDS.range().begin, end: IDS.pack([Math.floor(endMs)]) };
    const page = await tx.snapshot.getRangePage(range, { limit: CLEAR_COUNT_MAX });
    for (const { key } of page.entries) tx.clear(key);
    if (page.stoppedBy === "exhausted") tx.afterCommit(() => (this.#areOldLeft = false));
  }

  /** Writes the id and clears those of settled transactions. */
  write(tx: Transaction, id: Uint8Array): void {
    const cleared = this.#nextSettled();
    for (const settled of cleared) tx.clear(settled);
    tx.afterCommit(() => {
      for (const settled of cleared) this.#settled.delete(settled);
    });
    const stamp = Versionstamp.incomplete();
    tx.setVersionstampedValue(id, { bytes: stamp.bytes, offset: 0 });
  }

  async find(tx: ReadTransaction, id: Uint8Array): Promise<Versionstamp | undefined> {
    const stored = await tx.get(id);
    return stored && Versionstamp.fromBytes(stored);
  }

  /** Marks the outcome of the transaction as known. */
  settle(id: Uint8Array): void {
    this.#settled.add(id);
  }

  /**
   * Moves them to the end, so that concurrent transactions clear different ones. A commit removes
   * them.
   */
  #nextSettled(): Uint8Array[] {
    const next: Uint8Array[] = [];
    for (const settled of this.#settled) {
      if (next.length === CLEAR_COUNT_MAX) break;
      next.push(settled);
    }
    for (const settled of next) {
      this.#settled.delete(settled);
      this.#settled.add(settled);
    }
    return next;
  }
}
