/**
 * Writes many edits to the store, one transaction per batch. A batch that the store refuses is
 * split into halves.
 */
import type { Yielder } from "../base/index.ts";
import type { DocumentEdit, WriteOutcome } from "../databases/index.ts";
import { type BatchSizes, batchesOf } from "./batches.ts";
import { type RefusedBatch, writeInHalves } from "./refused-batch.ts";

/**
 * Maximum sizes of a transaction. Far below the limits of the store, and large enough that a
 * typical batch needs only one disk sync.
 */
const TRANSACTION_SIZES: BatchSizes<DocumentEdit> = {
  countMax: 500,
  lengthMax: 1_000_000,
  lengthOf: (edit) => edit.id.length + edit.body.length + historyLength(edit),
  // Each edit rewrites the revision tree of its document. A long series of edits of one document
  // would therefore block other writers.
  alike: { keyOf: ({ id }) => id, countMax: 10 },
};

/**
 * Maximum number of edits per transaction in a database with follow-ups, where an edit can write
 * twenty other rows: a replication document writes a job.
 */
const EDITS_WITH_FOLLOW_UPS_MAX = 50;

/** Length of a revision hash in `_revisions.ids`, including quotes and comma. */
const REVISION_CHARACTERS = 35;

export interface EditsWriting {
  /** Writes the edits in one transaction. Returns an outcome per edit, in order. */
  transact(edits: readonly DocumentEdit[]): Promise<readonly WriteOutcome[]>;
  /** Whether `transact` failed because of one of the edits. Other errors end the writing. */
  isRefusal(error: unknown): boolean;
  settled(edit: DocumentEdit, outcome: WriteOutcome): void;
  /** Called for an edit that is refused even in a transaction of its own. */
  refused(edit: DocumentEdit, error: unknown): void;
  /** Whether hooks of the database write other rows after each edit. */
  readonly hasFollowUps: boolean;
  /** Yields to the event loop between transactions, because some stores commit without yielding. */
  readonly yielder?: Yielder;
}

/** Writes edits in order and reports their outcomes in the same order. */
export async function writeEdits(
  edits: Iterable<DocumentEdit>,
  { transact, isRefusal, settled, refused, hasFollowUps, yielder }: EditsWriting,
): Promise<void> {
  const write = async (
    batch: readonly DocumentEdit[],
  ): Promise<readonly RefusedBatch<DocumentEdit, unknown>[]> => {
    let outcomes: readonly WriteOutcome[];
    try {
      outcomes = await transact(batch);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      return [{ items: batch, cause: error }];
    }
    for (const [index, edit] of batch.entries()) settled(edit, outcomes[index] as WriteOutcome);
    return [];
  };
  const countMax = hasFollowUps ? EDITS_WITH_FOLLOW_UPS_MAX : TRANSACTION_SIZES.countMax;
  for (const batch of batchesOf(edits, { ...TRANSACTION_SIZES, countMax })) {
    await writeInHalves(batch, { write, refuse: refused });
    if (yielder?.isDue === true) await yielder.yield();
  }
}

function historyLength(edit: DocumentEdit): number {
  return edit.mode === "replicated" ? edit.revisions.hashes.length * REVISION_CHARACTERS : 0;
}
