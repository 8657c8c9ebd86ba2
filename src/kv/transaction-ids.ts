/**
 * Ids that are written with a transaction, so that a later transaction can check whether it was
 * committed (`whenUnknown: "check"`, the default). Once the outcome is known, the next transaction
 * that writes an id clears this one. Ids that a crash leaves behind are cleared after a day.
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

/**
 * Maximum number of ids of crashed processes that a transaction clears, so that the clean-up does
 * not make the transaction large.
 */
const CLEAR_COUNT_MAX = 64;

/**
 * Maximum number of settled ids that a transaction clears: more than it writes, so that the number
 * of settled ids falls.
 */
const SETTLED_COUNT_MAX = 4;

/** Age after which an id is cleared. The outcome of a commit is always known earlier. */
const LIFETIME_MS = 24 * 60 * 60 * 1_000;

export const KV_KEY_SHAPES: readonly KeyShape[] = [
  {
    key: '0xfe "id" (writtenAtMs, id)',
    value: "versionstamp of the commit, 12 bytes",
    note: "commit markers of transactions that are not idempotent; cleared by a later one of these, or after a day",
  },
];

export class TransactionIds {
  readonly #clock: Runtime["clock"];
  readonly #random: Random;
  /** Ids with a known outcome, in the order in which later transactions clear them. */
  readonly #settled = new Set<Uint8Array>();
  #areOldLeft = true;

  constructor(runtime: Runtime) {
    this.#clock = runtime.clock;
    this.#random = runtime.random.fork("kv.transaction-ids");
  }

  /** Generates an id and returns its key. */
  draw(): Uint8Array {
    return IDS.pack([Math.floor(this.#clock.nowMs()), this.#random.bytes(ID_BYTES)]);
  }

  /**
   * Whether ids of crashed processes might remain. While this is true, each transaction that writes
   * an id also clears a page of them.
   */
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

  /** Writes the id, and clears ids of transactions whose outcome is known. */
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
   * Returns the next settled ids and moves them to the end, so that concurrent transactions clear
   * different ids. A commit removes the cleared ids from the list.
   */
  #nextSettled(): Uint8Array[] {
    const next: Uint8Array[] = [];
    for (const settled of this.#settled) {
      if (next.length === SETTLED_COUNT_MAX) break;
      next.push(settled);
    }
    for (const settled of next) {
      this.#settled.delete(settled);
      this.#settled.add(settled);
    }
    return next;
  }
}
