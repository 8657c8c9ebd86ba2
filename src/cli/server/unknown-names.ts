/** Distinguishes a mistyped name from a filter that currently matches nothing. */
import type { JobPage } from "../../contract/index.ts";
import { answerWith } from "./answers.ts";
import { AnswerError, type TypedServer } from "./server-client.ts";

/** Filters whose values are names that jobs have. */
const NAMES: ReadonlySet<string> = new Set([
  "name",
  "database",
  "rule",
  "source",
  "target",
  "source_database",
  "target_database",
  "owner",
  "tag",
]);
/** Filters whose values are hosts. A host can be on either side of a job. */
const HOSTS: ReadonlySet<string> = new Set(["host", "endpoint"]);

/**
 * Checks filters that match no job. Returns whether one of them contains a name or host that no job
 * has. This needs no request if a name is the only filter.
 */
export async function nameUnknown(server: TypedServer, filters: object): Promise<boolean> {
  const given = Object.entries(filters);
  if (given.length === 1 && given.every(([name]) => NAMES.has(name))) return true;
  for (const [name, value] of given) {
    // With `error`, the host might be that of a proxy, which is neither source nor target of a job.
    if (HOSTS.has(name) && "error" in filters) continue;
    if (!(await isKnown(server, name, String(value)))) return true;
  }
  return false;
}

async function isKnown(server: TypedServer, name: string, value: string): Promise<boolean> {
  if (NAMES.has(name)) return hasJobs(server, name, value);
  if (name === "job") return isJob(server, value);
  if (!HOSTS.has(name) || value === "-") return true;
  // The value `HOST:` means the host at its default port. The colon is removed for the search.
  const host = value.replace(/:$/, "");
  return (await hasJobs(server, "source", host)) || hasJobs(server, "target", host);
}

async function hasJobs(server: TypedServer, name: string, value: string): Promise<boolean> {
  const page = await server.jobs.list({ [name]: value, limit: 1 }).page();
  const { jobs, bookmark } = answerWith<JobPage>(page, { jobs: "array" });
  return jobs.length > 0 || bookmark !== null;
}

async function isJob(server: TypedServer, id: string): Promise<boolean> {
  try {
    await server.jobs.get(id);
    return true;
  } catch (error) {
    if (error instanceof AnswerError && error.status === 404) return false;
    throw error;
  }
}
