/**
 * Who a replication document belongs to: its job runs with that user's rights. The rules are those of `couch_replicator`'s
 * `before_doc_update`, which looks at the new body only.
 */
import { type JsonText, joinObject, splitObject } from "../base/index.ts";

/** Who writes. */
export interface Writer {
  readonly userName: string | null;
  readonly isAdmin: boolean;
}

/** Why somebody may not write a document that has this owner; undefined when they may. */
export function ownerRefusal(owner: unknown, { userName, isAdmin }: Writer): string | undefined {
  if (isAdmin || owner === undefined || owner === userName) return undefined;
  return "Can't update replication documents from other users.";
}

/** The owner that a document has once it is written: who wrote it, if it has none. */
export function ownerOnceWritten(owner: unknown, { userName }: Writer): string | null {
  return typeof owner === "string" ? owner : userName;
}

export function withOwner(body: JsonText, owner: string | null): JsonText {
  const others = splitObject(body).filter(({ name }) => name !== "owner");
  return joinObject([...others, { name: "owner", value: JSON.stringify(owner) }]);
}
