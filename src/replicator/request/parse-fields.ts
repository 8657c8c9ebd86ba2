/** Fields of replication documents: their types, and the errors for invalid ones. */
import { OperationalError } from "../../base/index.ts";

export type Members = Readonly<Record<string, unknown>>;

/** A field that is missing or wrong; `reason` names it. */
export class ReplicationInvalidError extends OperationalError {
  override readonly name = "ReplicationInvalidError";
  readonly reason: string;

  constructor(reason: string) {
    super("REPLICATOR_INVALID", "The replication is not valid", { reason });
    this.reason = reason;
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

export function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A part of a URL without its escapes; as it is, where they are none. */
export function decode(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
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
