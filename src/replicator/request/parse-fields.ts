/** Fields of replication documents: their types, and the errors for invalid ones. */
import {
  isJsonObject,
  type JsonText,
  keepsForm,
  OperationalError,
  parseJson,
  splitObject,
} from "../../base/index.ts";
import { percentDecode } from "../../protocol/index.ts";

export type Members = Readonly<Record<string, unknown>>;

/** Members whose numbers are compared, hashed or sent on. */
const EXACT_MEMBERS = ["selector", "query_params", "since_seq", "create_target_params"];

/** The members of a document or a body. Numbers keep their form where that matters; the text must be valid JSON. */
export function replicationMembers(text: JsonText): Members {
  return withExactMembers(JSON.parse(text), text);
}

/** The same, of a text that was parsed before. */
export function withExactMembers(parsed: Members, text: JsonText): Members {
  if (!isObject(parsed) || keepsForm(text)) return parsed;
  const exact = splitObject(text).filter(({ name }) => EXACT_MEMBERS.includes(name));
  return {
    ...parsed,
    ...Object.fromEntries(exact.map(({ name, value }) => [name, parseJson(value)])),
  };
}

/** A field that is missing or wrong; `reason` names it. */
export class ReplicationInvalidError extends OperationalError {
  override readonly name = "ReplicationInvalidError";
  readonly reason: string;
  /** CouchDB's word for it. */
  readonly error: string;

  constructor(reason: string, error = "bad_request") {
    super("REPLICATOR_INVALID", "The replication is not valid", { reason });
    this.reason = reason;
    this.error = error;
  }
}

/** Of what is shown of a value that is refused. */
const SHOWN_LENGTH_MAX = 100;

/** A value that is refused, for the sentence that says so. */
export function shown(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, SHOWN_LENGTH_MAX);
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

/** A part of a URL without its escapes; as it is, where they are none. */
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
