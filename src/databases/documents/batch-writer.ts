/**
 * Writes a batch of edits in one transaction. The result is the same as for individual writes in
 * order, but the reads are concurrent.
 */
import { assert, chunksOf, mapAtOnce, type Runtime, Yielder } from "../../base/index.ts";
import { type Key, KeyValueError, type Transaction, type Versionstamp } from "../../kv/index.ts";
import type { ChangeCounts } from "../counters/change-counts.ts";
import { CounterDeltas } from "../counters/counter-deltas.ts";
import type { Document, DocumentEdit, Revision, WriteOutcome } from "../document.ts";
import type { DatabaseHook, FollowUp, HookedDatabase, WriteContext } from "../hooks.ts";
import { LOCAL_PREFIX } from "../names.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import { formatRevision } from "../revisions/revision.ts";
import type { LoadedDocument, TransactionState } from "../transaction-state.ts";
import type { Conflicts } from "./conflicts.ts";
import type { DocumentIndexes } from "./document-indexes.ts";
import {
  type DocumentWriter,
  isStale,
  type LateWrites,
  type Prepared,
  type Writable,
} from "./document-writer.ts";
import type { LocalDocuments } from "./local-documents.ts";

/**
 * Maximum number of keys of replaced leaves that a batch clears, because other writers wait for the
 * transaction. A single body of 8 MiB has more than 80 keys; a batch of small documents with one
 * attachment each stays below the limit.
 */
const DROPPED_KEYS_MAX = 2_000;

/** Maximum number of edits processed without yielding to the event loop; some 3 ms. */
const ROUND_EDITS_MAX = 100;

export interface BatchWriterParts {
  readonly runtime: Runtime;
  readonly keys: DatabaseKeys;
  readonly conflicts: Conflicts;
  readonly writer: DocumentWriter;
  readonly indexes: DocumentIndexes;
  readonly counts: ChangeCounts;
  readonly local: LocalDocuments;
  readonly hooks: readonly DatabaseHook[];
}

/** The transaction, database and author of a batch. */
export interface Batch {
  readonly tx: Transaction;
  readonly state: TransactionState;
  readonly database: HookedDatabase;
  readonly context: WriteContext;
}

/** An edit, with its position in the batch. */
interface IndexedEdit {
  readonly edit: DocumentEdit;
  readonly index: number;
}

/** Everything needed to carry out an edit, or its outcome if that is already known. */
type Preparation = (Prepared & { readonly followUps?: FollowUps }) | WriteOutcome;

type FollowUps = ReadonlyMap<DatabaseHook, FollowUp>;

/**
 * Documents loaded for edits that wrote nothing, by id. Without this cache, if thousands of edits
 * of a large document were rejected in one batch, each would load the document.
 */
type UnchangedDocuments = Map<string, LoadedDocument>;

export class BatchWriter {
  readonly #runtime: Runtime;
  readonly #keys: DatabaseKeys;
  readonly #conflicts: Conflicts;
  readonly #writer: DocumentWriter;
  readonly #indexes: DocumentIndexes;
  readonly #counts: ChangeCounts;
  readonly #local: LocalDocuments;
  readonly #hooks: readonly DatabaseHook[];

  constructor(parts: BatchWriterParts) {
    const { runtime, keys, conflicts, writer, indexes, counts, local, hooks } = parts;
    this.#runtime = runtime;
    this.#keys = keys;
    this.#conflicts = conflicts;
    this.#writer = writer;
    this.#indexes = indexes;
    this.#counts = counts;
    this.#local = local;
    this.#hooks = hooks;
  }

  /**
   * Returns an outcome for each edit, in order. Throws KV_TOO_LARGE if the edits together replace
   * too many keys: the caller must then abandon the transaction and write fewer edits per
   * transaction. A single edit is never refused for this reason.
   */
  async write(batch: Batch, edits: readonly DocumentEdit[]): Promise<WriteOutcome[]> {
    await this.#counts.begin(batch.tx, batch.state, edits.length);
    const outcomes: WriteOutcome[] = new Array(edits.length);
    const unchanged: UnchangedDocuments = new Map();
    const yielder = new Yielder(this.#runtime.clock);
    for (const round of this.#rounds(edits)) {
      if (yielder.isDue) await yielder.yield();
      const written = await this.#writeRound(batch, round, unchanged);
      const { droppedKeyCount } = batch.state;
      if (edits.length > 1 && droppedKeyCount > DROPPED_KEYS_MAX) {
        throw new KeyValueError("KV_TOO_LARGE", { droppedKeyCount, max: DROPPED_KEYS_MAX });
      }
      for (const [at, { index }] of round.entries()) outcomes[index] = written[at] as WriteOutcome;
    }
    await this.#indexes.flush(batch.tx, batch.state);
    await announceBatch(batch, this.#hooks, outcomes.flatMap(writtenDocument));
    return outcomes;
  }

  /**
   * Groups edits that are independent of each other: each document occurs at most once per group.
   * Each group is processed without yielding to the event loop, so its size is limited.
   */
  #rounds(edits: readonly DocumentEdit[]): (readonly IndexedEdit[])[] {
    const rounds: IndexedEdit[][] = [];
    const depths = new Map<string, number>();
    for (const [index, edit] of edits.entries()) {
      const depth = depths.get(edit.id) ?? 0;
      depths.set(edit.id, depth + 1);
      const round = rounds[depth];
      if (round === undefined) rounds.push([{ edit, index }]);
      else round.push({ edit, index });
    }
    return rounds.flatMap((round) => chunksOf(round, ROUND_EDITS_MAX));
  }

  async #writeRound(
    batch: Batch,
    round: readonly { readonly edit: DocumentEdit }[],
    unchanged: UnchangedDocuments,
  ): Promise<WriteOutcome[]> {
    const { tx, state } = batch;
    const edits = round.map(({ edit }) => edit);
    const prepared = await this.#prepareAll(batch, edits, unchanged);
    let lefts: (Key | undefined)[];
    for (;;) {
      lefts = await this.#counts.prepareLeave(tx, state, prepared.map(storedPlace));
      if (state.written.size === 0) break;
      const stale = [...prepared.entries()].filter(([, entry]) => {
        return !("kind" in entry) && isStale(state, entry);
      });
      if (stale.length === 0) break;
      for (const [index] of stale) {
        const again = await this.#prepareAll(batch, edits.slice(index, index + 1), new Map());
        prepared[index] = again[0] as Preparation;
      }
    }
    const deltas = new CounterDeltas(this.#keys);
    const { jobId, keepUntilMs } = batch.context;
    const late: LateWrites = [];
    const followUps = new Map<WriteOutcome, FollowUps>();
    const outcomes = prepared.map((entry, index) => {
      if ("kind" in entry) return entry;
      const counting = { deltas, jobId, keepUntilMs, left: lefts[index] };
      const { tree } = entry.judged.loaded;
      const known = entry.followUps && new Set(tree.leaves);
      const outcome = this.#writer.carryOut(tx, state, entry, counting, late);
      // If the revision already existed, its leaf was written by someone else.
      const isNewWinner = tree.winner !== undefined && known?.has(tree.winner) === false;
      if (isNewWinner && entry.followUps !== undefined) followUps.set(outcome, entry.followUps);
      return outcome;
    });
    deltas.apply(tx);
    this.#counts.finish(tx, state);
    for (const write of late) {
      await this.#runtime.clock.sleep(0);
      write();
    }
    if (!this.#hooks.some((hook) => hook.afterWrite !== undefined)) return outcomes;
    for (const [index, outcome] of outcomes.entries()) {
      const entry = prepared[index];
      if (outcome.kind !== "written" || entry === undefined || "kind" in entry) continue;
      await announce(batch, this.#hooks, outcome, followUps.get(outcome));
    }
    return outcomes;
  }

  /**
   * Collects the data needed to carry out each edit, most of which comes from the loaded documents.
   */
  async #prepareAll(
    batch: Batch,
    edits: readonly DocumentEdit[],
    unchanged: UnchangedDocuments,
  ): Promise<Preparation[]> {
    const { tx, state } = batch;
    const isToLoad = ({ id }: DocumentEdit) => !id.startsWith(LOCAL_PREFIX) && !unchanged.has(id);
    const ids = edits.flatMap((edit) => (isToLoad(edit) ? [edit.id] : []));
    const loaded = await this.#conflicts.load(tx, ids);
    let next = 0;
    const areAsked = this.#hooks.some((hook) => hook.beforeWrite !== undefined);
    return mapAtOnce<DocumentEdit, Preparation>(edits, (edit) => {
      if (edit.id.startsWith(LOCAL_PREFIX)) return this.#local.writeEdit(tx, edit);
      const document = unchanged.get(edit.id) ?? (loaded[next++] as LoadedDocument);
      const judged = this.#writer.judge(state, edit, document);
      if (judged.kind === "outcome") {
        unchanged.set(edit.id, document);
        return judged.outcome;
      }
      unchanged.delete(edit.id);
      if (areAsked) return this.#askHooks(batch, edit, judged);
      return this.#writer.prepare(tx, edit, judged);
    });
  }

  /**
   * Calls the `beforeWrite` hooks in order. Each hook receives the edit as changed by the preceding
   * hooks.
   */
  async #askHooks(batch: Batch, edit: DocumentEdit, judged: Writable): Promise<Preparation> {
    const { tx, database, context } = batch;
    let accepted = edit;
    const followUps = new Map<DatabaseHook, FollowUp>();
    for (const hook of this.#hooks) {
      if (hook.beforeWrite === undefined) continue;
      const verdict = await hook.beforeWrite(tx, database, accepted, context);
      if ("rejected" in verdict) {
        return { kind: "rejected", id: edit.id, error: verdict.rejected, reason: verdict.reason };
      }
      accepted = verdict.edit;
      if (verdict.followUp === undefined) continue;
      assert(hook.afterWrite !== undefined, "A hook with a follow-up must have afterWrite");
      followUps.set(hook, verdict.followUp);
    }
    const prepared = await this.#writer.prepare(tx, accepted, judged);
    return "kind" in prepared || followUps.size === 0 ? prepared : { ...prepared, followUps };
  }
}

async function announce(
  { tx, state, database, context }: Batch,
  hooks: readonly DatabaseHook[],
  { id, revision }: { readonly id: string; readonly revision: Revision },
  followUps: FollowUps | undefined,
): Promise<void> {
  for (const hook of hooks) {
    if (hook.afterWrite === undefined) continue;
    const winner = state.written.get(id)?.tree.winner;
    const isWinner = winner !== undefined && formatRevision(winner) === revision;
    const followUp = isWinner ? followUps?.get(hook) : undefined;
    if (followUp !== undefined) await followUp();
    else {
      const document = (await database.documents.read(tx, id)) as Document;
      await hook.afterWrite(tx, database, document, context);
    }
  }
}

/** Notifies the hooks of all documents that a batch wrote. */
export async function announceBatch(
  { tx, state, database }: Batch,
  hooks: readonly DatabaseHook[],
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return;
  for (const hook of hooks) {
    if (hook.afterBatch === undefined) continue;
    const { indexSet } = state.database;
    await hook.afterBatch(tx, database, { ids: [...new Set(ids)], indexSet });
  }
}

function writtenDocument(outcome: WriteOutcome): string[] {
  const isDocument = outcome.kind === "written" && !outcome.id.startsWith(LOCAL_PREFIX);
  return isDocument ? [outcome.id] : [];
}

/**
 * Returns the document's stored position in the update sequence, from which the write will remove
 * it.
 */
function storedPlace(entry: Preparation): Versionstamp | undefined {
  if ("kind" in entry) return undefined;
  const { place } = entry.judged.loaded;
  return place.kind === "stored" ? place.versionstamp : undefined;
}
