/** Sequences at which a job starts: `since_seq`, and `since` in the body of `_start_from`. Pure. */
import { JsonNumber, parseJson, printJson, utf8Encode } from "../../base/index.ts";
import { hasTimeForm, sinceTime } from "../../protocol/index.ts";
import { shown } from "./parse-fields.ts";

/**
 * Maximum length of a sequence as JSON. Bounds the size of replication logs, which contain 150
 * sequences, and of jobs, which contain several. CouchDB's sequences have about a hundred
 * characters, or thousands in a cluster with hundreds of shards.
 */
export const SEQUENCE_LENGTH_MAX = 32_768;

const EXPECTED =
  'an update sequence of the source, like 12, "12-g1AA" or [12,"g1AA"], or an existing time like 2026-01-31T12:00:00Z';

/**
 * Returns why a user must not give this value as the sequence at which a job starts, or `undefined`
 * if the value is valid. `field` names it in the message.
 */
export function startSequenceFault(field: string, value: unknown): string | undefined {
  // Counts bytes, because a record of a job contains the sequence.
  const byteCount = utf8Encode(printJson(value) ?? "").length;
  if (byteCount > SEQUENCE_LENGTH_MAX) {
    return `\`${field}\` must be ${EXPECTED}, of at most ${SEQUENCE_LENGTH_MAX} bytes, but has ${byteCount}`;
  }
  if (isStartSequence(value)) return undefined;
  return `\`${field}\` must be ${EXPECTED}, but is ${shown(value)}`;
}

function isStartSequence(value: unknown): boolean {
  if (typeof value !== "string") return isJsonSequence(value);
  const json = jsonIn(value);
  if (json !== undefined) return isJsonSequence(json);
  // `now` would be another sequence at each start of the job.
  return value !== "" && value !== "now" && (!hasTimeForm(value) || isTime(value));
}

/**
 * Whether the value is a sequence that is not a string. CouchDB 1.x has numbers; BigCouch and
 * Cloudant have lists of a number and a string or list.
 */
function isJsonSequence(value: unknown): boolean {
  if (!Array.isArray(value)) return isCount(value);
  const [count, state] = value;
  return (
    value.length === 2 && isCount(count) && (typeof state === "string" || Array.isArray(state))
  );
}

function isCount(value: unknown): boolean {
  const isNumber = typeof value === "number" || value instanceof JsonNumber;
  return isNumber && Number.isInteger(Number(value)) && Number(value) >= 0;
}

/** Parses a string that contains a number or list, which in a URL is the same sequence. */
function jsonIn(text: string): unknown {
  if (!/^[-\d[]/.test(text)) return undefined;
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

function isTime(text: string): boolean {
  try {
    return sinceTime(text) !== undefined;
  } catch {
    return false;
  }
}
