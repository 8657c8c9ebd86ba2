/** A key prefix, and the tuples below it. */
import { assert, EMPTY_BYTES, startsWithBytes } from "../base/index.ts";
import type { Key } from "./transaction.ts";
import {
  packTuple,
  packTupleVersionstamped,
  type Tuple,
  type TupleItem,
  unpackTuple,
} from "./tuple.ts";
import type { VersionstampedBytes } from "./versionstamp.ts";

export class Subspace {
  readonly prefix: Uint8Array;

  constructor(prefix: Uint8Array = EMPTY_BYTES) {
    this.prefix = prefix;
  }

  static fromTuple(tuple: Tuple): Subspace {
    return new Subspace(packTuple(tuple));
  }

  subspace(...items: TupleItem[]): Subspace {
    return new Subspace(this.pack(items));
  }

  pack(tuple: Tuple): Key {
    return packTuple(tuple, this.prefix);
  }

  /** A key with exactly one incomplete versionstamp, which the commit completes. */
  packVersionstamped(tuple: Tuple): VersionstampedBytes {
    return packTupleVersionstamped(tuple, this.prefix);
  }

  /** The items of a key in this subspace, without the items of the prefix. */
  unpack(key: Key): TupleItem[] {
    assert(this.contains(key), "The key must be in the subspace");
    return unpackTuple(key, this.prefix.length);
  }

  contains(key: Key): boolean {
    return startsWithBytes(key, this.prefix);
  }

  /** Range of the keys that extend the tuple. The tuple's own key is excluded. */
  range(tuple: Tuple = []): { readonly begin: Key; readonly end: Key } {
    const key = this.pack(tuple);
    return { begin: keyThen(key, 0x00), end: keyThen(key, 0xff) };
  }
}

function keyThen(key: Key, byte: number): Key {
  const longer = new Uint8Array(key.length + 1);
  longer.set(key);
  longer[key.length] = byte;
  return longer;
}
