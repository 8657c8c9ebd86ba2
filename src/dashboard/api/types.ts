/** Names and queries of jobs. */
import type { Job } from "../../contract/index.ts";

/** What a list of jobs is asked for: the query of its URL, in the page and in the API alike. */
export type Query = Readonly<Record<string, string>>;

/** The name under which the API finds a job. */
export function jobName({
  id,
  database,
  doc_id: documentId,
}: Pick<Job, "id" | "database" | "doc_id">): string {
  return database === null || documentId === null ? id : `${database}/${documentId}`;
}
