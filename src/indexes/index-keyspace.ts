/** Keys of a database's indexes, in its subspace, and the records stored under them as JSON. */
import { assert, parseJson, printJson, utf8Decode, utf8Encode } from "../base/index.ts";
import type { Key, KeyShape, Subspace } from "../kv/index.ts";
import type { IndexDefinition } from "./index-definition.ts";

const NEXT_NUMBER = 0;
const DEFINITION = 1;
const STATE = 2;
const ENTRY = 3;
const ENTRY_OF = 4;

/** Key shapes below `(2, uuid, 20)` in the databases' subspace. */
export const INDEX_KEY_SHAPES: readonly KeyShape[] = [
  { key: "(0)", value: "JSON", note: "the number of the next index; numbers are never reused" },
  { key: "(1, number)", value: "JSON", note: "the definition of an index" },
  {
    key: "(2, number)",
    value: "JSON",
    note: "progress of the index's first build, or ready; watched",
  },
  {
    key: "(3, number) + encoded values + document id",
    value: "mark + id",
    note: "an index entry (`index-key.ts`); the mark is 1 if the key contains the values in full, without truncation",
  },
  { key: "(4, number, id)", value: "mark + values", note: "the values of a document's entry" },
];

/** Format version of entries. Entries of another version are rebuilt. */
export const ENTRY_FORM = 4;

/** The stored form of an index. */
export interface StoredIndex extends IndexDefinition {
  readonly number: number;
  /** Version of the entries: their format, and the collation that orders them. */
  readonly version: string;
}

/** Progress of the first build of an index. */
export interface IndexState {
  readonly isReady: boolean;
  /** The last document processed, in id order; absent before the first. */
  readonly lastId?: string | undefined;
  readonly doneCount: number;
  /** Number of documents in the database when the build began; absent until then. */
  readonly totalCount?: number | undefined;
  readonly startedMs: number;
  readonly updatedMs: number;
}

export class IndexKeyspace {
  readonly #root: Subspace;

  constructor(root: Subspace) {
    this.#root = root;
  }

  nextNumber(): Key {
    return this.#root.pack([NEXT_NUMBER]);
  }

  definition(number: number): Key {
    return this.#root.pack([DEFINITION, number]);
  }

  definitions() {
    return this.#root.range([DEFINITION]);
  }

  state(number: number): Key {
    return this.#root.pack([STATE, number]);
  }

  /** Returns the prefix of the keys of all entries of the index `number`. */
  entryPrefix(number: number): Key {
    return this.#root.pack([ENTRY, number]);
  }

  entryOf(number: number, id: string): Key {
    return this.#root.pack([ENTRY_OF, number, id]);
  }

  entriesOf(number: number) {
    return this.#root.range([ENTRY_OF, number]);
  }
}

export function encodeJsonRecord(value: unknown): Uint8Array {
  return utf8Encode(printJson(value));
}

export function decodeJsonRecord<T>(value: Uint8Array): T {
  const record = parseJson(utf8Decode(value));
  assert(record !== null, "The stored record must not be null");
  return record as T;
}
