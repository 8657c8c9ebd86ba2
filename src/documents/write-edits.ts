/**
 * Writes many edits into the store, in batches of one transaction each. A batch that the store refuses is split into
 * halves.
 */
import type { Turns } from "../base/index.ts";
import type { DocumentEdit, WriteOutcome } from "../databases/index.ts";
import { type BatchSizes, batchesOf } from "./batches.ts";
import { type RefusedBatch, writeInHalves } from "./refused-batch.ts";

/** Far from a transaction's limits in size and time, and enough for a usual batch to wait for the disk once. */
const TRANSACTION_SIZES: BatchSizes<DocumentEdit> = {
  countMax: 500,
  lengthMax: 1_000_000,
  lengthOf: (edit) => edit.id.length + edit.body.length + historyLength(edit),
  // Each writes the whole tree of its document again, and between two transactions others have their turn.
  alike: { keyOf: ({ id }) => id, countMax: 10 },
};

/** Characters of a hash in a list. */
const REVISION_CHARACTERS = 35;

export interface EditsWriting {
  /** Writes the edits in one transaction; an outcome for each, at its place. */
  transact(edits: readonly DocumentEdit[]): Promise<readonly WriteOutcome[]>;
  /** Whether `transact` failed because of one of the edits. All else concerns the store, and is thrown. */
  isRefusal(error: unknown): boolean;
  settled(edit: DocumentEdit, outcome: WriteOutcome): void;
  /** The store refuses this edit alone, with that error. */
  refused(edit: DocumentEdit, error: unknown): void;
  /** Given between two transactions: a store may commit without any wait. */
  readonly turns?: Turns;
}

/** Writes edits in their order, and tells what became of each in the same order. */
export async function writeEdits(
  edits: Iterable<DocumentEdit>,
  { transact, isRefusal, settled, refused, turns }: EditsWriting,
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
  for (const batch of batchesOf(edits, TRANSACTION_SIZES)) {
    await writeInHalves(batch, { write, refuse: refused });
    if (turns?.areDue === true) await turns.give();
  }
}

function historyLength(edit: DocumentEdit): number {
  return edit.mode === "replicated" ? edit.revisions.hashes.length * REVISION_CHARACTERS : 0;
}
