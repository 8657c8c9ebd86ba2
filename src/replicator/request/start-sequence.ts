/** Sequences at which a job starts (`since_seq`). Pure. */
import { JsonNumber, printJson } from "../../base/index.ts";

/**
 * Maximum length of a sequence as JSON. Bounds the size of replication logs, which contain 150
 * sequences, and of jobs, which contain several. CouchDB's sequences have about a hundred
 * characters, or thousands in a cluster with hundreds of shards.
 */
export const SEQUENCE_LENGTH_MAX = 32_768;

/**
 * Whether a user may give this value as the sequence at which a job starts: a nonnegative number, a
 * non-empty string, or a list, as in BigCouch.
 */
export function isStartSequence(value: unknown): boolean {
  const isNumber = typeof value === "number" || value instanceof JsonNumber;
  const isStart = isNumber ? Number(value) >= 0 : Array.isArray(value) || typeof value === "string";
  return isStart && value !== "" && printJson(value).length <= SEQUENCE_LENGTH_MAX;
}
