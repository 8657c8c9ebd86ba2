/** Schemas of documents with conflicts. */
import { Type } from "@sinclair/typebox";
import {
  count,
  described,
  exactly,
  flag,
  listOf,
  nullable,
  oneOf,
  optional,
  type Shape,
  text,
  time,
} from "./schema.ts";

const bookmark = nullable(text, {
  description: "bookmark of the next page; null on the last page",
});

export const ConflictCounts = exactly({
  databases: listOf(
    exactly({ name: text, conflicts: described(count, "documents with conflicts") }),
  ),
  bookmark,
});
export type ConflictCounts = Shape<typeof ConflictCounts>;

export const ConflictRow = exactly({
  id: text,
  winner: described(text, "the winning revision"),
  conflicts: described(listOf(text), "other non-deleted leaves, at most 100"),
  leaves: described(count, "number of leaves that are not deleted"),
  since: nullable(time, { description: "null if an older version of Tandem wrote the conflict" }),
  job_id: nullable(text, {
    description: "the job of this server that wrote the conflicting revision; null: another writer",
  }),
  unresolved: nullable(exactly({ time, reason: text }), {
    description: "reason why the policy left the conflict unresolved; otherwise null",
  }),
});
export type ConflictRow = Shape<typeof ConflictRow>;

export const ConflictPage = exactly({
  total_rows: described(count, "documents with conflicts"),
  complete: described(flag, "false while documents that an older program wrote are being searched"),
  bookmark,
  conflicts: listOf(ConflictRow),
});
export type ConflictPage = Shape<typeof ConflictPage>;

export const ConflictPolicy = exactly({
  resolve: oneOf(["last_write", "longest_history", "remote", "function"]),
  field: optional(
    described(text, "for last_write: path of a member that contains a number or an ISO 8601 time"),
  ),
  function: optional(
    described(
      text,
      "for function: a JavaScript function that is called with the list of leaves, winner first",
    ),
  ),
});

export const ConflictPolicyStatus = exactly({
  policy: nullable(ConflictPolicy),
  since: nullable(time),
});
export type ConflictPolicy = Shape<typeof ConflictPolicy>;
export type ConflictPolicyStatus = Shape<typeof ConflictPolicyStatus>;

export const ResolutionRow = exactly({
  id: text,
  time,
  resolve: text,
  kept: described(text, "the leaf that won"),
  result: described(text, "the remaining leaf: the winner, or a new revision based on it"),
  removed: described(listOf(text), "the deleted leaves"),
});
export type ResolutionRow = Shape<typeof ResolutionRow>;

export const ResolutionPage = exactly({ bookmark, resolutions: listOf(ResolutionRow) });
export type ResolutionPage = Shape<typeof ResolutionPage>;

export const UndoRequest = exactly({
  ids: optional(described(listOf(text), "only these documents")),
  since: optional(described(time, "only resolutions since this time")),
  bookmark: optional(described(text, "`bookmark` of the previous response")),
});
export type UndoRequest = Shape<typeof UndoRequest>;

export const UndoneResolutions = exactly({
  ok: Type.Literal(true),
  resolutions: described(count, "resolutions undone"),
  revisions: described(count, "revisions written"),
  lost: described(count, "leaves whose bodies are no longer stored"),
  kept: described(
    count,
    "resolutions not undone, because the document has been deleted or the write was refused",
  ),
  bookmark: nullable(text, {
    description: "bookmark for the next request; null if nothing is left to undo",
  }),
});
export type UndoneResolutions = Shape<typeof UndoneResolutions>;
