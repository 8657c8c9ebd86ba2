/** Writing a batch of edits in one transaction, as if one after the other, but with their reads side by side. */
import type { Key, Transaction, Versionstamp } from "../kv/index.ts";
import type { ChangeCounts } from "./change-counts.ts";
import { CounterDeltas } from "./counter-deltas.ts";
import type { Database } from "./database.ts";
import type { DatabaseKeys } from "./database-keys.ts";
import type { Document, DocumentEdit, WriteContext, WriteOutcome } from "./document.ts";
import { type DocumentWriter, isStale, type Prepared } from "./document-writer.ts";
import type { DatabaseHook } from "./hooks.ts";
import type { LocalDocuments } from "./local-documents.ts";
import { LOCAL_PREFIX } from "./names.ts";
import type { TransactionState } from "./transaction-state.ts";

export interface BatchWriterParts {
  readonly keys: DatabaseKeys;
  readonly writer: DocumentWriter;
  readonly counts: ChangeCounts;
  readonly locals: LocalDocuments;
  readonly hooks: readonly DatabaseHook[];
}

/** Where a batch is written, and by whom. */
export interface Batch {
  readonly tx: Transaction;
  readonly state: TransactionState;
  readonly database: Database;
  readonly context: WriteContext;
}

export class BatchWriter {
  readonly #keys: DatabaseKeys;
  readonly #writer: DocumentWriter;
  readonly #counts: ChangeCounts;
  readonly #locals: LocalDocuments;
  readonly #hooks: readonly DatabaseHook[];

  constructor({ keys, writer, counts, locals, hooks }: BatchWriterParts) {
    this.#keys = keys;
    this.#writer = writer;
    this.#counts = counts;
    this.#locals = locals;
    this.#hooks = hooks;
  }

  /** An outcome for each edit, at its place. */
  async write(batch: Batch, edits: readonly DocumentEdit[]): Promise<WriteOutcome[]> {
    await this.#counts.begin(batch.tx, batch.state, edits.length);
    const outcomes: WriteOutcome[] = new Array(edits.length);
    for (const round of this.#rounds(edits)) {
      const written = await this.#writeRound(batch, round);
      for (const [at, { index }] of round.entries()) outcomes[index] = written[at] as WriteOutcome;
    }
    return outcomes;
  }

  /** Groups of edits that do not depend on each other: no document twice, and one by one when a hook writes after each. */
  #rounds(edits: readonly DocumentEdit[]): { edit: DocumentEdit; index: number }[][] {
    const indexed = edits.map((edit, index) => ({ edit, index }));
    if (this.#hooks.some((hook) => hook.afterWrite !== undefined)) {
      return indexed.map((entry) => [entry]);
    }
    const rounds: { edit: DocumentEdit; index: number }[][] = [];
    const depths = new Map<string, number>();
    for (const entry of indexed) {
      const depth = depths.get(entry.edit.id) ?? 0;
      depths.set(entry.edit.id, depth + 1);
      const round = rounds[depth];
      if (round === undefined) rounds.push([entry]);
      else round.push(entry);
    }
    return rounds;
  }

  async #writeRound(
    batch: Batch,
    round: readonly { readonly edit: DocumentEdit }[],
  ): Promise<WriteOutcome[]> {
    const { tx, state } = batch;
    const prepared = await Promise.all(round.map(({ edit }) => this.#prepare(batch, edit)));
    let lefts: (Key | undefined)[];
    for (;;) {
      lefts = await this.#counts.prepareLeave(tx, state, prepared.map(storedPlace));
      if (state.written.size === 0) break;
      const stale = [...prepared.entries()].filter(([, entry]) => {
        return !("kind" in entry) && isStale(state, entry);
      });
      if (stale.length === 0) break;
      for (const [index] of stale) {
        const { edit } = round[index] as { readonly edit: DocumentEdit };
        prepared[index] = await this.#prepare(batch, edit);
      }
    }
    const deltas = new CounterDeltas(this.#keys);
    const outcomes = prepared.map((entry, index) => {
      if ("kind" in entry) return entry;
      return this.#writer.carryOut(tx, state, entry, { deltas, left: lefts[index] });
    });
    deltas.apply(tx);
    this.#counts.finish(tx, state);
    if (!this.#hooks.some((hook) => hook.afterWrite !== undefined)) return outcomes;
    for (const outcome of outcomes) {
      if (outcome.kind === "written" && !outcome.id.startsWith(LOCAL_PREFIX)) {
        await announce(batch, this.#hooks, outcome.id);
      }
    }
    return outcomes;
  }

  async #prepare(
    { tx, state, database, context }: Batch,
    edit: DocumentEdit,
  ): Promise<Prepared | WriteOutcome> {
    if (edit.id.startsWith(LOCAL_PREFIX)) return this.#locals.writeEdit(tx, edit);
    const judged = await this.#writer.judge(tx, state, edit);
    if (judged.kind === "outcome") return judged.outcome;
    let accepted = edit;
    for (const hook of this.#hooks) {
      const verdict = await hook.beforeWrite?.(tx, database, accepted, context);
      if (verdict === undefined) continue;
      if ("rejected" in verdict) {
        const { rejected, reason } = verdict;
        return { kind: "rejected", id: edit.id, error: rejected, reason } as const;
      }
      accepted = verdict.edit;
    }
    return this.#writer.prepare(tx, accepted, judged);
  }
}

async function announce(
  { tx, database, context }: Batch,
  hooks: readonly DatabaseHook[],
  id: string,
): Promise<void> {
  for (const hook of hooks) {
    if (hook.afterWrite === undefined) continue;
    const winner = await database.read(tx, id);
    await hook.afterWrite(tx, database, winner as Document, context);
  }
}

/** The place that a document leaves when it is written. */
function storedPlace(entry: Prepared | WriteOutcome): Versionstamp | undefined {
  if ("kind" in entry) return undefined;
  const { place } = entry.judged.loaded;
  return place.kind === "stored" ? place.versionstamp : undefined;
}
