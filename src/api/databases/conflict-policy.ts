/**
 * `/_tandem/databases/{db}/conflicts/…`: the policy that resolves conflicts, the log of its
 * resolutions, and their undo. CouchDB has no counterpart.
 */
import {
  type ConflictPolicyStatus,
  QUERIES,
  type ResolutionPage,
  type UndoneResolutions,
} from "../../contract/index.ts";
import { type Resolution, SandboxError } from "../../databases/index.ts";
import {
  type ConflictPolicy,
  callFunction,
  checkConflictDatabase,
  parseConflictPolicy,
  type UndoSelection,
  undoResolutions,
  writeTimeOf,
} from "../../documents/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import { existingDatabaseName, readDatabase, writeDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { isTextList, readQuery } from "../http/query.ts";
import { readMembers, refuseUnknownNames } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { CONFLICTS, DATABASE_ADMIN, DATABASE_SETTING } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

const BASE = "/_tandem/databases/{database}/conflicts";
const IDS_MAX = 10_000;

export function conflictPolicyRoutes(parts: DatabaseParts): readonly Route[] {
  const policy = `${BASE}/policy`;
  return [
    defineRoute("GET", policy, DATABASE_SETTING, (call) => showPolicy(parts, call)),
    defineRoute("PUT", policy, DATABASE_SETTING, (call) => setPolicy(parts, call)),
    defineRoute("DELETE", policy, DATABASE_SETTING, (call) => removePolicy(parts, call)),
    defineRoute("GET", `${BASE}/resolutions`, CONFLICTS, (call) => listResolutions(parts, call)),
    defineRoute("POST", `${BASE}/_undo`, DATABASE_ADMIN, (call) => undo(parts, call)),
  ];
}

async function showPolicy(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const stored = await readDatabase(parts, call, (tx, { resolutions }) => resolutions.policy(tx));
  const answer = {
    policy: stored === undefined ? null : (JSON.parse(stored.text) as ConflictPolicy),
    since: stored === undefined ? null : new Date(stored.sinceMs).toISOString(),
  } satisfies ConflictPolicyStatus;
  return json(200, answer);
}

async function setPolicy(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const name = existingDatabaseName(call);
  checkConflictDatabase(name);
  const policy = parseConflictPolicy(await readMembers(call));
  if (policy.resolve === "function") await checkFunction(parts, name, policy.function, call);
  await writeDatabase(
    parts,
    call,
    (tx, { resolutions }) => resolutions.setPolicy(tx, JSON.stringify(policy)),
    { whenUnknown: "retry" },
  );
  return json(200, { ok: true });
}

async function checkFunction(
  parts: DatabaseParts,
  name: string,
  source: string,
  { request: { signal } }: Call,
): Promise<void> {
  try {
    await callFunction(parts, { name, source, runs: [], signal });
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error;
    throw badRequest(`\`function\` is invalid: ${error.reason}`);
  }
}

async function removePolicy(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const existed = await writeDatabase(
    parts,
    call,
    async (tx, { resolutions }) => {
      const existed = (await resolutions.policy(tx)) !== undefined;
      if (existed) await resolutions.setPolicy(tx, undefined);
      return existed;
    },
    { whenUnknown: "retry" },
  );
  if (!existed) throw new ProtocolError(404, "not_found", "The database has no conflict policy.");
  return json(200, { ok: true });
}

async function listResolutions(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const { limit, bookmark } = readQuery(call, QUERIES[`GET ${BASE}/resolutions`]);
  const before = numberOf(bookmark);
  const { entries, stoppedBy } = await readDatabase(parts, call, (tx, { resolutions }) => {
    return resolutions.page(tx, { before, limit });
  });
  const last = entries.at(-1);
  const answer = {
    bookmark: stoppedBy === "exhausted" || last === undefined ? null : String(last.number),
    resolutions: entries.map(resolutionView),
  } satisfies ResolutionPage;
  return json(200, answer);
}

function resolutionView({ id, timeMs, resolve, kept, result, removed }: Resolution) {
  const time = new Date(timeMs).toISOString();
  return { id, time, resolve, kept, result, removed: removed.map(({ revision }) => revision) };
}

async function undo(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const selection = undoSelection(await readMembers(call));
  const name = existingDatabaseName(call);
  const undone = await undoResolutions(parts, name, selection, call.request.signal);
  const { next, ...counts } = undone;
  const bookmark = next === undefined ? null : String(next);
  return json(200, { ok: true, ...counts, bookmark } satisfies UndoneResolutions);
}

const UNDO_MEMBERS: readonly string[] = ["ids", "since", "bookmark"];

function undoSelection(members: ReadonlyMap<string, unknown>): UndoSelection {
  refuseUnknownNames(members.keys(), UNDO_MEMBERS);
  const ids = members.get("ids");
  if (ids !== undefined && !(isTextList(ids) && ids.length <= IDS_MAX)) {
    throw badRequest(`\`ids\` must be a list of at most ${IDS_MAX} document ids`);
  }
  const since = members.get("since");
  const before = numberOf(members.get("bookmark"));
  return { ids: ids && new Set(ids), sinceMs: timeOf(since), before };
}

/**
 * Parses a time into milliseconds since the epoch. A time without an offset is in UTC; `Date.parse`
 * would use local time.
 */
function timeOf(since: unknown): number | undefined {
  if (since === undefined) return undefined;
  const time = writeTimeOf(since);
  if (time?.kind === "time") return (time.units + Number(`0.${time.fraction}`)) * 1_000;
  throw badRequest("`since` must be a time such as 2026-01-31T12:00:00Z");
}

/** Parses a bookmark: the number of a resolution. The page contains the resolutions before it. */
function numberOf(bookmark: unknown): number | undefined {
  if (bookmark === undefined) return undefined;
  const isNumber = typeof bookmark === "string" && /^[1-9]\d{0,14}$/.test(bookmark);
  if (isNumber) return Number(bookmark);
  throw badRequest("Invalid bookmark: use the one returned with the previous page.");
}
