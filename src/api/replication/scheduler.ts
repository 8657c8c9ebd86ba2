/** `_scheduler/jobs`, `_scheduler/docs` and `_active_tasks`: the present states of replication jobs. */
import type { DatabaseRegistry } from "../../databases/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import {
  documentView,
  hasEnded,
  type JobEntry,
  jobView,
  ownerKey,
  ownerOf,
  type ReplicationState,
  type Replicator,
  taskView,
} from "../../replicator/index.ts";
import { readsOperations, requireAdmin } from "../access/authorization.ts";
import { securitySubject } from "../access/database-access.ts";
import { type Call, parameter } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { integerParameter, queryError } from "../http/query.ts";
import { json } from "../http/responses.ts";
import { defineRoute, type Route } from "../http/router.ts";

export interface SchedulerParts {
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly replicator: Replicator;
  /** The address of our databases for others, with a slash at the end. */
  readonly shownUrl: () => string;
}

const JOBS_LIMIT = 100;
const REPLICATOR_DATABASE = "_replicator";
const STATES: readonly ReplicationState[] = [
  "running",
  "failed",
  "completed",
  "pending",
  "crashing",
];

export function schedulerRoutes(parts: SchedulerParts): readonly Route[] {
  return [
    defineRoute("GET", "/_scheduler/jobs", (call) => listJobs(parts, call)),
    defineRoute("GET", "/_scheduler/jobs/{id...}", (call) => showJob(parts, call)),
    defineRoute("GET", "/_scheduler/docs", (call) =>
      listDocuments(parts, call, REPLICATOR_DATABASE),
    ),
    defineRoute("GET", "/_scheduler/docs/{path...}", (call) => documents(parts, call)),
    defineRoute("GET", "/_active_tasks", () => activeTasks(parts)),
  ];
}

/** Jobs that run or will; those that ended are found by their id. */
async function listJobs(
  { replicator, shownUrl }: SchedulerParts,
  call: Call,
): Promise<ApiResponse> {
  const limit = integerParameter(call, "limit") ?? JOBS_LIMIT;
  const skip = integerParameter(call, "skip") ?? 0;
  const active = await collect(replicator.entries(), ({ state }) => !hasEnded(state));
  const jobs = active.map((entry) => jobView(entry, shownUrl()));
  jobs.sort((left, right) => (String(left.id) < String(right.id) ? -1 : 1));
  return json(200, {
    total_rows: jobs.length,
    offset: Math.min(skip, jobs.length),
    jobs: jobs.slice(skip, skip + limit),
  });
}

/** A job by replication id or job id. Administrators and read-only operators see all of them, and other users those that they started. */
async function showJob({ replicator, shownUrl }: SchedulerParts, call: Call): Promise<ApiResponse> {
  const { name } = call.user;
  const asker = ownerOf(securitySubject(call.user));
  const entry = await replicator.find(parameter(call, "id").replaceAll(" ", "+"), asker);
  const isOwn = name !== null && entry !== undefined && ownerKey(entry.data) === ownerKey(asker);
  if (!readsOperations(call.user) && !isOwn) requireAdmin(call);
  if (entry === undefined) throw new ProtocolError(404, "not_found", "missing");
  return json(200, jobView(entry, shownUrl()));
}

/** `{db}` or `{db}/{docid}`; the slashes of a database's name may be unescaped. */
async function documents(parts: SchedulerParts, call: Call): Promise<ApiResponse> {
  const segments = parameter(call, "path").split("/");
  const place = segments.indexOf(REPLICATOR_DATABASE);
  if (place < 0) throw badRequest("Invalid path");
  const database = segments.slice(0, place + 1).join("/");
  const documentId = segments.slice(place + 1).join("/");
  if (documentId === "") return listDocuments(parts, call, database);
  const entry = await parts.replicator.findDocument(await uuidOf(parts, database), documentId);
  if (entry === undefined) throw new ProtocolError(404, "not_found", "missing");
  return json(200, documentView(entry, parts.shownUrl()));
}

async function listDocuments(
  parts: SchedulerParts,
  call: Call,
  database: string,
): Promise<ApiResponse> {
  const states = statesParameter(call);
  const limit = integerParameter(call, "limit") ?? Number.POSITIVE_INFINITY;
  const skip = integerParameter(call, "skip") ?? 0;
  const uuid = await uuidOf(parts, database);
  const entries = await collect(parts.replicator.entries(uuid), ({ state }) =>
    states.includes(state),
  );
  return json(200, {
    total_rows: entries.length,
    offset: Math.min(skip, entries.length),
    docs: entries.slice(skip, skip + limit).map((entry) => documentView(entry, parts.shownUrl())),
  });
}

async function activeTasks({ replicator, shownUrl }: SchedulerParts): Promise<ApiResponse> {
  const running = await collect(replicator.entries(), ({ state }) => state === "running");
  return json(
    200,
    running.map((entry) => taskView(entry, shownUrl())),
  );
}

function statesParameter(call: Call): readonly string[] {
  const text = call.request.query.get("states");
  if (text === undefined || text === "") return STATES;
  const named = text.toLowerCase().split(",");
  const unknown = named.filter((name) => !STATES.some((state) => state === name));
  if (unknown.length === 0) return named;
  throw queryError(`Unknown states ${unknown.join(",")}. Choose from: ${STATES.join(",")}`);
}

async function uuidOf({ kv, databases }: SchedulerParts, name: string): Promise<string> {
  const database = await kv.read((tx) => databases.open(tx, name));
  return database.uuid;
}

async function collect(
  entries: AsyncIterable<JobEntry>,
  passes: (entry: JobEntry) => boolean,
): Promise<JobEntry[]> {
  const found: JobEntry[] = [];
  for await (const entry of entries) if (passes(entry)) found.push(entry);
  return found;
}
