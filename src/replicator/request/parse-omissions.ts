/**
 * Parses the options by which a replication omits data: `"deleted": "skip"`, `"attachments":
 * {"max_bytes": N}` and `"documents": {"max_bytes": N}`. Not in CouchDB.
 */
import { isObject, type Members, ReplicationInvalidError, shown } from "./parse-fields.ts";
import type { Omissions } from "./replication.ts";

const BYTES_MAX = "max_bytes";

/** Members of a replication that omit data. */
export const OMISSION_MEMBERS = ["deleted", "documents", "attachments"] as const;

/**
 * Parses the members `deleted`, `attachments` and `documents`. Returns undefined if nothing is
 * omitted. Throws a ReplicationInvalidError.
 */
export function parseOmissions(members: Members): Omissions | undefined {
  const deleted = parseDeleted(members.deleted);
  const attachmentBytesMax = parseBytesMax(members, "attachments");
  const documentBytesMax = parseBytesMax(members, "documents");
  const omissions: Omissions = {
    ...(deleted ? { deleted } : {}),
    ...(attachmentBytesMax === undefined ? {} : { attachmentBytesMax }),
    ...(documentBytesMax === undefined ? {} : { documentBytesMax }),
  };
  return Object.keys(omissions).length === 0 ? undefined : omissions;
}

/** Formats omissions as members in fixed order, because they become part of the replication id. */
export function omissionMembers(omissions: Omissions): Members {
  const { deleted, attachmentBytesMax, documentBytesMax } = omissions;
  return {
    ...(deleted === undefined ? {} : { deleted: "skip" }),
    ...(attachmentBytesMax === undefined ? {} : { attachments: { max_bytes: attachmentBytesMax } }),
    ...(documentBytesMax === undefined ? {} : { documents: { max_bytes: documentBytesMax } }),
  };
}

function parseDeleted(value: unknown): true | undefined {
  if (value === undefined || value === null || value === "copy") return undefined;
  if (value === "skip") return true;
  throw new ReplicationInvalidError(
    `\`deleted\` must be one of copy, skip, but is ${shown(value)}`,
  );
}

function parseBytesMax(members: Members, name: "attachments" | "documents"): number | undefined {
  const value = members[name];
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) {
    const reason = `\`${name}\` must be an object like {"${BYTES_MAX}": 1000000}, but is ${shown(value)}`;
    throw new ReplicationInvalidError(reason);
  }
  const unknown = Object.keys(value).find((member) => member !== BYTES_MAX);
  if (unknown !== undefined) {
    const reason = `\`${name}\` has the unknown member ${shown(unknown)}; the only member accepted is \`${BYTES_MAX}\``;
    throw new ReplicationInvalidError(reason);
  }
  const { max_bytes: bytesMax } = value;
  if (Number.isSafeInteger(bytesMax) && Number(bytesMax) >= 0) return Number(bytesMax);
  const reason = `\`${name}.${BYTES_MAX}\` must be an integer of at least 0, but is ${shown(bytesMax)}`;
  throw new ReplicationInvalidError(reason);
}
