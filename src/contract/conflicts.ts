/** Schemas of documents with conflicts. */
import {
  count,
  described,
  exactly,
  flag,
  listOf,
  nullable,
  type Shape,
  text,
  time,
} from "./schema.ts";

const bookmark = nullable(text, { description: "for the next page; null on the last one" });

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
  conflicts: described(listOf(text), "the other leaves that are not deleted, at most 100"),
  leaves: described(count, "number of leaves that are not deleted"),
  since: nullable(time, { description: "null for a conflict of an older program" }),
  job_id: nullable(text, {
    description: "the job of this server that wrote the conflicting revision; null: another writer",
  }),
});
export type ConflictRow = Shape<typeof ConflictRow>;

export const ConflictPage = exactly({
  total_rows: described(count, "documents with conflicts"),
  complete: described(flag, "false while documents of an older program are being searched"),
  bookmark,
  conflicts: listOf(ConflictRow),
});
export type ConflictPage = Shape<typeof ConflictPage>;
