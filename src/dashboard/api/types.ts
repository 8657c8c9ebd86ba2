/** Names and queries of jobs. */
import type { Job } from "../../contract/index.ts";

/** Query of a list of jobs, the same in the page's URL and in the API. */
export type Query = Readonly<Record<string, string>>;

/** The name under which the API finds a job. */
export function jobName({
  id,
  database,
  doc_id: documentId,
}: Pick<Job, "id" | "database" | "doc_id">): string {
  return database === null || documentId === null ? id : `${database}/${documentId}`;
}
