/**
 * What became of the databases of a store, in the order in which it happened: created, updated, deleted; of each database only
 * the latest of each. Who writes appends a row and clears the one that it makes obsolete, of which it learns by a snapshot: no two
 * writers conflict over it. Those that write at the same time may leave a row each; the next ones clear them.
 */
import { assert, EMPTY_BYTES, type Page, type Random } from "../base/index.ts";
import {
  firstGreaterThan,
  type KeyValue,
  type ReadTransaction,
  type Transaction,
  type Watch,
} from "../kv/index.ts";
import { encodeNewVersionstamp } from "./counter-record.ts";
import type { RegistryKeys } from "./database-keys.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";
import { FIRST_SEQUENCE, formatSequence, parseSequence } from "./sequence.ts";

const KINDS = ["created", "updated", "deleted"] as const;
export type UpdateKind = (typeof KINDS)[number];

export interface DatabaseUpdate {
  readonly sequence: string;
  readonly name: string;
  readonly kind: UpdateKind;
}

export interface UpdatesOptions {
  /** Updates behind this sequence; from the start when absent or "0". */
  readonly since?: string;
  readonly limit?: number;
  readonly descending?: boolean;
}

const FORMAT = 1;
/** More rows than that are never left by writers that met. */
const OBSOLETE_COUNT_MAX = 100;
/**
 * So many of them a writer clears. Writers that meet see the same rows; if each cleared all, most of that would be done many times.
 * Two, chosen at random, are enough: a writer alone clears more than it adds, and of n that meet nearly n are cleared.
 */
const CLEARED_COUNT_MAX = 2;

/** What each transaction has noted already. */
const noted = new WeakMap<Transaction, Set<string>>();

export class DatabaseUpdates {
  readonly #keys: RegistryKeys;
  readonly #random: Random;

  constructor(keys: RegistryKeys, random: Random) {
    this.#keys = keys;
    this.#random = random;
  }

  /** Once in a transaction, however often it is called. */
  async note(tx: Transaction, name: string, kind: UpdateKind): Promise<void> {
    const notes = noted.get(tx) ?? new Set();
    noted.set(tx, notes);
    const note = `${kind} ${name}`;
    if (notes.has(note)) return;
    notes.add(note);
    const kindNumber = KINDS.indexOf(kind);
    const range = this.#keys.updatesOf(name, kindNumber);
    const obsolete = await tx.snapshot.getRangePage(range, { limit: OBSOLETE_COUNT_MAX });
    for (const { key } of this.#some(obsolete.entries)) {
      tx.clear(key);
      tx.clear(this.#keys.update(this.#keys.updateOfVersionstamp(key)));
    }
    const userVersion = tx.nextUserVersion();
    const record = new RecordWriter().byte(FORMAT).byte(kindNumber).text(name).finish();
    tx.setVersionstampedKey(this.#keys.newUpdate(userVersion), record);
    tx.setVersionstampedKey(this.#keys.newUpdateOf(name, kindNumber, userVersion), EMPTY_BYTES);
    tx.setVersionstampedValue(this.#keys.updated(), encodeNewVersionstamp(userVersion));
  }

  #some(entries: readonly KeyValue[]): readonly KeyValue[] {
    if (entries.length <= CLEARED_COUNT_MAX) return entries;
    const start = this.#random.integer(entries.length);
    return [...entries.slice(start), ...entries].slice(0, CLEARED_COUNT_MAX);
  }

  async page(
    tx: ReadTransaction,
    { since = FIRST_SEQUENCE, limit, descending = false }: UpdatesOptions,
  ): Promise<Page<DatabaseUpdate>> {
    const all = this.#keys.updates();
    const stamp = parseSequence(since);
    const begin = stamp === undefined ? all.begin : firstGreaterThan(this.#keys.update(stamp));
    const { entries, stoppedBy } = await tx.snapshot.getRangePage(
      { begin, end: all.end },
      { reverse: descending, ...(limit === undefined ? {} : { limit }) },
    );
    return {
      entries: entries.map(({ key, value }) => {
        const reader = new RecordReader(value);
        assert(reader.byte() === FORMAT, "The update record has a format of this version");
        const kind = KINDS[reader.byte()] as UpdateKind;
        const sequence = formatSequence(this.#keys.updateVersionstamp(key));
        return { sequence, name: reader.text(), kind };
      }),
      stoppedBy,
    };
  }

  /** Of the last update; the first sequence when there was none. */
  async lastSequence(tx: ReadTransaction): Promise<string> {
    const { entries } = await this.page(tx, { limit: 1, descending: true });
    return entries[0]?.sequence ?? FIRST_SEQUENCE;
  }

  /** Fires after the next commit that notes an update. */
  watch(tx: Transaction): Watch {
    return tx.watch(this.#keys.updated());
  }
}
