/** Adds the identity of the job to its events, so that each log line is self-contained. */
import type { Events, Trace } from "../../base/index.ts";
import { maskCredentials } from "../../protocol/index.ts";
import type { EndpointAddress } from "../request/replication.ts";
import type { ReplicationJobData } from "./job-data.ts";
import { jobName } from "./job-name.ts";

/** Members added to each event of a job. */
export interface JobDescription {
  readonly jobId: string;
  /** Name of a persistent job or a job of a rule (`job-name.ts`); absent for a transient job. */
  readonly job?: string;
  /** URL without credentials, or name of a local database; absent if the document is malformed. */
  readonly source?: string;
  readonly target?: string;
}

export function describeJob(
  jobId: string,
  data: Pick<ReplicationJobData, "document" | "rule" | "replication" | "replicationId">,
): JobDescription {
  const { document, rule, replication } = data;
  const isNamed = document !== undefined || rule !== undefined;
  const named = isNamed ? { job: jobName(jobId, data) } : {};
  if (replication === undefined) return { jobId, ...named };
  const { source, target } = replication;
  return { jobId, ...named, source: shown(source), target: shown(target) };
}

/** Returns a trace that adds the description of the job to each event. */
export function jobTrace(trace: Trace, job: JobDescription): Trace {
  return {
    event: (name, fields) => trace.event(name, { ...fields, ...job } as Events[typeof name]),
  };
}

function shown(address: EndpointAddress): string {
  return address.kind === "local" ? address.database : maskCredentials(address.url);
}
