/**
 * `/_tandem/jobs`: replication jobs for operators. They filter jobs by their properties and states, and pause, resume,
 * retry, reset or cancel one or all of them. CouchDB has no counterpart.
 */
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import {
  type CommandOutcome,
  type ControlEvent,
  isoTime,
  type JobControl,
  type JobEntry,
  type JobFilter,
  jobView,
  matchesFilter,
  type Replicator,
} from "../../replicator/index.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { integerParameter } from "../http/query.ts";
import { readJsonMembers } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { type FindJobParts, findJob } from "./find-job.ts";

export interface JobsParts extends FindJobParts {
  readonly shownUrl: () => string;
}

const LIMIT_DEFAULT = 100;
const FILTERS = ["state", "database", "source", "target", "owner", "error"] as const;

type Command = (replicator: Replicator, jobId: string, call: Call) => Promise<CommandOutcome>;

const COMMANDS: Readonly<Record<string, Command>> = {
  _pause: ({ commands }, id, { user }) => commands.pause(id, user.name),
  _resume: ({ commands }, id, { user }) => commands.resume(id, user.name),
  _retry: ({ commands }, id, { user }) => commands.retry(id, user.name),
  _reset: ({ commands }, id, { user }) => commands.startFrom(id, 0, user.name),
  _cancel: ({ commands }, id, { user }) => commands.cancel(id, user.name),
};

export function jobRoutes(parts: JobsParts): readonly Route[] {
  const commands = Object.entries(COMMANDS).flatMap(([name, command]) => [
    defineRoute("POST", `/_tandem/jobs/${name}`, (call) => commandAll(parts, call, command)),
    defineRoute("POST", `/_tandem/jobs/{id}/${name}`, (call) => commandOne(parts, call, command)),
  ]);
  return [
    defineRoute("GET", "/_tandem/jobs", (call) => listJobs(parts, call)),
    defineRoute("GET", "/_tandem/jobs/{id}", (call) => showJob(parts, call)),
    defineRoute("POST", "/_tandem/jobs/{id}/_start_from", (call) => startFrom(parts, call)),
    ...commands,
  ];
}

async function listJobs(parts: JobsParts, call: Call): Promise<ApiResponse> {
  const limit = integerParameter(call, "limit") ?? LIMIT_DEFAULT;
  const skip = integerParameter(call, "skip") ?? 0;
  const filter = filterOf(call);
  const shown: JobEntry[] = [];
  let count = 0;
  for await (const entry of parts.replicator.entries()) {
    if (!matchesFilter(filter, entry)) continue;
    if (count >= skip && shown.length < limit) shown.push(entry);
    count++;
  }
  return json(200, {
    total_rows: count,
    offset: Math.min(skip, count),
    jobs: await views(parts, shown),
  });
}

async function showJob(parts: JobsParts, call: Call): Promise<ApiResponse> {
  const [view] = await views(parts, [await findJob(parts, call)]);
  return json(200, view);
}

async function commandOne(parts: JobsParts, call: Call, command: Command): Promise<ApiResponse> {
  const { jobId } = await findJob(parts, call);
  return answer(await command(parts.replicator, jobId, call));
}

/** Applies to all jobs, which has to be said, or to those that a filter finds. */
async function commandAll(parts: JobsParts, call: Call, command: Command): Promise<ApiResponse> {
  const { query } = call.request;
  const filter = filterOf(call);
  if (Object.keys(filter).length === 0 && query.get("all") !== "true") {
    throw badRequest(`Name the jobs by ${FILTERS.join(", ")}, or all of them by all=true`);
  }
  const ids: string[] = [];
  for await (const entry of parts.replicator.entries()) {
    if (matchesFilter(filter, entry)) ids.push(entry.jobId);
  }
  let changedCount = 0;
  for (const id of ids) {
    if ((await command(parts.replicator, id, call)) === "done") changedCount++;
  }
  return json(200, { ok: true, matched: ids.length, changed: changedCount });
}

async function startFrom(parts: JobsParts, call: Call): Promise<ApiResponse> {
  const text = (await readJsonMembers(call)).get("since");
  const since: unknown = text === undefined ? undefined : JSON.parse(text);
  if (since === undefined || since === null || typeof since === "boolean") {
    throw badRequest("`since` must be an update sequence of the source");
  }
  const { jobId } = await findJob(parts, call);
  const { commands } = parts.replicator;
  return answer(await commands.startFrom(jobId, since, call.user.name));
}

function answer(outcome: CommandOutcome): ApiResponse {
  switch (outcome) {
    case "done":
      return json(200, { ok: true });
    case "no-need":
      return json(200, { ok: true, no_changes: true });
    case "ended":
      throw new ProtocolError(409, "conflict", "The job has ended: it can be retried or reset.");
    case "paused":
      throw new ProtocolError(409, "conflict", "The job is paused: resume it.");
    case "missing":
      throw new ProtocolError(404, "not_found", "missing");
  }
}

async function views({ replicator, shownUrl }: JobsParts, entries: readonly JobEntry[]) {
  const controls = await replicator.commands.controls(entries.map(({ jobId }) => jobId));
  return entries.map((entry, index) => {
    const { isPaused, restartAt, events } = controls[index] as JobControl;
    return {
      ...jobView(entry, shownUrl()),
      error_count: entry.data.errorCount,
      paused: isPaused,
      restart_at: restartAt?.sequence ?? null,
      control: events.map(controlView),
    };
  });
}

function controlView({ action, userName, timeMs, since }: ControlEvent) {
  const event = { action, user: userName, timestamp: isoTime(timeMs) };
  return since === undefined ? event : { ...event, since };
}

function filterOf({ request: { query } }: Call): JobFilter {
  const filter: Partial<Record<keyof JobFilter, string>> = {};
  for (const name of FILTERS) {
    const text = query.get(name);
    if (text !== undefined) filter[name] = text;
  }
  return filter;
}
