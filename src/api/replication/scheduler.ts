/**
 * `_scheduler/jobs`, `_scheduler/docs` and `_active_tasks`: current states of jobs and background
 * tasks.
 */
import { JOB_STATES } from "../../contract/index.ts";
import type { DatabaseRegistry } from "../../databases/index.ts";
import { authorityOf, ownerKey } from "../../databases/index.ts";
import type { IndexBuilds, RunningBuild } from "../../indexes/index.ts";
import { type KeyValueStore, listRemovals, type Removal } from "../../kv/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import {
  documentView,
  type JobEntry,
  type JobPageRequest,
  jobView,
  type ReplicationState,
  type Replicator,
  taskView,
} from "../../replicator/index.ts";
import { readsOperations, requireAdmin } from "../access/authorization.ts";
import { securitySubject } from "../access/database-access.ts";
import { type Call, parameter } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { requireNode } from "../http/node-name.ts";
import {
  booleanParameter,
  integerParameter,
  queryError,
  textListParameter,
} from "../http/query.ts";
import { json } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

export interface SchedulerParts {
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly replicator: Replicator;
  readonly indexBuilds: Pick<IndexBuilds, "running">;
  /** The external URL of local databases, with a trailing slash. */
  readonly shownUrl: () => string;
  readonly nodeName: string;
}

const JOBS_LIMIT = 100;
/** Maximum number of removals listed; a metric counts all of them. */
const REMOVALS_MAX = 100;
const REPLICATOR_DATABASE = "_replicator";

export function schedulerRoutes(parts: SchedulerParts): readonly Route[] {
  return [
    defineRoute("GET", "/_scheduler/jobs", OPERATIONS, (call) => listJobs(parts, call)),
    // Open to everyone, because the handler checks the owner of the job.
    defineRoute("GET", "/_scheduler/jobs/{id...}", { ...OPERATIONS, access: "anybody" }, (call) =>
      showJob(parts, call),
    ),
    defineRoute("GET", "/_scheduler/docs", OPERATIONS, (call) =>
      listDocuments(parts, call, REPLICATOR_DATABASE),
    ),
    defineRoute("GET", "/_scheduler/docs/{path...}", OPERATIONS, (call) => documents(parts, call)),
    defineRoute("GET", "/_active_tasks", OPERATIONS, () => activeTasks(parts)),
    defineRoute("GET", "/_node/{node}/_active_tasks", OPERATIONS, (call) => {
      requireNode(parameter(call, "node"), parts.nodeName);
      return activeTasks(parts, parts.nodeName);
    }),
  ];
}

/** Jobs that are running or will run. Ended jobs can be found by id. */
async function listJobs(
  { replicator, shownUrl }: SchedulerParts,
  call: Call,
): Promise<ApiResponse> {
  const limit = integerParameter(call, "limit") ?? JOBS_LIMIT;
  const skip = integerParameter(call, "skip") ?? 0;
  const descending = booleanParameter(call, "descending");
  const order = "shown-id";
  const page = await replicator.lists.page({ filter: {}, order, descending, skip, limit });
  const { entries, total = entries.length } = page;
  return json(200, {
    total_rows: total,
    offset: Math.min(skip, total),
    jobs: entries.map((entry) => jobView(entry, shownUrl())),
  });
}

/**
 * A job by replication id or job id. Administrators and read-only operators see all jobs, other
 * users only their own.
 */
async function showJob({ replicator, shownUrl }: SchedulerParts, call: Call): Promise<ApiResponse> {
  const { name } = call.user;
  const asker = authorityOf(securitySubject(call.user));
  const entry = await replicator.find(parameter(call, "id").replaceAll(" ", "+"), asker);
  const isOwn = name !== null && entry !== undefined && ownerKey(entry.data) === ownerKey(asker);
  if (!readsOperations(call.user) && !isOwn) requireAdmin(call);
  if (entry === undefined) throw new ProtocolError(404, "not_found", "missing");
  return json(200, jobView(entry, shownUrl()));
}

/**
 * Handles `_scheduler/docs/{db}` and `_scheduler/docs/{db}/{docid}`. Slashes in the database's name
 * can be unescaped.
 */
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
  const descending = booleanParameter(call, "descending");
  const databaseUuid = await uuidOf(parts, database);
  const keys = textListParameter(call, "keys");
  const { entries, total } =
    keys === undefined
      ? await listed(parts, { filter: { ...states, databaseUuid }, descending, skip, limit })
      : await named(parts, { databaseUuid, keys, states: states.states, skip, limit });
  return json(200, {
    total_rows: total,
    offset: Math.min(skip, total),
    docs: entries.map((entry) => documentView(entry, parts.shownUrl())),
  });
}

interface Listed {
  readonly entries: readonly JobEntry[];
  readonly total: number;
}

async function listed({ replicator }: SchedulerParts, request: JobPageRequest): Promise<Listed> {
  const { entries, total = entries.length } = await replicator.lists.page(request);
  return { entries, total };
}

/** The documents with these ids, in the given order. */
async function named(
  { replicator }: SchedulerParts,
  {
    databaseUuid,
    keys,
    states,
    skip,
    limit,
  }: {
    readonly databaseUuid: string;
    readonly keys: readonly string[];
    readonly states: readonly ReplicationState[] | undefined;
    readonly skip: number;
    readonly limit: number;
  },
): Promise<Listed> {
  const found = await replicator.findDocuments(databaseUuid, keys);
  const shown = found.filter(({ state }) => (states ?? JOB_STATES).includes(state));
  return { entries: shown.slice(skip, skip + limit), total: shown.length };
}

/** Lists the active tasks of all nodes, or of one. */
async function activeTasks(
  { kv, replicator, indexBuilds, shownUrl }: SchedulerParts,
  nodeName?: string,
): Promise<ApiResponse> {
  // A parked job is not an active task.
  const filter = { states: ["running"], parked: false } as const;
  const running = await replicator.lists.page({ filter, limit: Number.POSITIVE_INFINITY });
  const isOfNode = ({ worker }: Pick<JobEntry | RunningBuild, "worker">): boolean =>
    nodeName === undefined || worker?.node === nodeName;
  return json(200, [
    ...running.entries.filter(isOfNode).map((entry) => taskView(entry, shownUrl())),
    ...(await indexBuilds.running()).filter(isOfNode).map(indexerView),
    ...(await kv.read((tx) => listRemovals(tx, REMOVALS_MAX)))
      .filter(({ claim }) => nodeName === undefined || claim?.node === nodeName)
      .map(removalView),
  ]);
}

/**
 * Entry in `_active_tasks` for a background removal. CouchDB has no such task. The entry has the
 * members common to all of CouchDB's tasks, and some of its own.
 */
function removalView({ claim, kind, subject, ...removal }: Removal): object {
  return {
    node: claim?.node ?? null,
    pid: null,
    type: "removal",
    removal: kind,
    database: kind === "database" || kind === "index" || kind === "attachment" ? subject : null,
    removed_bytes: removal.byteCount,
    removed_keys: removal.keyCount,
    started_on: Math.floor(removal.sinceMs / 1000),
    updated_on: Math.floor(removal.updatedMs / 1000),
  };
}

/**
 * Entry in `_active_tasks` for the first build of an index, in the form of CouchDB's indexer task
 * for a shard.
 */
function indexerView({ worker, ...build }: RunningBuild): object {
  const { database, design, doneCount, totalCount, startedMs, updatedMs } = build;
  return {
    node: worker?.node ?? null,
    pid: worker?.processId ?? null,
    changes_done: doneCount,
    database,
    design_document: design,
    progress: totalCount === 0 ? 0 : Math.min(100, Math.floor((doneCount * 100) / totalCount)),
    started_on: Math.floor(startedMs / 1000),
    total_changes: totalCount,
    type: "indexer",
    updated_on: Math.floor(updatedMs / 1000),
  };
}

function statesParameter(call: Call): { readonly states?: readonly ReplicationState[] } {
  const text = call.request.query.get("states");
  if (text === undefined || text === "") return {};
  const named = text.toLowerCase().split(",");
  const unknown = named.filter((name) => !JOB_STATES.some((state) => state === name));
  if (unknown.length === 0) return { states: JOB_STATES.filter((state) => named.includes(state)) };
  throw queryError(`Unknown states ${unknown.join(",")}. Choose from: ${JOB_STATES.join(",")}`);
}

async function uuidOf({ kv, databases }: SchedulerParts, name: string): Promise<string> {
  const database = await kv.read((tx) => databases.open(tx, name));
  return database.uuid;
}
