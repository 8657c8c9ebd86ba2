/**
 * Limits for each kind of response of a peer: its length, and its number of JSON values. Both
 * limits are enforced while the response is read and scanned, before anything is built from it. A
 * hostile peer can therefore make only its own job fail.
 */

const KIB = 1024;
const MIB = 1024 * KIB;

/**
 * Maximum length of a buffered response, equal to CouchDB's own limit for requests
 * (`max_http_request_size`).
 */
export const ANSWER_BYTES_MAX = 64 * MIB;

export interface AnswerBudget {
  readonly bytesMax: number;
  /** Maximum number of JSON values, counted at all levels. */
  readonly valuesMax: number;
}

/**
 * Limits for information about a database, and for acknowledgements of single writes: a few
 * members, with sequences of up to 32 KiB.
 */
export const SHORT_ANSWER: AnswerBudget = { bytesMax: 64 * KIB, valuesMax: 1_000 };

/**
 * Limits for a replication log. CouchDB stores 50 sessions. Each session has a dozen members, of
 * which three are sequences.
 */
export const LOG_ANSWER: AnswerBudget = { bytesMax: 8 * MIB, valuesMax: 20_000 };

/** Limits for a security object, whose lists contain users and roles. */
export const SECURITY_ANSWER: AnswerBudget = { bytesMax: 8 * MIB, valuesMax: 250_000 };

/**
 * Limits for one document. The number of values is not limited: a document is scanned but not
 * parsed, so its values take no memory.
 */
export const DOCUMENT_ANSWER: AnswerBudget = {
  bytesMax: ANSWER_BYTES_MAX,
  valuesMax: ANSWER_BYTES_MAX,
};

/**
 * Limits for a page of a changes feed, or for a single row. A row contains an object with one
 * member for each leaf, so the row of a document with half a million leaves has a million JSON
 * values.
 */
export const CHANGES_ANSWER: AnswerBudget = { bytesMax: ANSWER_BYTES_MAX, valuesMax: 1_200_000 };

/**
 * Limits for a bulk read. If the response exceeds them, each document is requested individually.
 */
export const BULK_GET_ANSWER: AnswerBudget = { bytesMax: ANSWER_BYTES_MAX, valuesMax: 2_000_000 };

/**
 * Limits for a list of database names or updates. A server that ignores `limit` might send all
 * names or updates.
 */
export const NAMES_ANSWER: AnswerBudget = { bytesMax: 32 * MIB, valuesMax: 1_000_000 };

/** Limits for the response to `_dbs_info` for `count` databases. */
export function databasesAnswer(count: number): AnswerBudget {
  return perItem(count, { bytesMax: 64 * KIB, valuesMax: 100 });
}

/**
 * Limits for the response to a bulk write of `count` documents, with a row for each document.
 * Validation functions may give long reasons.
 */
export function writtenAnswer(count: number): AnswerBudget {
  return perItem(count, { bytesMax: 64 * KIB, valuesMax: 100 });
}

/**
 * Limits for missing revisions and possible ancestors of documents. The server chooses the
 * ancestors, so the size of the request does not limit their number.
 */
export const DIFFERENCE_ANSWER: AnswerBudget = { bytesMax: ANSWER_BYTES_MAX, valuesMax: 1_200_000 };

function perItem(count: number, item: AnswerBudget): AnswerBudget {
  return {
    bytesMax: Math.min(SHORT_ANSWER.bytesMax + count * item.bytesMax, ANSWER_BYTES_MAX),
    valuesMax: SHORT_ANSWER.valuesMax + count * item.valuesMax,
  };
}
