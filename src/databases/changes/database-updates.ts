/**
 * The updates of all databases of a store, in order: created, updated, deleted. Only the latest
 * update of each kind is listed per database. A writer appends a row and clears the superseded row
 * without reading it, so writers do not conflict. Superseded rows that concurrent writers miss are
 * cleared by later writers.
 *
 * A process remembers the rows that it wrote itself, and finds the rows of other processes by
 * occasional snapshot reads.
 */
import { assert, EMPTY_BYTES, type Page, type Random } from "../../base/index.ts";
import {
  firstGreaterThan,
  type ReadTransaction,
  type Transaction,
  type Versionstamp,
  type Watch,
} from "../../kv/index.ts";
import { encodeNewVersionstamp } from "../records/counter-record.ts";
import type { RegistryKeys } from "../records/database-keys.ts";
import { RecordReader, RecordWriter } from "../records/record-bytes.ts";
import { FIRST_SEQUENCE, formatSequence, parseSequence } from "./sequence.ts";

const KINDS = ["created", "updated", "deleted"] as const;
export type UpdateKind = (typeof KINDS)[number];

export interface DatabaseUpdate {
  readonly sequence: string;
  readonly name: string;
  readonly kind: UpdateKind;
}

export interface UpdatesOptions {
  /** Updates after this sequence. Default, or "0": from the start. */
  readonly since?: string;
  readonly limit?: number;
  readonly descending?: boolean;
}

const FORMAT = 1;
/** Maximum number of superseded rows read per search. */
const OBSOLETE_COUNT_MAX = 100;
/**
 * Maximum number of rows of other processes that a writer clears. Concurrent writers see the same
 * rows; if each cleared all, most of the work would be duplicated. Two randomly chosen rows
 * suffice: a single writer then clears more rows than it adds, and n concurrent writers clear
 * nearly n different rows.
 */
const CLEARED_COUNT_MAX = 2;
/**
 * Average number of recorded updates between two searches for superseded rows of other processes.
 */
const NOTES_PER_LOOK = 32;
/**
 * Maximum number of pairs (database, kind of update) whose rows this process remembers. The oldest
 * pair is forgotten first.
 */
const KNOWN_COUNT_MAX = 1_000;

interface WrittenRows {
  /** Rows by hexadecimal versionstamp. */
  readonly rows: Map<string, Versionstamp>;
  /**
   * Number of transactions that have begun to record this update since the last commit of one of
   * them.
   */
  begunCount: number;
}

/** Updates already noted by each transaction. */
const noted = new WeakMap<Transaction, Set<string>>();

export class DatabaseUpdates {
  readonly #keys: RegistryKeys;
  readonly #random: Random;
  /** Rows written by this process, by update. */
  readonly #written = new Map<string, WrittenRows>();

  constructor(keys: RegistryKeys, random: Random) {
    this.#keys = keys;
    this.#random = random;
  }

  /** Records an update of a database. Repeated calls within a transaction have no effect. */
  async note(tx: Transaction, name: string, kind: UpdateKind): Promise<void> {
    const notes = noted.get(tx) ?? new Set();
    noted.set(tx, notes);
    const note = `${kind} ${name}`;
    if (notes.has(note)) return;
    notes.add(note);
    const kindNumber = KINDS.indexOf(kind);
    const cleared = this.#ownObsolete(note) ?? (await this.#foundObsolete(tx, name, kindNumber));
    for (const versionstamp of cleared) {
      tx.clear(this.#keys.updateOf.key({ name, kind: kindNumber, versionstamp }));
      tx.clear(this.#keys.update.key({ versionstamp }));
    }
    const userVersion = tx.nextUserVersion();
    const record = new RecordWriter().byte(FORMAT).byte(kindNumber).text(name).finish();
    tx.setVersionstampedKey(this.#keys.update.newKey({}, userVersion), record);
    const rowOf = this.#keys.updateOf.newKey({ name, kind: kindNumber }, userVersion);
    tx.setVersionstampedKey(rowOf, EMPTY_BYTES);
    tx.setVersionstampedValue(this.#keys.updated.key({}), encodeNewVersionstamp(userVersion));
    tx.afterCommit(({ versionstamp }) => {
      this.#remember(note, cleared, versionstamp?.withUserVersion(userVersion));
    });
  }

  /**
   * Returns superseded rows that this process wrote itself, or `undefined` if the store must be
   * searched for rows of other processes.
   */
  #ownObsolete(note: string): readonly Versionstamp[] | undefined {
    const written = this.#written.get(note);
    if (written === undefined || this.#random.integer(NOTES_PER_LOOK) === 0) return undefined;
    // Usually as many rows are cleared as are added. The first transaction after a commit clears
    // one more, so that the number of superseded rows decreases.
    const count = written.begunCount++ === 0 ? 2 : 1;
    const taken: Versionstamp[] = [];
    for (const [text, versionstamp] of written.rows) {
      if (taken.length === count || taken.includes(versionstamp)) break;
      taken.push(versionstamp);
      // Moves the row to the end of the map, so that concurrent transactions choose other rows.
      // After the commit, the row is removed from the map.
      written.rows.delete(text);
      written.rows.set(text, versionstamp);
    }
    return taken;
  }

  /** Returns a few superseded rows, of any process, that existed when the transaction began. */
  async #foundObsolete(
    tx: Transaction,
    name: string,
    kindNumber: number,
  ): Promise<readonly Versionstamp[]> {
    const range = this.#keys.updateOf.range({ name, kind: kindNumber });
    const { entries } = await tx.snapshot.getRangePage(range, { limit: OBSOLETE_COUNT_MAX });
    const rows = entries.map(({ key }) => this.#keys.updateOf.unpack(key).versionstamp);
    if (rows.length <= CLEARED_COUNT_MAX) return rows;
    const start = this.#random.integer(rows.length);
    return [...rows.slice(start), ...rows].slice(0, CLEARED_COUNT_MAX);
  }

  #remember(note: string, cleared: readonly Versionstamp[], added: Versionstamp | undefined): void {
    const written = this.#written.get(note) ?? { rows: new Map(), begunCount: 0 };
    for (const versionstamp of cleared) written.rows.delete(versionstamp.toString());
    if (added !== undefined) written.rows.set(added.toString(), added);
    written.begunCount = 0;
    const [first] = this.#written.keys();
    if (this.#written.size >= KNOWN_COUNT_MAX && first !== undefined && !this.#written.has(note)) {
      this.#written.delete(first);
    }
    this.#written.set(note, written);
  }

  async page(
    tx: ReadTransaction,
    { since = FIRST_SEQUENCE, limit, descending = false }: UpdatesOptions,
  ): Promise<Page<DatabaseUpdate>> {
    const all = this.#keys.update.range();
    const stamp = parseSequence(since);
    const begin =
      stamp === undefined
        ? all.begin
        : firstGreaterThan(this.#keys.update.key({ versionstamp: stamp }));
    const { entries, stoppedBy } = await tx.snapshot.getRangePage(
      { begin, end: all.end },
      { reverse: descending, ...(limit === undefined ? {} : { limit }) },
    );
    return {
      entries: entries.map(({ key, value }) => {
        const reader = new RecordReader(value);
        assert(reader.byte() === FORMAT, "The update record must have a supported format version");
        const kind = KINDS[reader.byte()] as UpdateKind;
        const sequence = formatSequence(this.#keys.update.unpack(key).versionstamp);
        return { sequence, name: reader.text(), kind };
      }),
      stoppedBy,
    };
  }

  /** Returns the sequence of the last update, or the first sequence if there was no update. */
  async lastSequence(tx: ReadTransaction): Promise<string> {
    const { entries } = await this.page(tx, { limit: 1, descending: true });
    return entries[0]?.sequence ?? FIRST_SEQUENCE;
  }

  /** Returns a watch that fires after the next commit that records an update. */
  watch(tx: Transaction): Watch {
    return tx.watch(this.#keys.updated.key({}));
  }
}
