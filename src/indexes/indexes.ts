/**
 * The indexes of databases. The transaction that writes a design document registers its
 * definitions. From then on, every write of a document updates its entries in the same transaction.
 * Existing documents are read by the first build (`index-builds.ts`), page by page.
 */
import {
  append,
  compareBytes,
  concatBytes,
  type Digests,
  equalBytes,
  type JsonText,
  type Page,
  printJson,
  type Runtime,
  type Utf8Text,
  utf8Decode,
  utf8Encode,
  Yielder,
} from "../base/index.ts";
import {
  type DatabaseHook,
  type Document,
  type HookedDatabase,
  type Revision,
  shareOfIndexes,
} from "../databases/index.ts";
import type { DesignFunctions, DocumentSelector } from "../documents/index.ts";
import {
  keyAfter,
  type ReadTransaction,
  removeInBackground,
  type Transaction,
  type Watch,
} from "../kv/index.ts";
import { Collation } from "./collation.ts";
import {
  areSameEntries,
  compileFilter,
  definitionsOf,
  fieldPaths,
  INDEXES_MAX,
  type IndexDefinition,
} from "./index-definition.ts";
import { type EntryRange, type FieldRange, IndexKeys, readValues } from "./index-key.ts";
import {
  decodeJsonRecord,
  ENTRY_FORM,
  encodeJsonRecord,
  IndexKeyspace,
  type IndexState,
  type StoredIndex,
} from "./index-keyspace.ts";
import {
  CONFLICTS,
  type IndexedDocument,
  type Indexing,
  indexedDocument,
} from "./indexed-document.ts";

const DESIGN_PREFIX = "_design/";
/** Upper bound of the ids of design documents. */
const DESIGN_END = "_design0";
/** Size above which processing a design document yields to the event loop. */
const LONG_BYTES = 262_144;
/** Maximum number of cached index sets. */
const CACHED_SETS_MAX = 1_000;

/** Adds the job of an index's first build, in the transaction that registers the index. */
export type ScheduleBuild = (
  tx: Transaction,
  database: Pick<HookedDatabase, "name" | "uuid">,
  index: StoredIndex,
) => Promise<void>;

export interface IndexesParts {
  readonly runtime: { readonly clock: Runtime["clock"]; readonly digests: Digests };
  readonly scheduleBuild: ScheduleBuild;
  /** Sandbox for long-running filters. */
  readonly functions: DesignFunctions;
}

/** An index prepared for use. */
export class Index implements Indexing {
  readonly stored: StoredIndex;
  readonly paths: readonly (readonly string[])[];
  readonly filter: DocumentSelector | undefined;
  /** Whether entries depend on revisions other than the winner. */
  readonly readsConflicts: boolean;
  readonly #keys: IndexKeys;

  constructor(stored: StoredIndex, collation: Collation) {
    this.stored = stored;
    this.paths = fieldPaths(stored);
    this.filter =
      stored.partialFilter === undefined ? undefined : compileFilter(stored.partialFilter);
    this.readsConflicts =
      this.paths.some(([name]) => name === CONFLICTS) ||
      printJson(stored.partialFilter ?? null).includes(CONFLICTS);
    this.#keys = new IndexKeys(collation, stored.fields.length);
  }

  get number(): number {
    return this.stored.number;
  }

  /**
   * Returns the values of a document's entry, or `undefined` if it has no entry, because it lacks a
   * field or does not pass the filter.
   */
  valuesOf(document: IndexedDocument): EntryValues | undefined {
    const values: unknown[] = [];
    for (const path of this.paths) {
      const value = document.valueAt(path);
      if (value === undefined) return undefined;
      values.push(value);
    }
    if (this.filter !== undefined && !document.passes(this.filter)) return undefined;
    const { bytes, isWhole } = this.#keys.entry(values);
    const isExact =
      isWhole && this.paths.every((path, at) => document.hasPlainly(path, values[at]));
    return { bytes, isExact };
  }

  /** Returns the stored values of an entry, with the paths of their fields. */
  decodeValues(bytes: Uint8Array): [path: readonly string[], value: JsonText][] {
    const values = readValues(bytes, this.paths.length);
    return this.paths.map((path, at) => [path, values[at] as JsonText]);
  }

  range(ranges: readonly FieldRange[]): EntryRange {
    return this.#keys.range(ranges);
  }
}

/** The values of a document's entry. */
export interface EntryValues {
  readonly bytes: Uint8Array;
  /** Whether the bytes reproduce all values exactly as written in the document. */
  readonly isExact: boolean;
}

/** A document's position in an index. */
export interface Entry {
  readonly id: string;
  /** The bytes of the entry's values and id. */
  readonly place: Uint8Array;
  /**
   * Input of `Index.decodeValues`; undefined if the exact values must be read from the document.
   */
  readonly values: Uint8Array | undefined;
}

export interface EntriesOptions {
  readonly range: EntryRange;
  /** Position after which to start. The entry at this position might no longer exist. */
  readonly after: Uint8Array | undefined;
  readonly descending: boolean;
  readonly limit: number;
}

/** A row to be written. */
interface EntryRow {
  readonly id: string;
  readonly index: Index;
  readonly key: Uint8Array;
  readonly values: EntryValues | undefined;
}

interface IndexSet {
  readonly name: number;
  readonly indexes: readonly Index[];
  readonly isOutdated: boolean;
}

const NO_INDEXES: readonly Index[] = [];

export class Indexes {
  readonly #parts: IndexesParts;
  #collation: Promise<Collation> | undefined;
  /**
   * Uuids of databases whose design documents were checked and define no indexes. A later design
   * document is registered when it is written.
   */
  readonly #withoutDefinitions = new Set<string>();
  /** Cached index sets by database uuid, least recently used first. */
  readonly #sets = new Map<string, IndexSet>();

  constructor(parts: IndexesParts) {
    this.#parts = parts;
  }

  /** Hook that registers definitions in design documents and maintains entries. */
  get hook(): DatabaseHook {
    return {
      appliesTo: () => true,
      afterBatch: (tx, database, { ids, indexSet }) => {
        const designs = ids.filter((id) => id.startsWith(DESIGN_PREFIX));
        if (indexSet === 0 && designs.length === 0) return Promise.resolve();
        return this.#afterBatch(tx, database, ids, designs);
      },
    };
  }

  /**
   * Returns the indexes of the database, in order of creation. Their entries might be outdated;
   * `renew` rebuilds them.
   */
  async list(tx: ReadTransaction, database: HookedDatabase): Promise<readonly Index[]> {
    return (await this.#set(tx, database))?.indexes ?? NO_INDEXES;
  }

  /**
   * Whether `renew` has work: there are unregistered design documents, or entries with another
   * format or version of ICU.
   */
  async needsRenewal(tx: ReadTransaction, database: HookedDatabase): Promise<boolean> {
    if (database.isSealed) return false;
    const set = await this.#set(tx, database);
    if (set !== undefined) return set.isOutdated;
    if (this.#withoutDefinitions.has(database.uuid)) return false;
    const yielder = new Yielder(this.#parts.runtime.clock);
    for await (const { body, id } of designDocuments(tx, database)) {
      if ((await definitionsOf(id, body, yielder)).length > 0) return true;
    }
    if (this.#withoutDefinitions.size >= CACHED_SETS_MAX) this.#withoutDefinitions.clear();
    this.#withoutDefinitions.add(database.uuid);
    return false;
  }

  /**
   * Registers the definitions of all design documents, and replaces indexes with outdated entries.
   */
  async renew(tx: Transaction, database: HookedDatabase): Promise<void> {
    const ids = new Set((await this.list(tx, database)).map(({ stored }) => stored.design));
    for await (const { id } of designDocuments(tx, database)) ids.add(id);
    await this.#followDesigns(tx, database, [...ids]);
  }

  /** Returns a page of entries after the position `after`, in ascending or descending order. */
  async entries(
    tx: ReadTransaction,
    database: HookedDatabase,
    index: Index,
    { range, after, descending, limit }: EntriesOptions,
  ): Promise<Page<Entry>> {
    const prefix = keyspaceOf(database).entryPrefix(index.number);
    let begin: Uint8Array = concatBytes([prefix, range.begin]);
    let end = concatBytes([prefix, range.end]);
    if (after !== undefined) {
      const place = concatBytes([prefix, after]);
      if (descending) end = compareBytes(place, end) < 0 ? place : end;
      else begin = compareBytes(keyAfter(place), begin) > 0 ? keyAfter(place) : begin;
    }
    if (compareBytes(begin, end) >= 0) return { entries: [], stoppedBy: "exhausted" };
    const page = await tx.getRangePage({ begin, end }, { limit, reverse: descending });
    const entries = page.entries.map(({ key, value }): Entry => {
      const place = key.slice(prefix.length);
      const id = value.subarray(MARK_LENGTH);
      const values = value[0] === EXACT ? place.subarray(0, place.length - id.length) : undefined;
      return { id: utf8Decode(id), place, values };
    });
    return { entries, stoppedBy: page.stoppedBy };
  }

  /**
   * Returns the progress of an index's first build, or `undefined` if the index no longer exists.
   */
  async state(
    tx: ReadTransaction,
    database: HookedDatabase,
    number: number,
  ): Promise<IndexState | undefined> {
    const value = await tx.get(keyspaceOf(database).state(number));
    return value && decodeJsonRecord<IndexState>(value);
  }

  setState(tx: Transaction, database: HookedDatabase, number: number, state: IndexState): void {
    tx.set(keyspaceOf(database).state(number), encodeJsonRecord(state));
  }

  /** Returns a watch that fires when the build progresses or ends. */
  watchState(tx: Transaction, database: HookedDatabase, number: number): Watch {
    return tx.watch(keyspaceOf(database).state(number));
  }

  /** Writes the entries of the documents to these indexes. */
  async index(
    tx: Transaction,
    database: HookedDatabase,
    indexes: readonly Index[],
    documents: readonly { readonly id: string; readonly document: Document | undefined }[],
  ): Promise<void> {
    const keyspace = keyspaceOf(database);
    const { runtime, functions } = this.#parts;
    const limits = { ...functions, share: shareOfIndexes(database.name) };
    const yielder = new Yielder(runtime.clock);
    const readsConflicts = indexes.some((index) => index.readsConflicts);
    const rows: EntryRow[] = [];
    for (const { id, document } of documents) {
      const isThere = document !== undefined && !document.deleted;
      const conflicts =
        isThere && readsConflicts ? await conflictsOf(tx, database, document) : NO_CONFLICTS;
      const indexed = isThere
        ? indexedDocument({ document, conflicts }, indexes, limits, yielder)
        : undefined;
      const ready = indexed instanceof Promise ? await indexed : indexed;
      for (const index of indexes) {
        const key = keyspace.entryOf(index.number, id);
        rows.push({ id, index, key, values: ready && index.valuesOf(ready) });
      }
    }
    const before = await tx.getMany(rows.map(({ key }) => key));
    for (const [at, { id, index, key, values }] of rows.entries()) {
      const old = before[at];
      const marked = values && concatBytes([markOf(values), values.bytes]);
      if (old === undefined ? marked === undefined : marked && equalBytes(old, marked)) continue;
      const prefix = keyspace.entryPrefix(index.number);
      const idBytes = utf8Encode(id);
      if (old !== undefined) tx.clear(concatBytes([prefix, old.subarray(MARK_LENGTH), idBytes]));
      if (values === undefined || marked === undefined) tx.clear(key);
      else {
        tx.set(key, marked);
        tx.set(
          concatBytes([prefix, values.bytes, idBytes]),
          concatBytes([markOf(values), idBytes]),
        );
      }
    }
  }

  async #afterBatch(
    tx: Transaction,
    database: HookedDatabase,
    ids: readonly string[],
    designs: readonly string[],
  ): Promise<void> {
    if (database.isSealed) return;
    if (designs.length > 0) await this.#followDesigns(tx, database, designs);
    let set = await this.#set(tx, database);
    if (set?.isOutdated) {
      // The entries were written with another version of ICU or of this program. New entries next
      // to them would have no defined order.
      await this.renew(tx, database);
      set = await this.#set(tx, database);
    }
    if (set === undefined) return;
    const others = designs.length === 0 ? ids : ids.filter((id) => !id.startsWith(DESIGN_PREFIX));
    if (others.length === 0) return;
    const winners = await database.documents.winners(tx, others);
    const documents = others.map((id, index) => ({ id, document: winners[index] }));
    await this.index(tx, database, set.indexes, documents);
  }

  /**
   * Registers the indexes that the design documents define. Removes indexes that are no longer
   * defined, or whose entries have another version.
   */
  async #followDesigns(
    tx: Transaction,
    database: HookedDatabase,
    designs: readonly string[],
  ): Promise<void> {
    const registered = (await this.#set(tx, database))?.indexes ?? NO_INDEXES;
    const winners = await database.documents.winners(tx, designs);
    const wanted: IndexDefinition[] = [];
    const yielder = new Yielder(this.#parts.runtime.clock);
    for (const [index, winner] of winners.entries()) {
      if (winner === undefined || winner.deleted) continue;
      // Yields before the definitions are read, because a long document has already been written
      // and read in this turn of the event loop.
      if (winner.body.length > LONG_BYTES) await yielder.yield();
      append(wanted, await definitionsOf(designs[index] as string, winner.body, yielder));
    }
    if (wanted.length === 0 && registered.length === 0) return;
    const version = entryVersion(await this.#openCollation());
    const kept = new Set<number>();
    const added: IndexDefinition[] = [];
    for (const definition of wanted) {
      const same = registered.find(
        ({ stored }) =>
          stored.design === definition.design &&
          stored.name === definition.name &&
          stored.version === version &&
          JSON.stringify(stored.fields) === JSON.stringify(definition.fields) &&
          areSameEntries(stored, definition),
      );
      if (same === undefined) added.push(definition);
      else kept.add(same.number);
    }
    const removed = registered.filter(
      ({ number, stored }) => designs.includes(stored.design) && !kept.has(number),
    );
    const room = INDEXES_MAX - (registered.length - removed.length);
    const taken = added.slice(0, Math.max(0, room));
    if (removed.length === 0 && taken.length === 0) return;
    for (const { number } of removed) this.#remove(tx, database, number);
    await this.#add(tx, database, taken, version);
    const count = registered.length - removed.length + taken.length;
    await database.changeIndexSet(tx, count === 0);
  }

  async #add(
    tx: Transaction,
    database: HookedDatabase,
    definitions: readonly IndexDefinition[],
    version: string,
  ): Promise<void> {
    if (definitions.length === 0) return;
    const keyspace = keyspaceOf(database);
    const value = await tx.get(keyspace.nextNumber());
    let number = value === undefined ? 1 : decodeJsonRecord<number>(value);
    const nowMs = this.#parts.runtime.clock.nowMs();
    const times = { startedMs: nowMs, updatedMs: nowMs };
    for (const definition of definitions) {
      const index: StoredIndex = { ...definition, number: number++, version };
      tx.set(keyspace.definition(index.number), encodeJsonRecord(index));
      this.setState(tx, database, index.number, { isReady: false, doneCount: 0, ...times });
      await this.#parts.scheduleBuild(tx, database, index);
    }
    tx.set(keyspace.nextNumber(), encodeJsonRecord(number));
  }

  #remove(tx: Transaction, database: HookedDatabase, number: number): void {
    const keyspace = keyspaceOf(database);
    tx.clear(keyspace.definition(number));
    tx.clear(keyspace.state(number));
    const prefix = keyspace.entryPrefix(number);
    const nowMs = this.#parts.runtime.clock.nowMs();
    const origin = { kind: "index", subject: database.name, nowMs } as const;
    removeInBackground(tx, { begin: prefix, end: concatBytes([prefix, ABOVE_ENTRIES]) }, origin);
    removeInBackground(tx, keyspace.entriesOf(number), origin);
  }

  async #set(tx: ReadTransaction, database: HookedDatabase): Promise<IndexSet | undefined> {
    const name = await database.indexSet(tx);
    if (name === 0) return undefined;
    const known = this.#sets.get(database.uuid);
    const set = known?.name === name ? known : await this.#load(tx, database, name);
    this.#sets.delete(database.uuid);
    this.#sets.set(database.uuid, set);
    if (this.#sets.size > CACHED_SETS_MAX) {
      const [oldest] = this.#sets.keys();
      this.#sets.delete(oldest as string);
    }
    return set;
  }

  async #load(tx: ReadTransaction, database: HookedDatabase, name: number): Promise<IndexSet> {
    const collation = await this.#openCollation();
    const indexes: Index[] = [];
    for await (const { value } of tx.getRange(keyspaceOf(database).definitions())) {
      indexes.push(new Index(decodeJsonRecord<StoredIndex>(value), collation));
    }
    const version = entryVersion(collation);
    const isOutdated = indexes.some(({ stored }) => stored.version !== version);
    return { name, indexes, isOutdated };
  }

  #openCollation(): Promise<Collation> {
    const { clock, digests } = this.#parts.runtime;
    this.#collation ??= Collation.derive(digests, new Yielder(clock));
    return this.#collation;
  }
}

const NO_CONFLICTS: readonly Revision[] = [];

/** Returns the undeleted leaves other than the winner, in the order of `_conflicts`. */
async function conflictsOf(
  tx: ReadTransaction,
  database: HookedDatabase,
  { id, revision }: Document,
): Promise<readonly Revision[]> {
  const leaves = await database.documents.leaves(tx, id);
  return leaves
    .filter((leaf) => !leaf.deleted && leaf.revision !== revision)
    .map((leaf) => leaf.revision);
}

const ABOVE_ENTRIES = Uint8Array.of(0xff);

/** Flag in the first byte of a stored entry: the entry contains the exact values. */
const EXACT = 1;
const MARK_LENGTH = 1;

function markOf({ isExact }: EntryValues): Uint8Array {
  return Uint8Array.of(isExact ? EXACT : 0);
}

/** Returns the version of entries written by this program with this collation. */
function entryVersion({ version }: Collation): string {
  return `${ENTRY_FORM}-${version}`;
}

export function keyspaceOf(database: Pick<HookedDatabase, "indexSubspace">): IndexKeyspace {
  return new IndexKeyspace(database.indexSubspace);
}

const DESIGN_PAGE_COUNT = 100;

async function* designDocuments(
  tx: ReadTransaction,
  database: HookedDatabase,
): AsyncGenerator<{ readonly id: string; readonly body: Utf8Text }> {
  let startId = DESIGN_PREFIX;
  for (let isFirst = true; ; isFirst = false) {
    const { entries, stoppedBy } = await database.allDocuments.page(tx, {
      startId,
      endId: DESIGN_END,
      limit: DESIGN_PAGE_COUNT,
      withDocument: true,
    });
    for (const { id, document } of isFirst ? entries : entries.slice(1)) {
      if (document !== undefined) yield { id, body: document.body };
    }
    if (stoppedBy === "exhausted") return;
    startId = entries.at(-1)?.id as string;
  }
}
