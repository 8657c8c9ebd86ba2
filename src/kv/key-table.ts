/**
 * Declares the keys of a layer as one table. Packing, ranges and the rows of `docs/keyspace.md` are
 * derived from the table.
 *
 *     const ROWS = {
 *       job: keyRow<{ type: string; id: string }>(2, ["type", "id"], "JobFacts", "lock, schedule"),
 *     };
 *     const keys = keyTable(ROWS)(subspace);
 *     keys.job.key({ type: "a", id: "b" });   // the tuple (2, "a", "b") below the subspace
 *     keys.job.range({ type: "a" });          // all jobs of the type
 *     keys.job.unpack(key).id;
 */
import { assert } from "../base/index.ts";
import type { KeyShape } from "./key-shape.ts";
import type { Subspace } from "./subspace.ts";
import type { Key } from "./transaction.ts";
import type { TupleItem } from "./tuple.ts";
import { Versionstamp, type VersionstampedBytes } from "./versionstamp.ts";

/** A range between two keys. */
export interface KeyBounds {
  readonly begin: Key;
  readonly end: Key;
}

/** Elements of a key by name, without the leading number. */
type Elements = Readonly<Record<string, TupleItem>>;

/** The first elements, which all keys of a range have in common. */
type First<Of> = { readonly [Name in keyof Of]?: Of[Name] };

/** One kind of key: a number, then the named elements in this order. */
export interface KeyRow<Of> {
  readonly number: number;
  readonly names: readonly (keyof Of & string)[];
  readonly value: string;
  readonly note: string;
}

/** `value` and `note` document the row: the stored value, and its order, lifetime and use. */
export function keyRow<Of extends Elements>(
  number: number,
  names: readonly (keyof Of & string)[],
  value: string,
  note: string,
): KeyRow<Of> {
  return { number, names, value, note };
}

/** Packs and unpacks the keys of one row. */
export class Keys<Of extends Elements> {
  readonly #subspace: Subspace;
  readonly #row: KeyRow<Of>;

  constructor(subspace: Subspace, row: KeyRow<Of>) {
    this.#subspace = subspace;
    this.#row = row;
  }

  key(elements: Of): Key {
    const { number, names } = this.#row;
    const tuple: TupleItem[] = [number];
    for (let at = 0; at < names.length; at++) {
      const item = elements[names[at] as keyof Of];
      assert(item !== undefined, "A key must have all elements of its row");
      tuple.push(item);
    }
    return this.#subspace.pack(tuple);
  }

  /** A key whose element `versionstamp` is completed at commit. */
  newKey(elements: Omit<Of, "versionstamp">, userVersion: number): VersionstampedBytes {
    const versionstamp = Versionstamp.incomplete(userVersion);
    return this.#subspace.packVersionstamped(this.#tuple({ ...elements, versionstamp }));
  }

  /** Packs only the leading elements, as a bound of a range. */
  prefixKey(first: First<Of>): Key {
    return this.#subspace.pack(this.#tuple(first));
  }

  /** Returns the range of keys that extend these leading elements. */
  range(first: First<Of> = {}): KeyBounds {
    return this.#subspace.range(this.#tuple(first));
  }

  /**
   * Returns the range of keys with the leading elements `first`, or with a smaller value in place
   * of the last of these elements.
   */
  rangeUntil(first: First<Of>): KeyBounds {
    const tuple = this.#tuple(first);
    const { begin } = this.#subspace.range(tuple.slice(0, -1));
    return { begin, end: this.#subspace.range(tuple).end };
  }

  /** Like `rangeUntil`, but excludes the keys whose last element equals that of `first`. */
  rangeBefore(first: First<Of>): KeyBounds {
    const tuple = this.#tuple(first);
    const { begin } = this.#subspace.range(tuple.slice(0, -1));
    return { begin, end: this.#subspace.pack(tuple) };
  }

  unpack(key: Key): Of {
    const items = this.#subspace.unpack(key);
    const elements: Record<string, unknown> = {};
    // A loop, because this is called for each row of a range.
    for (const [at, name] of this.#row.names.entries()) elements[name] = items[at + 1];
    return elements as Of;
  }

  /**
   * Returns the number of the key kind, and the leading elements that are given. Throws if one of
   * these is undefined, because a range with fewer elements would contain unrelated keys.
   */
  #tuple(elements: First<Elements>): TupleItem[] {
    const tuple: TupleItem[] = [this.#row.number];
    for (const name of this.#row.names) {
      if (!(name in elements)) break;
      const item = elements[name];
      assert(item !== undefined, "An element of a key must be defined");
      tuple.push(item);
    }
    return tuple;
  }
}

type Rows = Readonly<Record<string, KeyRow<never>>>;

type ElementsOf<Row> = Row extends KeyRow<infer Of> ? (Of extends Elements ? Of : never) : never;

/** The keys of each row of a table. */
export type KeysOf<Table> = { readonly [Name in keyof Table]: Keys<ElementsOf<Table[Name]>> };

/**
 * Returns a function that returns the keys of a table within a subspace. Each row's keys are
 * created when used, because every transaction opens a database, and uses few of its rows.
 */
export function keyTable<Table extends Rows>(table: Table): (subspace: Subspace) => KeysOf<Table> {
  class TableKeys {
    readonly subspace: Subspace;

    constructor(subspace: Subspace) {
      this.subspace = subspace;
    }
  }
  for (const [name, row] of Object.entries(table)) {
    Object.defineProperty(TableKeys.prototype, name, {
      get(this: TableKeys) {
        return new Keys(this.subspace, row);
      },
    });
  }
  return (subspace) => new TableKeys(subspace) as unknown as KeysOf<Table>;
}

/** The rows of `docs/keyspace.md`, in the order of the table. */
export function keyShapes(table: Rows): KeyShape[] {
  return Object.values(table).map(({ number, names, value, note }) => {
    return { key: `(${[number, ...names].join(", ")})`, value, note };
  });
}
