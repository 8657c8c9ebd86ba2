/**
 * Buffered writes of a transaction, by key. The transaction's own reads take them into account.
 * Cleared ranges are stored separately; an entry is always newer than a clear that covers it.
 */
import { assert } from "../../base/index.ts";
import { BEHIND_LAST_KEY, keyText } from "../key-bytes.ts";
import { type AtomicOperation, applyAtomic, type Mutation } from "../mutation.ts";
import type { Key, Value } from "../transaction.ts";
import type { VersionstampedBytes } from "../versionstamp.ts";
import { RangeSet } from "./range-set.ts";
import { SortedMap } from "./sorted-map.ts";
import { type SlabPool, ValueArena } from "./value-arena.ts";

/**
 * A buffered write: a mutation as passed to the commit, or operations on a stored value that this
 * transaction has not read.
 */
export type BufferedWrite =
  | (Mutation & { readonly kind: "set" | "clear" | "setVersionstampedValue" })
  | { readonly kind: "operations"; readonly operations: readonly Operation[] };

const STAMPED = "setVersionstampedValue";

/** A write of a versionstamped key. `versionMin`: lower bound of the version of the commit. */
interface StampedKey {
  readonly mutation: Mutation & { readonly kind: "setVersionstampedKey" };
  readonly versionMin: number;
}

/** The versionstamped keys with the same bytes before the stamp, in the order of their writes. */
interface StampedKeys {
  keys: StampedKey[];
  /** Whether the range that will contain the keys is marked as unreadable. */
  isMarked: boolean;
}

type Operation = Mutation & { readonly kind: AtomicOperation };

export class WriteBuffer {
  readonly #writes = new SortedMap<BufferedWrite>();
  readonly #cleared = new RangeSet();
  /** Versionstamped keys by the bytes before the stamp. */
  readonly #stampedKeys = new Map<string, StampedKeys>();
  /** Ranges that will contain versionstamped keys, and cannot be read before the commit. */
  readonly #unreadable = new RangeSet();
  #byteCount = 0;
  readonly #arena: ValueArena;

  /**
   * With a pool, values are valid until `release`. Without a pool, they are valid as long as they
   * are referenced.
   */
  constructor(pool?: SlabPool) {
    this.#arena = new ValueArena(pool);
  }

  get isEmpty(): boolean {
    return this.#writes.size === 0 && this.#cleared.isEmpty && this.#stampedKeys.size === 0;
  }

  /** Total size of all requested writes, including overwritten ones. */
  get byteCount(): number {
    return this.#byteCount;
  }

  /** `isConstant`: the value's bytes will not change. */
  set(key: Key, value: Value, isConstant = false): void {
    this.#byteCount += key.length + value.length;
    const text = keyText(key);
    const kept = isConstant ? this.#arena.constant(value) : this.#arena.copy(value);
    this.#writes.set(text, { kind: "set", key: text, value: kept });
  }

  clear(key: Key): void {
    this.#byteCount += key.length * 2 + 1;
    const text = keyText(key);
    this.#writes.set(text, { kind: "clear", key: text });
  }

  clearRange(begin: Key, end: Key): void {
    this.#byteCount += begin.length + end.length;
    const from = keyText(begin);
    const to = keyText(end);
    this.#writes.deleteRange(from, to);
    this.#cleared.add(from, to);
    this.#clearStamped(from, to);
  }

  operate(kind: AtomicOperation, key: Key, operand: Value): void {
    this.#byteCount += key.length + operand.length;
    const text = keyText(key);
    const known = this.#writes.get(text);
    assert(
      known?.kind !== STAMPED,
      "An atomic operation must not follow a versionstamped value in the same transaction",
    );
    const ownOperand = this.#arena.copy(operand);
    if (known?.kind === "operations") {
      const operations = joined(known.operations, { kind, key: text, operand: ownOperand });
      this.#writes.set(text, { kind: "operations", operations });
    } else if (known !== undefined || this.#cleared.contains(text)) {
      const stored = known?.kind === "set" ? known.value : undefined;
      const value = applyAtomic(kind, stored, ownOperand);
      this.#writes.set(text, { kind: "set", key: text, value });
    } else {
      const operations = [{ kind, key: text, operand: ownOperand }];
      this.#writes.set(text, { kind: "operations", operations });
    }
  }

  setStampedValue(key: Key, value: VersionstampedBytes): void {
    this.#byteCount += key.length + value.bytes.length;
    const own = { bytes: this.#arena.copy(value.bytes), offset: value.offset };
    const text = keyText(key);
    this.#writes.set(text, { kind: STAMPED, key: text, value: own });
  }

  /** `versionMin`: lower bound of the commit's version. */
  setStampedKey(key: VersionstampedBytes, value: Value, versionMin: number): void {
    this.#byteCount += key.bytes.length + value.length;
    const { offset } = key;
    const text = keyText(key.bytes);
    const ownValue = this.#arena.copy(value);
    const prefix = text.slice(0, offset);
    let group = this.#stampedKeys.get(prefix);
    if (group === undefined) {
      group = { keys: [], isMarked: false };
      this.#stampedKeys.set(prefix, group);
    }
    const mutation = { kind: "setVersionstampedKey", key: text, offset, value: ownValue } as const;
    group.keys.push({ mutation, versionMin });
    if (group.isMarked) return;
    group.isMarked = true;
    this.#unreadable.add(prefix + versionText(versionMin), prefix + BEHIND_STAMPS_TEXT);
  }

  /**
   * Clears versionstamped keys. As in FoundationDB, a key is cleared if its lowest possible
   * versionstamp is in the range.
   */
  #clearStamped(from: string, to: string): void {
    for (const [prefix, group] of this.#stampedKeys) {
      // Most cleared ranges cannot contain the keys.
      if (prefix >= to || prefix + BEHIND_STAMPS_TEXT <= from) continue;
      this.#unreadable.remove(from, to);
      group.isMarked = false;
      group.keys = group.keys.filter((each) => {
        const lowest = lowestKey(each);
        return lowest < from || lowest >= to;
      });
      if (group.keys.length === 0) this.#stampedKeys.delete(prefix);
    }
  }

  /**
   * The last write to the key, or "cleared" if a range clear covers it; `undefined` if this
   * transaction did not touch it.
   */
  find(text: string): BufferedWrite | "cleared" | undefined {
    const write = this.#writes.get(text);
    assert(
      write?.kind !== STAMPED && (this.#unreadable.isEmpty || !this.#unreadable.contains(text)),
      "A versionstamped key or value must not be read in the same transaction",
    );
    if (write !== undefined) return write;
    return this.#cleared.contains(text) ? "cleared" : undefined;
  }

  /** Whether a read of the range sees only stored data. */
  leavesAlone(begin: Key, end: Key): boolean {
    if (this.isEmpty) return true;
    const from = keyText(begin);
    const to = keyText(end);
    assert(
      this.#unreadable.isEmpty || !this.#unreadable.overlaps(from, to),
      "A versionstamped key or value must not be read in the same transaction",
    );
    return !this.#cleared.overlaps(from, to) && !this.#writes.hasInRange(from, to);
  }

  isCleared(text: string): boolean {
    return this.#cleared.contains(text);
  }

  /** The writes from `begin` (inclusive) to `end` (exclusive), in ascending or descending order. */
  within(begin: Key, end: Key, reverse: boolean): { text: string; write: BufferedWrite }[] {
    const found: { text: string; write: BufferedWrite }[] = [];
    const visit = (text: string, write: BufferedWrite): boolean => {
      assert(
        write.kind !== STAMPED,
        "A versionstamped key or value must not be read in the same transaction",
      );
      found.push({ text, write });
      return true;
    };
    if (reverse) this.#writes.scanReverse(keyText(begin), keyText(end), visit);
    else this.#writes.scan(keyText(begin), keyText(end), visit);
    return found;
  }

  /**
   * Mutations in the order in which they must be applied: range clears, then keys, then
   * versionstamped keys.
   */
  mutations(): Mutation[] {
    const mutations: Mutation[] = [];
    for (const { begin, end } of this.#cleared.ranges()) {
      mutations.push({ kind: "clearRange", begin, end });
    }
    this.#writes.scan("", END_TEXT, (_key, write) => {
      if (write.kind !== "operations") mutations.push(write);
      else for (const operation of write.operations) mutations.push(operation);
      return true;
    });
    // A versionstamped key is new, so no other write of the transaction can refer to it.
    for (const { keys } of this.#stampedKeys.values()) {
      for (const { mutation } of keys) mutations.push(mutation);
    }
    return mutations;
  }

  /** Releases the memory of values that are no longer read. */
  release(): void {
    this.#arena.release();
  }
}

/** The value after a buffered write, or `undefined` if the key is absent afterwards. */
export function valueAfter(write: BufferedWrite, stored: Value | undefined): Value | undefined {
  switch (write.kind) {
    case "set":
      return write.value;
    case "operations": {
      let value = stored;
      for (const { kind, operand } of write.operations) value = applyAtomic(kind, value, operand);
      return value;
    }
    default:
      return undefined;
  }
}

/**
 * Appends an operation. Merges operations of the same kind with operands of the same length, so
 * that a thousand increments of a counter cost the commit no more than one.
 */
function joined(operations: readonly Operation[], next: Operation): readonly Operation[] {
  const last = operations[operations.length - 1] as Operation;
  if (last.kind !== next.kind || last.operand.length !== next.operand.length) {
    return [...operations, next];
  }
  const operand = applyAtomic(next.kind, last.operand, next.operand);
  return [...operations.slice(0, -1), { ...next, operand }];
}

function lowestKey({ mutation: { key, offset }, versionMin }: StampedKey): string {
  return `${key.slice(0, offset)}${versionText(versionMin)}\0\0${key.slice(offset + 10)}`;
}

/** The first eight bytes of a versionstamp, as text. */
function versionText(version: number): string {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(version));
  return keyText(bytes);
}

/** Upper bound of all versionstamps, since no version is this high. */
const BEHIND_STAMPS_TEXT = "\xff".repeat(8);
const END_TEXT = keyText(BEHIND_LAST_KEY);
