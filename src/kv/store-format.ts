/**
 * The format in which a store is written: a number stored at a key, which only increases. Nodes of
 * different versions can share a store, because all of them write rows of this format.
 */
import { utf8Decode, utf8Encode } from "../base/index.ts";
import type { Key, ReadTransaction, Transaction, Value } from "./transaction.ts";

export class StoreFormat {
  readonly key: Key;
  /** The highest format that was read. */
  #seen = 0;

  constructor(key: Key) {
    this.key = key;
  }

  /** Returns the format; undefined in an empty store. */
  async read(tx: ReadTransaction): Promise<number | undefined> {
    return formatOf(await tx.get(this.key));
  }

  /**
   * Whether rows of format `number` are allowed. A transaction for which this is false conflicts
   * with the transaction that enables the format.
   */
  async includes(tx: ReadTransaction, number: number): Promise<boolean> {
    // Formats are never disabled, so a format that was once seen need not be read again.
    if (this.#seen >= number) return true;
    const format = (await this.read(tx)) ?? 0;
    this.#seen = Math.max(this.#seen, format);
    return format >= number;
  }

  write(tx: Transaction, number: number): void {
    tx.set(this.key, utf8Encode(String(number)));
  }
}

/** Returns the number in a stored record. */
export function formatOf(value: Value | undefined): number | undefined {
  return value && Number(utf8Decode(value));
}
