/**
 * Purging: removes leaves with their bodies and attachments, without an entry in the update
 * sequence. Ancestors that are not shared with another leaf are removed, too. A document that keeps
 * a leaf moves to a new position in the update sequence; a document without leaves is removed from
 * every index.
 *
 * Purges are numbered, and the latest are recorded (`_purged_infos`). As in CouchDB, this includes
 * purges that removed nothing. Every purge reads and writes the last number, so concurrent purges
 * of one database conflict.
 */
import { append, OperationalError, Utf8Text } from "../../base/index.ts";
import {
  CLEARED_KEYS_MAX,
  type Key,
  type ReadTransaction,
  type Transaction,
  type Versionstamp,
} from "../../kv/index.ts";
import type { ChangeCounts } from "../counters/change-counts.ts";
import { CounterDeltas } from "../counters/counter-deltas.ts";
import type { Attachment, Document, Revision } from "../document.ts";
import type { DatabaseHook } from "../hooks.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import {
  decodePurgeLimit,
  decodePurgeRecord,
  encodePurgeLimit,
  encodePurgeRecord,
} from "../records/purge-record.ts";
import { formatRevision, parseRevision } from "../revisions/revision.ts";
import type { LeafNode, RevisionNode } from "../revisions/revision-tree.ts";
import type { AssertExists, LoadedDocument } from "../transaction-state.ts";
import { announceBatch, type Batch } from "./batch-writer.ts";
import type { Conflicts } from "./conflicts.ts";
import { type Counting, type DocumentIndexes, treeBefore } from "./document-indexes.ts";
import type { DocumentReader } from "./document-reader.ts";
import type { LeafWriter } from "./leaf-writer.ts";
import { ClearBudget, type OldBodies } from "./old-bodies.ts";
import type { PurgeSize } from "./purge-size.ts";

/** Default of `_purged_infos_limit`, as in CouchDB. */
const INFOS_LIMIT_DEFAULT = 1_000;

/** Revisions of one document to be purged, or already purged. */
export interface Purge {
  readonly id: string;
  readonly revisions: readonly Revision[];
}

export interface DocumentPurgerParts {
  readonly keys: DatabaseKeys;
  readonly reader: DocumentReader;
  readonly leaves: LeafWriter;
  readonly conflicts: Conflicts;
  readonly oldBodies: OldBodies;
  readonly indexes: DocumentIndexes;
  readonly counts: ChangeCounts;
  readonly hooks: readonly DatabaseHook[];
  readonly assertExists: AssertExists;
}

/** Leaves purged in one transaction. */
export interface PurgedPage {
  /** Purged leaves by document. A document is omitted if all its revisions are in `rest`. */
  readonly purged: readonly Purge[];
  /** Revisions for the next transaction, because one cannot clear the records of all. */
  readonly rest: readonly Purge[];
}

/** A document with leaves to be purged. */
interface Purgeable {
  readonly id: string;
  readonly loaded: LoadedDocument;
  /**
   * Revisions handled by this transaction: `leaves`, and requested revisions that are not leaves.
   */
  readonly revisions: readonly Revision[];
  readonly leaves: readonly LeafNode[];
  readonly attachments: ReadonlyMap<LeafNode, readonly Attachment[]>;
  /** Requested revisions for the next transaction. */
  readonly rest: readonly Revision[];
}

export class DocumentPurger {
  readonly #parts: DocumentPurgerParts;

  constructor(parts: DocumentPurgerParts) {
    this.#parts = parts;
  }

  /**
   * Purges as many leaves as one transaction can clear, up to `size` and at least one. Must be
   * called at most once per transaction, with each document once. Purges the leaves of a document
   * in reverse order, so that no leaf that is left for the next transaction becomes the winner.
   */
  async purge(batch: Batch, purges: readonly Purge[], size: PurgeSize): Promise<PurgedPage> {
    const { tx, state } = batch;
    const { keys, counts } = this.#parts;
    const asked = purges.slice(0, size.documentCountMax);
    await counts.begin(tx, state, asked.length);
    const all = await this.#find(tx, asked, size.revisionCountMax);
    const found = all.filter(({ revisions, rest }) => revisions.length > 0 || rest.length === 0);
    await this.#remember(tx, found);
    const affected = found.filter(({ leaves }) => leaves.length > 0);
    const places = affected.map(({ loaded }) => storedPlace(loaded));
    const lefts = await counts.prepareLeave(tx, state, places);
    const deltas = new CounterDeltas(keys);
    const budget = new ClearBudget();
    for (const [index, entry] of affected.entries()) {
      const ancestors = this.#carryOut(batch, entry, {
        deltas,
        jobId: undefined,
        left: lefts[index],
      });
      await this.#parts.oldBodies.forget(tx, entry.id, ancestors, budget);
    }
    deltas.apply(tx);
    counts.finish(tx, state);
    await this.#parts.indexes.flush(tx, state);
    this.#parts.indexes.announce(tx, state);
    for (const entry of affected) await this.#announce(batch, entry);
    await announceBatch(
      batch,
      this.#parts.hooks,
      affected.map(({ id }) => id),
    );
    const unfinished = all.filter(({ rest }) => rest.length > 0);
    return {
      purged: found.map(({ id, leaves }) => ({ id, revisions: leaves.map(formatRevision) })),
      rest: [
        ...unfinished.map(({ id, rest }) => ({ id, revisions: rest })),
        ...purges.slice(asked.length),
      ],
    };
  }

  /** Returns the number of purges so far. */
  async count(tx: ReadTransaction): Promise<number> {
    const last = await this.#lastKey(tx.snapshot);
    return last === undefined ? 0 : this.#parts.keys.purge.unpack(last).number;
  }

  /** Returns the versionstamp of the transaction that made the last purge. */
  async lastVersionstamp(tx: ReadTransaction): Promise<Versionstamp | undefined> {
    const range = this.#parts.keys.purge.range();
    const page = await tx.snapshot.getRangePage(range, { limit: 1, reverse: true });
    const [last] = page.entries;
    return last === undefined ? undefined : decodePurgeRecord(last.value).versionstamp;
  }

  /** Returns the stored purge records, oldest first. */
  async infos(tx: ReadTransaction): Promise<Purge[]> {
    const purges: Purge[] = [];
    const { keys } = this.#parts;
    const [last, limit] = await Promise.all([this.#lastKey(tx), this.infosLimit(tx)]);
    const firstKept =
      last === undefined ? 1 : Math.max(1, keys.purge.unpack(last).number - limit + 1);
    const range = { begin: keys.purge.key({ number: firstKept }), end: keys.purge.range().end };
    for await (const { value } of tx.getRange(range)) {
      const { id, revisions } = decodePurgeRecord(value);
      purges.push({ id, revisions });
    }
    return purges;
  }

  /** Returns the maximum number of remembered purges. */
  async infosLimit(tx: ReadTransaction): Promise<number> {
    const value = await tx.get(this.#parts.keys.purgeLimit.key({}));
    return value === undefined ? INFOS_LIMIT_DEFAULT : decodePurgeLimit(value);
  }

  /**
   * Sets the number of purge records to keep, a positive integer. Takes effect at the next purge.
   * Throws STORE_PURGE_LIMIT_INVALID.
   */
  async setInfosLimit(tx: Transaction, limit: number): Promise<void> {
    await this.#parts.assertExists(tx);
    if (!Number.isSafeInteger(limit) || limit < 1) {
      const message = "The limit must be a positive integer";
      throw new OperationalError("STORE_PURGE_LIMIT_INVALID", message, { limit });
    }
    tx.set(this.#parts.keys.purgeLimit.key({}), encodePurgeLimit(limit));
  }

  async #find(
    tx: Transaction,
    purges: readonly Purge[],
    revisionCountMax: number,
  ): Promise<Purgeable[]> {
    const loaded = await this.#parts.conflicts.load(
      tx,
      purges.map(({ id }) => id),
    );
    const budget = new ClearBudget();
    const found: Purgeable[] = [];
    let countLeft = revisionCountMax;
    for (const [index, purge] of purges.entries()) {
      const document = loaded[index] as LoadedDocument;
      const entry = await this.#findLeaves(tx, purge, document, { budget, countMax: countLeft });
      countLeft -= entry.revisions.length;
      found.push(entry);
    }
    return found;
  }

  /**
   * Finds the leaves to be purged, as many as the limits permit. Reads their attachment lists one
   * by one, because a list can be large.
   */
  async #findLeaves(
    tx: Transaction,
    { id, revisions }: Purge,
    loaded: LoadedDocument,
    { budget, countMax }: { readonly budget: ClearBudget; readonly countMax: number },
  ): Promise<Purgeable> {
    const named = revisions.map((revision) => loaded.tree.findLeaf(parseRevision(revision)));
    const asked = new Set(named.filter((leaf) => leaf !== undefined));
    const others = revisions.filter((_, index) => named[index] === undefined).slice(0, countMax);
    const isOther = new Set(others);
    const attachments = new Map<LeafNode, readonly Attachment[]>();
    const lastFirst = loaded.tree.leaves.toReversed().filter((leaf) => asked.has(leaf));
    for (const leaf of lastFirst.slice(0, countMax - others.length)) {
      const list = budget.isSpent ? [] : await this.#parts.reader.attachments(tx, id, leaf);
      const { bodyChunkCount, attachmentChunkCount } = leaf.leaf;
      if (!budget.take(bodyChunkCount + attachmentChunkCount + list.length)) break;
      attachments.set(leaf, list);
    }
    const isForNow = (revision: Revision, index: number) => {
      const leaf = named[index];
      return leaf === undefined ? isOther.has(revision) : attachments.has(leaf);
    };
    return {
      id,
      loaded,
      revisions: revisions.filter(isForNow),
      leaves: [...asked].filter((leaf) => attachments.has(leaf)),
      attachments,
      rest: revisions.filter((revision, index) => !isForNow(revision, index)),
    };
  }

  /** Removes the leaves, and returns the ancestors that were removed with them. */
  #carryOut({ tx, state }: Batch, entry: Purgeable, counting: Counting): readonly RevisionNode[] {
    const { id, loaded, leaves, attachments } = entry;
    const before = treeBefore(loaded.tree);
    const gone: RevisionNode[] = [];
    for (const leaf of leaves) {
      const left = attachments.get(leaf) ?? [];
      this.#parts.leaves.drop(tx, id, leaf, leaf.leaf, { attachments: left, kept: [] });
      loaded.tree.removeLeaf(leaf);
      append(gone, loaded.tree.ancestorsOnlyOf(leaf));
    }
    this.#parts.indexes.update(tx, state, { id, loaded, before }, counting);
    return gone;
  }

  /** Calls the hooks. A document without remaining leaves is passed to them as a deleted one. */
  async #announce({ tx, database, context }: Batch, { id, leaves }: Purgeable): Promise<void> {
    for (const hook of this.#parts.hooks) {
      if (hook.afterWrite === undefined) continue;
      const winner = await database.documents.read(tx, id);
      await hook.afterWrite(tx, database, winner ?? goneDocument(id, leaves), context);
    }
  }

  async #remember(tx: Transaction, purges: readonly Purge[]): Promise<void> {
    const { keys } = this.#parts;
    const [first, last, limit] = await Promise.all([
      this.#endKey(tx, { reverse: false }),
      this.#lastKey(tx),
      this.infosLimit(tx),
    ]);
    let number = last === undefined ? 0 : keys.purge.unpack(last).number;
    for (const { id, revisions } of purges) {
      number++;
      tx.setVersionstampedValue(keys.purge.key({ number }), encodePurgeRecord(id, revisions));
    }
    // The last record is always kept, because its key contains the number of purges. After the
    // limit has been lowered, it can take several purges to clear all excess records.
    const firstKept = number - limit + 1;
    if (firstKept <= 1 || first === undefined) return;
    const end = Math.min(firstKept, keys.purge.unpack(first).number + CLEARED_KEYS_MAX);
    tx.clearRange({ begin: keys.purge.range().begin, end: keys.purge.key({ number: end }) });
  }

  #lastKey(tx: ReadTransaction): Promise<Key | undefined> {
    return this.#endKey(tx, { reverse: true });
  }

  /** Returns the key of the first purge record or, with `reverse`, of the last. */
  async #endKey(tx: ReadTransaction, order: { readonly reverse: boolean }) {
    const range = this.#parts.keys.purge.range();
    return (await tx.getRangePage(range, { limit: 1, ...order })).entries[0]?.key;
  }
}

function storedPlace({ place }: LoadedDocument): Versionstamp | undefined {
  return place.kind === "stored" ? place.versionstamp : undefined;
}

function goneDocument(id: string, [leaf]: readonly LeafNode[]): Document {
  const { generation, hash } = leaf as LeafNode;
  return {
    id,
    revision: formatRevision({ generation, hash }),
    deleted: true,
    body: Utf8Text.of("{}"),
    revisions: { start: generation, hashes: [hash] },
    attachments: [],
  };
}
