/** A single job with its details. */
import { parseJson } from "../../base/index.ts";
import type { DocumentFailure, FailureCount, Job, JobRun } from "../../contract/index.ts";
import { pathOfJob } from "./jobs.ts";
import { RETRY_IDS_MAX } from "./limits.ts";
import { exchange, get, RequestError, request, segmentOf, withQuery } from "./request.ts";
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
  const path = pathOfJob(name);
  const [job, { runs }, { total_rows: failureTotal, counts: failureCounts }] = await Promise.all([
    get<Job>(path, signal),
    get<{ runs: JobRun[] }>(`${path}/runs`, signal),
    get<{ total_rows: number; counts: FailureCount[] }>(`${path}/failures/_counts`, signal),
  ]);
  return { job, runs, failureTotal, failureCounts };
}

export async function readFailures(
  name: string,
  skip: number,
  signal: AbortSignal,
): Promise<readonly DocumentFailure[]> {
  const page = { skip: String(skip), limit: String(FAILURE_ROWS) };
  const path = withQuery(`${pathOfJob(name)}/failures`, page);
  return (await get<{ failures: DocumentFailure[] }>(path, signal)).failures;
}

export interface RetriedFailures {
  /** Whether the retry has ended. Otherwise it continues (for a paused job, once it is resumed). */
  readonly isDone: boolean;
  readonly tried: number;
  readonly total_rows: number;
}

const ACCEPTED = 202;

/** Waits up to 30 s for the retry of the whole list or of these documents. */
export async function retryFailures(
  name: string,
  ids?: readonly string[],
): Promise<RetriedFailures> {
  const body = ids === undefined ? {} : { ids };
  const path = `${pathOfJob(name)}/failures/_retry`;
  const { status, text } = await exchange("POST", path, { body });
  return { ...JSON.parse(text), isDone: status !== ACCEPTED };
}

/**
 * Restarts the job at an update sequence of its source, ignoring checkpoints. `why` may be empty.
 */
export async function startFrom(name: string, since: unknown, why: string): Promise<void> {
  const reason = why.trim() === "" ? {} : { why: why.trim() };
  await request("POST", `${pathOfJob(name)}/_start_from`, { body: { since, ...reason } });
}

export type ReplicationDocument = Readonly<Record<string, unknown>>;

/** Whether the user may read the document of the job: administrators and the owner. */
export function mayReadDocument({ name, changes }: Session, job: Pick<Job, "user">): boolean {
  return changes || (name !== null && name === job.user);
}

/** Reads the document of a job; `undefined` if it has no document or the user may not read it. */
export async function readDocument(
  session: Session,
  job: Pick<Job, "database" | "doc_id" | "user">,
  signal: AbortSignal,
): Promise<ReplicationDocument | undefined> {
  if (job.database === null || job.doc_id === null || !mayReadDocument(session, job)) {
    return undefined;
  }
  try {
    const path = pathOfDocument(job.database, job.doc_id);
    const { text } = await exchange("GET", path, { signal });
    return parseJson(text) as ReplicationDocument;
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
