/**
 * Memory for the values of a transaction. Each value is copied, since its owner may change it before the commit. The
 * garbage collector has to find each separate copy, and a large transaction makes thousands. So from a certain size on,
 * values lie side by side in slabs, which return to their pool once the commit has been handed over.
 */
import { cutBytes } from "../base/index.ts";
import { copyBytes } from "./key-bytes.ts";
import type { Value } from "./transaction.ts";

/** Two chunks of an attachment, or the records of a hundred small documents. */
const SLAB_BYTES = 131_072;
/** What the pool keeps: the slabs of two transactions that are as large as those of an upload. */
const SPARE_COUNT_MAX = 20;
/** The first bytes are copied one by one: of a thousand small transactions at once, each would have a slab to itself. */
const PLAIN_BYTES_MAX = 8_192;

/** Unused slabs. One pool serves all transactions of a store. */
export class SlabPool {
  readonly #spares: Uint8Array<ArrayBuffer>[] = [];

  take(): Uint8Array<ArrayBuffer> {
    return this.#spares.pop() ?? new Uint8Array(SLAB_BYTES);
  }

  giveBack(slabs: readonly Uint8Array<ArrayBuffer>[]): void {
    for (const slab of slabs) {
      if (this.#spares.length >= SPARE_COUNT_MAX) return;
      this.#spares.push(slab);
    }
  }
}

export class ValueArena {
  /** Undefined where values outlive the transaction. */
  readonly #pool: SlabPool | undefined;
  #slabs: Uint8Array<ArrayBuffer>[] = [];
  #slab: Uint8Array<ArrayBuffer> | undefined;
  /** In the slab at hand. */
  #usedBytes = 0;
  #plainBytes = 0;

  constructor(pool: SlabPool | undefined) {
    this.#pool = pool;
  }

  /** What nobody changes is copied only where it outlives the transaction: a row would keep the memory of all that is around it. */
  constant(value: Value): Value {
    return this.#pool === undefined ? copyBytes(value) : value;
  }

  /** A copy, for as long as `release` is not called. */
  copy(value: Value): Value {
    const { length } = value;
    if (this.#pool === undefined || length > SLAB_BYTES) return copyBytes(value);
    if (this.#plainBytes + length <= PLAIN_BYTES_MAX) {
      this.#plainBytes += length;
      return cutBytes(value, 0, length);
    }
    if (this.#slab === undefined || this.#usedBytes + length > SLAB_BYTES) {
      this.#slab = this.#pool.take();
      this.#slabs.push(this.#slab);
      this.#usedBytes = 0;
    }
    const copy = new Uint8Array(this.#slab.buffer, this.#usedBytes, length);
    copy.set(value);
    this.#usedBytes += length;
    return copy;
  }

  /** Gives the memory back; of the copies in it none may be looked at any more. */
  release(): void {
    this.#pool?.giveBack(this.#slabs);
    this.#slabs = [];
    this.#slab = undefined;
  }
}
