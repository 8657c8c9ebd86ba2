/** Events of a job say which one it is, so that a line of the log is understood without another. */
import type { Events, Trace } from "../../base/index.ts";
import { maskCredentials } from "../../protocol/index.ts";
import type { EndpointAddress } from "../request/replication.ts";
import type { ReplicationJobData } from "./job-data.ts";

/** What each event of the job has besides its own members. */
export interface JobDescription {
  readonly jobId: string;
  /** `DATABASE/ID`; absent for a transient job. */
  readonly document?: string;
  /** A URL without secrets, or the name of a database of our own; absent for a document that is malformed. */
  readonly source?: string;
  readonly target?: string;
}

export function describeJob(
  jobId: string,
  { document, replication }: Pick<ReplicationJobData, "document" | "replication">,
): JobDescription {
  const named = document === undefined ? {} : { document: `${document.database}/${document.id}` };
  if (replication === undefined) return { jobId, ...named };
  const { source, target } = replication;
  return { jobId, ...named, source: shown(source), target: shown(target) };
}

/** Announces to `trace` what events say themselves, and which job it is. */
export function jobTrace(trace: Trace, job: JobDescription): Trace {
  return {
    event: (name, fields) => trace.event(name, { ...fields, ...job } as Events[typeof name]),
  };
}

function shown(address: EndpointAddress): string {
  return address.kind === "local" ? address.database : maskCredentials(address.url);
}
