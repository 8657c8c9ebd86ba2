/**
 * `/_tandem/jobs`: lists replication jobs, filtered by properties and state. Also pauses, resumes,
 * retries, resets or cancels one or several jobs. CouchDB has no counterpart.
 */

import { append, errorCode, parseJson } from "../../base/index.ts";
import {
  type ControlEvent as ControlRow,
  type Job,
  type JobPage,
  type LastFailure,
  QUERIES,
  type JobRun as RunRow,
} from "../../contract/index.ts";
import type { DatabaseRegistry } from "../../databases/index.ts";
import type { KeyValueStore, ReadTransaction } from "../../kv/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import {
  awaitedNames,
  BULK_ACTIONS,
  type BulkAction,
  type CommandOutcome,
  type ControlEvent,
  type Decider,
  type Failing,
  isoTime,
  type JobControl,
  type JobEntry,
  type JobFilter,
  type JobMeasure,
  type JobRun,
  jobName,
  jobView,
  parseSequence,
  type Replicator,
  startSequenceFault,
} from "../../replicator/index.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { readJsonMembers, refuseUnknownNames } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { commandAnswer } from "./commands.ts";
import { deciderOf, readDecider } from "./decider.ts";
import { type FindJobParts, findJob } from "./find-job.ts";
import { type AskedFilter, bookmarkOf, commandFilterOf, pageOf } from "./job-query.ts";
import { loginGateView } from "./logins.ts";

/** Maximum number of changed jobs listed in a response. */
const LISTED_JOBS_MAX = 1_000;

export interface JobsParts extends FindJobParts {
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly shownUrl: () => string;
}

/** Placeholder that matches no database or rule, because real uuids are longer. */
const NO_UUID = "none";

type Command = (replicator: Replicator, jobId: string, decider: Decider) => Promise<CommandOutcome>;

const COMMANDS: Readonly<Record<string, Command>> = {
  _pause: ({ commands }, id, decider) => commands.pause(id, decider),
  _resume: ({ commands }, id, decider) => commands.resume(id, decider),
  _retry: ({ commands }, id, decider) => commands.retry(id, decider),
  _reset: ({ commands }, id, decider) => commands.startFrom(id, 0, decider),
  _cancel: ({ commands }, id, decider) => commands.cancel(id, decider),
};

export function jobRoutes(parts: JobsParts): readonly Route[] {
  const commands = Object.entries(COMMANDS).flatMap(([name, command]) => [
    defineRoute("POST", `/_tandem/jobs/{id}/${name}`, OPERATIONS, (call) =>
      commandOne(parts, call, command),
    ),
  ]);
  const bulk = BULK_ACTIONS.map((action) =>
    defineRoute("POST", `/_tandem/jobs/_${action}`, OPERATIONS, (call) =>
      commandAll(parts, call, action),
    ),
  );
  return [
    ...bulk,
    defineRoute("GET", "/_tandem/jobs", OPERATIONS, (call) => listJobs(parts, call)),
    defineRoute("GET", "/_tandem/jobs/{id}", OPERATIONS, (call) => showJob(parts, call)),
    defineRoute("GET", "/_tandem/jobs/{id}/runs", OPERATIONS, (call) => listRuns(parts, call)),
    defineRoute("POST", "/_tandem/jobs/{id}/_start_from", OPERATIONS, (call) =>
      startFrom(parts, call),
    ),
    ...commands,
  ];
}

async function listJobs(parts: JobsParts, call: Call): Promise<ApiResponse> {
  const asked = pageOf(call);
  const { order, descending, after, skip, limit } = asked;
  const filter = await resolvedFilter(parts, asked);
  const page = { filter, order, descending, after, skip, limit };
  const { entries, total, next } = await parts.replicator.lists.page(page);
  return json(200, {
    total_rows: total ?? null,
    offset: total === undefined ? skip : Math.min(skip, total),
    bookmark: bookmarkOf(asked, next),
    jobs: await jobRows(parts, entries),
  } satisfies JobPage);
}

/**
 * Resolves names to uuids. The filter contains `NO_UUID` and matches no job if the database or the
 * rule does not exist, or if both a database and a rule are given.
 */
export async function resolvedFilter(
  { kv, databases, replicator }: JobsParts,
  { filter: others, name, database, rule, behindSec }: AskedFilter,
): Promise<JobFilter> {
  const { measures, named } = replicator;
  const filter = {
    ...others,
    ...(behindSec === undefined ? {} : { behindSinceMs: measures.behindSinceMs(behindSec) }),
    ...(name === undefined ? {} : { name: await named.filter(name) }),
  };
  if (database === undefined && rule === undefined) return filter;
  if (database !== undefined && rule !== undefined) return { ...filter, databaseUuid: NO_UUID };
  const uuid =
    database === undefined
      ? await replicator.rules.uuidOf(rule ?? "")
      : await kv.read((tx) => uuidOfDatabase(tx, databases, database));
  return { ...filter, databaseUuid: uuid ?? NO_UUID };
}

async function uuidOfDatabase(
  tx: ReadTransaction,
  databases: DatabaseRegistry,
  name: string,
): Promise<string | undefined> {
  try {
    return (await databases.open(tx, name)).uuid;
  } catch (error) {
    if (errorCode(error) === "STORE_DATABASE_NOT_FOUND") return undefined;
    throw error;
  }
}

async function showJob(parts: JobsParts, call: Call): Promise<ApiResponse> {
  const [view] = await jobRows(parts, [await findJob(parts, call)]);
  return json(200, view);
}

/** The last runs of a job, newest first. */
async function listRuns(parts: JobsParts, call: Call): Promise<ApiResponse> {
  const { limit, skip } = readQuery(call, QUERIES["GET /_tandem/jobs/{id}/runs"]);
  const { jobId } = await findJob(parts, call);
  const runs = await parts.replicator.measures.runs(jobId);
  const end = limit === undefined ? undefined : skip + limit;
  return json(200, { total_rows: runs.length, runs: runs.slice(skip, end).map(runView) });
}

async function commandOne(parts: JobsParts, call: Call, command: Command): Promise<ApiResponse> {
  const decider = await readDecider(call);
  const { jobId } = await findJob(parts, call);
  return answer(await command(parts.replicator, jobId, decider));
}

/** Applies a command to the jobs that match a filter, or to all jobs if explicitly requested. */
async function commandAll(parts: JobsParts, call: Call, action: BulkAction): Promise<ApiResponse> {
  const decider = await readDecider(call);
  const asked = commandFilterOf(call);
  const filter = await resolvedFilter(parts, asked);
  const { bulk } = parts.replicator;
  if (!asked.list) {
    return commandAnswer(await bulk.start(action, filter, decider));
  }
  const names = await namesOf(parts, filter);
  const changed: string[] = [];
  const command = await bulk.start(action, filter, decider, (ids) => append(changed, ids));
  const jobs = changed.length > LISTED_JOBS_MAX ? null : changed.map((id) => names.get(id) ?? id);
  return commandAnswer(command, { jobs });
}

/** Names of the jobs that match, by id; incomplete if there are more than can be listed. */
async function namesOf(
  { replicator }: JobsParts,
  filter: JobFilter,
): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  for await (const { jobId, data } of replicator.lists.all(filter)) {
    if (names.size > LISTED_JOBS_MAX) break;
    names.set(jobId, jobName(jobId, data));
  }
  return names;
}

async function startFrom(parts: JobsParts, call: Call): Promise<ApiResponse> {
  const members = await readJsonMembers(call);
  refuseUnknownNames(members.keys(), ["since", "why"]);
  const text = members.get("since") ?? "null";
  const fault = startSequenceFault("since", parseJson(text));
  if (fault !== undefined) throw badRequest(fault);
  const since = parseSequence(text);
  const decider = deciderOf(call, JSON.parse(members.get("why") ?? "null"));
  const { jobId, data } = await findJob(parts, call);
  if (data.replication?.pair === true && since !== 0) {
    throw badRequest(
      `\`since\` must be 0 for a job with \`pair\`, which reads from two databases, but is ${JSON.stringify(since)}`,
    );
  }
  const { commands } = parts.replicator;
  return answer(await commands.startFrom(jobId, since, decider));
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
      throw new ProtocolError(404, "not_found", "The job was removed in the meantime.");
  }
}

/** Rows of `GET /_tandem/jobs`. */
export async function jobRows(
  { replicator, shownUrl }: JobsParts,
  entries: readonly JobEntry[],
): Promise<readonly Job[]> {
  const [controls, leftBehind, measures, gates] = await Promise.all([
    replicator.commands.controls(entries.map(({ jobId }) => jobId)),
    replicator.failures.totals(entries),
    replicator.measures.of(entries),
    replicator.logins.ofJobs(entries),
  ]);
  return entries.map((entry, index) => {
    const { isPaused, restartAt, events } = controls[index] as JobControl;
    const { failing, errorCount, stallCount } = entry.data;
    const gate = gates[index];
    const measure = measures[index] as JobMeasure;
    const named = {
      name: jobName(entry.jobId, entry.data),
      rule: entry.data.rule ?? null,
      tags: entry.data.replication?.tags ?? {},
      run_on: entry.data.replication?.runOn ?? [],
      after: awaitedNames(entry.data),
      pair: entry.data.replication?.pair === true,
    };
    const troubles = {
      error_count: errorCount,
      failing: failing !== undefined,
      failing_since: failing === undefined ? null : isoTime(failing.sinceMs),
      last_failure: failing === undefined ? null : failureView(failing, measure),
      login_gate: gate === undefined ? null : loginGateView(gate),
      left_behind: leftBehind[index],
      stalled: stallCount > 0,
      parked: entry.data.state === "parked",
    };
    const decisions = {
      paused: isPaused,
      restart_at: restartAt?.sequence ?? null,
      control: events.map(controlView),
    };
    // A single literal would take ten times as long as this call, and a page has many rows.
    return Object.assign(
      jobView(entry, shownUrl()),
      named,
      troubles,
      measureView(measure),
      gate !== undefined && measure.heldBackBy === "backoff" ? { held_back_by: "login" } : {},
      decisions,
    );
  });
}

/** Last failure of a failing job. `next_try` is null while no attempt is scheduled. */
function failureView(failing: Failing, { nextTryMs }: JobMeasure): LastFailure {
  const { class: failureClass, error, reason, phase, side, host, lastMs, tries } = failing;
  return {
    class: failureClass,
    error,
    reason,
    phase: phase ?? null,
    side: side ?? null,
    host: host ?? null,
    time: isoTime(lastMs),
    tries,
    next_try: nextTryMs === undefined ? null : isoTime(nextTryMs),
  };
}

function measureView(measure: JobMeasure) {
  const { lagSec, behindSinceMs, pending, docsPerSec, bytesPerSec, heldBackBy, nextTryMs } =
    measure;
  return {
    lag_sec: lagSec,
    behind_since: behindSinceMs === undefined ? null : isoTime(behindSinceMs),
    pending,
    docs_per_sec: docsPerSec,
    bytes_per_sec: bytesPerSec,
    held_back_by: heldBackBy ?? null,
    next_try: nextTryMs === undefined ? null : isoTime(nextTryMs),
  };
}

/** Counts are null for a lost run, because they were never stored. */
function runView({ startMs, endMs, cause, reason, counts, lagSec, checkpoint }: JobRun): RunRow {
  return {
    start: isoTime(startMs),
    end: isoTime(endMs),
    cause,
    reason: reason ?? null,
    revisions_checked: counts?.missingChecked ?? null,
    missing_revisions_found: counts?.missingFound ?? null,
    docs_read: counts?.docsRead ?? null,
    docs_written: counts?.docsWritten ?? null,
    doc_write_failures: counts?.docWriteFailures ?? null,
    bytes: counts?.bytes ?? null,
    lag_sec: lagSec ?? null,
    checkpoint,
  };
}

function controlView({ action, userName, timeMs, why, since, command }: ControlEvent): ControlRow {
  return {
    action,
    user: userName,
    timestamp: isoTime(timeMs),
    why: why ?? null,
    ...(since === undefined ? {} : { since }),
    ...(command === undefined ? {} : { command }),
  };
}
