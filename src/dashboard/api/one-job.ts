/** A single job with its details. */
import type { FailureCount, Job, JobRun } from "../../contract/index.ts";
import { RETRY_IDS_MAX } from "./limits.ts";
import { client, get, RequestError, request, segmentOf } from "./request.ts";
import type { Session } from "./session.ts";

/** Page size of the list of failures. A whole page can be selected. */
export const FAILURE_ROWS = RETRY_IDS_MAX;

export interface JobDetails {
  readonly job: Job;
  readonly runs: readonly JobRun[];
  readonly failureTotal: number;
  readonly failureCounts: readonly FailureCount[];
}

export async function readDetails(name: string, signal: AbortSignal): Promise<JobDetails> {
  const counts = `_tandem/jobs/${segmentOf(name)}/failures/_counts`;
  const [job, { runs }, { total_rows: failureTotal, counts: failureCounts }] = await Promise.all([
    client.jobs.get(name, { signal }),
    client.jobs.runs(name, {}, { signal }).page(),
    get<{ total_rows: number; counts: FailureCount[] }>(counts, signal),
  ]);
  return { job, runs, failureTotal, failureCounts };
}

export type ReplicationDocument = Readonly<Record<string, unknown>>;

/**
 * Whether the user is allowed to read the document, as an administrator or the owner of the job.
 */
export function mayReadDocument({ name, changes }: Session, job: Pick<Job, "user">): boolean {
  return changes || (name !== null && name === job.user);
}

/**
 * Reads the document of a job. Returns `undefined` if the job has no document or the user is not
 * allowed to read it.
 */
export async function readDocument(
  session: Session,
  job: Pick<Job, "database" | "doc_id" | "user">,
  signal: AbortSignal,
): Promise<ReplicationDocument | undefined> {
  if (job.database === null || job.doc_id === null || !mayReadDocument(session, job)) {
    return undefined;
  }
  try {
    return await get(pathOfDocument(job.database, job.doc_id), signal);
  } catch (error) {
    if (error instanceof RequestError && [401, 403, 404].includes(error.status)) return undefined;
    throw error;
  }
}

export async function writeDocument(
  database: string,
  id: string,
  document: ReplicationDocument,
): Promise<void> {
  await request("PUT", pathOfDocument(database, id), { body: document });
}

export function pathOfDocument(database: string, id: string): string {
  return `${segmentOf(database)}/${segmentOf(id)}`;
}
