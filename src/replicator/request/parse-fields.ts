/** Types of fields in replication documents, and the errors for invalid fields. */
import {
  isJsonObject,
  type JsonText,
  keepsForm,
  OperationalError,
  parseJson,
  printJson,
  splitObject,
} from "../../base/index.ts";
import { percentDecode } from "../../protocol/index.ts";

export type Members = Readonly<Record<string, unknown>>;

/**
 * Members whose numbers are compared, hashed or forwarded. They are kept as text, to preserve the
 * form of numbers.
 */
const EXACT_MEMBERS = ["selector", "query_params", "since_seq", "create_target_params"];

/** Parses a document or body, preserving numbers where needed. The text must be valid JSON. */
export function replicationMembers(text: JsonText): Members {
  return withExactMembers(JSON.parse(text), text);
}

/** Returns the result of `replicationMembers` for text that has already been parsed. */
export function withExactMembers(parsed: Members, text: JsonText): Members {
  if (!isObject(parsed) || keepsForm(text)) return parsed;
  const exact = splitObject(text).filter(({ name }) => EXACT_MEMBERS.includes(name));
  return {
    ...parsed,
    ...Object.fromEntries(exact.map(({ name, value }) => [name, parseJson(value)])),
  };
}

/** A missing or invalid field, named in `reason`. */
export class ReplicationInvalidError extends OperationalError {
  override readonly name = "ReplicationInvalidError";
  readonly reason: string;
  /** Error name in the response, as in CouchDB. */
  readonly error: string;

  constructor(reason: string, error = "bad_request") {
    super("REPLICATOR_INVALID", "The replication is not valid", { reason });
    this.reason = reason;
    this.error = error;
  }
}

/** Maximum number of characters of a rejected value that a message shows. */
export const SHOWN_LENGTH_MAX = 100;

/** Formats a rejected value for a message. */
export function shown(value: unknown): string {
  return String(printJson(value)).slice(0, SHOWN_LENGTH_MAX);
}

export function boolean(members: Members, name: string, otherwise: boolean): boolean {
  const value = members[name];
  if (value === undefined) return otherwise;
  if (typeof value !== "boolean") {
    throw new ReplicationInvalidError(`parameter \`${name}\` must be a boolean`);
  }
  return value;
}

export const isObject: (value: unknown) => value is Members = isJsonObject;

/** Decodes percent-escapes in a part of a URL. Invalid escapes are left unchanged. */
export function decode(text: string): string {
  return percentDecode(text) ?? text;
}

export function optionalString(
  members: Members,
  name: string,
  shownName = name,
): string | undefined {
  const value = members[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") {
    throw new ReplicationInvalidError(`\`${shownName}\` must be a string`);
  }
  return value;
}
