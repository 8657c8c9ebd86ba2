/**
 * Limits on one answer of a peer, by purpose: its length, and how many JSON values it may hold. Both are enforced while
 * the answer is read and scanned, before anything is built from it. A hostile peer can fail its own job, and nothing else.
 */

const KIB = 1024;
const MIB = 1024 * KIB;

/** Longest answer that is held whole: CouchDB's own limit on requests (`max_http_request_size`). */
export const ANSWER_BYTES_MAX = 64 * MIB;

export interface AnswerBudget {
  readonly bytesMax: number;
  /** Values at any depth. */
  readonly valuesMax: number;
}

/** Facts about a database, and acknowledgements of one write: a few members, with sequences of up to 32 KiB. */
export const SHORT_ANSWER: AnswerBudget = { bytesMax: 64 * KIB, valuesMax: 1_000 };

/** A replication log. CouchDB keeps 50 sessions of a dozen members, three of them sequences. */
export const LOG_ANSWER: AnswerBudget = { bytesMax: 8 * MIB, valuesMax: 20_000 };

/** A security object, whose lists name users and roles. */
export const SECURITY_ANSWER: AnswerBudget = { bytesMax: 8 * MIB, valuesMax: 250_000 };

/** One document. It is scanned and never parsed, so its values cost no memory. */
export const DOCUMENT_ANSWER: AnswerBudget = {
  bytesMax: ANSWER_BYTES_MAX,
  valuesMax: ANSWER_BYTES_MAX,
};

/** A page or a row of changes: a document with half a million leaves has a million values in its row. */
export const CHANGES_ANSWER: AnswerBudget = { bytesMax: ANSWER_BYTES_MAX, valuesMax: 1_200_000 };

/** Many documents at once. A batch beyond it is requested document by document. */
export const BULK_GET_ANSWER: AnswerBudget = { bytesMax: ANSWER_BYTES_MAX, valuesMax: 2_000_000 };

/** Names or updates of the databases of a server that ignores `limit`. */
export const NAMES_ANSWER: AnswerBudget = { bytesMax: 32 * MIB, valuesMax: 1_000_000 };

/** Facts about `count` databases. */
export function databasesAnswer(count: number): AnswerBudget {
  return perItem(count, { bytesMax: 64 * KIB, valuesMax: 100 });
}

/** A row for each of `count` documents that were written. A validation function may give long reasons. */
export function writtenAnswer(count: number): AnswerBudget {
  return perItem(count, { bytesMax: 64 * KIB, valuesMax: 100 });
}

/** Missing revisions and possible ancestors of documents. The ancestors are the server's, so the number asked for bounds nothing. */
export const DIFFERENCE_ANSWER: AnswerBudget = { bytesMax: ANSWER_BYTES_MAX, valuesMax: 1_200_000 };

function perItem(count: number, item: AnswerBudget): AnswerBudget {
  return {
    bytesMax: Math.min(SHORT_ANSWER.bytesMax + count * item.bytesMax, ANSWER_BYTES_MAX),
    valuesMax: SHORT_ANSWER.valuesMax + count * item.valuesMax,
  };
}
