/**
 * Memory for the values of a transaction. Each value is copied, since its owner can change it
 * before the commit. A large transaction would create thousands of separate copies for the garbage
 * collector to trace. Beyond a certain size, values are therefore stored next to each other in
 * slabs, which return to the pool once the commit has been handed over.
 */
import { cutBytes } from "../../base/index.ts";
import { copyBytes } from "../key-bytes.ts";
import type { Value } from "../transaction.ts";

/** Size of a slab: two attachment chunks, or the records of a hundred small documents. */
const SLAB_BYTES = 131_072;
/** Maximum number of unused slabs in the pool, enough for two upload-sized transactions. */
const SPARE_COUNT_MAX = 20;
/**
 * Total length of a transaction's values that are copied individually; later values are copied into
 * slabs. Otherwise, each of a thousand small concurrent transactions would occupy a slab.
 */
const PLAIN_BYTES_MAX = 8_192;

/** Pool of unused slabs, shared by all transactions of a store. */
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
  /** Pool of the values' memory; absent if values outlive the transaction. */
  readonly #pool: SlabPool | undefined;
  #slabs: Uint8Array<ArrayBuffer>[] = [];
  #slab: Uint8Array<ArrayBuffer> | undefined;
  /** Bytes used in the current slab. */
  #usedBytes = 0;
  #plainBytes = 0;

  constructor(pool: SlabPool | undefined) {
    this.#pool = pool;
  }

  /**
   * Returns a constant value without copying it. If values outlive the transaction, returns a copy
   * instead, because a stored row would keep the whole underlying buffer alive.
   */
  constant(value: Value): Value {
    return this.#pool === undefined ? copyBytes(value) : value;
  }

  /** Returns a copy that is valid until `release`. */
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

  /** Returns the memory to the pool. Copies in it must no longer be used. */
  release(): void {
    this.#pool?.giveBack(this.#slabs);
    this.#slabs = [];
    this.#slab = undefined;
  }
}
