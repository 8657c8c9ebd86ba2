/** Databases: creation, description, deletion and settings. */
import { type JsonText, jsonKind } from "../../base/index.ts";
import { SECURITY_BYTES_MAX } from "../../databases/index.ts";
import { badRequest, checkCreation, ProtocolError } from "../../protocol/index.ts";
import {
  databaseName,
  locationOf,
  readDatabase,
  writeDatabase,
} from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import { isBatch, writeInBatch, writeOne } from "../documents/document-writes.ts";
import { editMode, readDocument, wireEdit } from "../documents/edits.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { isTextList } from "../http/query.ts";
import { readJsonBody, requireJsonType } from "../http/request-body.ts";
import { json, jsonText } from "../http/responses.ts";
import { DATABASE, DATABASE_ADMIN, DATABASE_SETTING, MEMBER } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { infoView } from "./database-info.ts";

const OK = { ok: true };

export function databaseRoutes(parts: DatabaseParts): Route[] {
  return [
    defineRoute("GET", "/{database}", { ...DATABASE, isBatched: true }, (call) =>
      describe(parts, call),
    ),
    defineRoute("PUT", "/{database}", DATABASE, (call) => create(parts, call)),
    defineRoute("DELETE", "/{database}", DATABASE, (call) => remove(parts, call)),
    defineRoute("POST", "/{database}", DATABASE, (call) => createDocument(parts, call)),
    defineRoute("POST", "/{database}/_ensure_full_commit", { ...MEMBER, isBatched: true }, (call) =>
      ensureFullCommit(parts, call),
    ),
    defineRoute("POST", "/{database}/_compact", DATABASE_ADMIN, (call) => compact(parts, call)),
    defineRoute("POST", "/{database}/_compact/{design}", DATABASE_ADMIN, (call) =>
      acceptUpkeep(parts, call),
    ),
    defineRoute("POST", "/{database}/_view_cleanup", DATABASE_ADMIN, (call) =>
      acceptUpkeep(parts, call),
    ),
    defineRoute("GET", "/{database}/_security", DATABASE_SETTING, (call) =>
      readSecurity(parts, call),
    ),
    defineRoute("PUT", "/{database}/_security", DATABASE_SETTING, (call) =>
      writeSecurity(parts, call),
    ),
    defineRoute("GET", "/{database}/_revs_limit", DATABASE_SETTING, (call) =>
      readRevisionLimit(parts, call),
    ),
    defineRoute("PUT", "/{database}/_revs_limit", DATABASE_SETTING, (call) =>
      writeRevisionLimit(parts, call),
    ),
  ];
}

async function describe(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  return json(
    200,
    infoView(parts, await readDatabase(parts, call, (tx, database) => database.info(tx))),
  );
}

async function create({ kv, databases }: DatabaseParts, call: Call): Promise<ApiResponse> {
  const name = databaseName(call);
  checkCreation(Object.fromEntries(call.request.query));
  await kv.transact((tx) => databases.create(tx, name));
  return json(201, OK, { Location: locationOf(call) });
}

async function remove(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  if (call.request.query.has("rev")) {
    throw badRequest(
      "You tried to DELETE a database with a ?rev= parameter. Did you mean to DELETE a document instead?",
    );
  }
  await writeDatabase(parts, call, (tx, { name }) => parts.databases.remove(tx, name));
  return json(200, OK);
}

async function createDocument(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  requireJsonType(call);
  const mode = editMode(call);
  const wire = await readDocument(call, mode);
  const id = wire.id ?? parts.uuids.next();
  const edit = await wireEdit(parts, call, { ...wire, id }, mode);
  if (isBatch(call)) return writeInBatch(id, () => writeOne(parts, call, edit));
  const { revision } = await writeOne(parts, call, edit);
  return json(201, { ok: true, id, rev: revision }, { Location: locationOf(call, id) });
}

/** Does nothing, because acknowledged writes are already durable. */
async function ensureFullCommit(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  requireJsonType(call);
  const time = await readDatabase(parts, call, async (_, database) => database.instanceStartTime);
  return json(201, { ok: true, instance_start_time: time });
}

/** Schedules the removal of all old bodies. The store reclaims the space on its own. */
async function compact(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  requireJsonType(call);
  parts.compaction.start(await readDatabase(parts, call, async (_, { name }) => name));
  return json(202, OK);
}

/** Does nothing: there are no views to maintain. */
async function acceptUpkeep(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  requireJsonType(call);
  await readDatabase(parts, call, async () => undefined);
  return json(202, OK);
}

async function readSecurity(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  return jsonText(200, await readDatabase(parts, call, (tx, database) => database.security(tx)));
}

async function writeSecurity(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  if (databaseName(call) === "_users" && !parts.settings.usersSecurityEditable) {
    const reason = "You can't edit the security object of the user database.";
    throw new ProtocolError(403, "forbidden", reason);
  }
  const text = await readJsonBody(call, SECURITY_BYTES_MAX);
  checkSecurity(text);
  await writeDatabase(parts, call, (tx, database) => database.setSecurity(tx, text), {
    whenUnknown: "retry",
  });
  return json(200, OK);
}

function checkSecurity(text: JsonText): void {
  if (jsonKind(text) !== "object") throw badRequest("Request body must be a JSON object");
  const security: Record<string, unknown> = JSON.parse(text);
  for (const group of ["admins", "members", "readers"]) {
    const value = security[group];
    if (value === undefined) continue;
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw badRequest(`${group} must be a JSON object`);
    }
    for (const kind of ["names", "roles"]) {
      const list = (value as Record<string, unknown>)[kind];
      if (list === undefined || isTextList(list)) continue;
      throw badRequest(`${group}.${kind} must be a JSON list of strings`);
    }
  }
}

async function readRevisionLimit(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  return json(200, await readDatabase(parts, call, (tx, database) => database.revisionLimit(tx)));
}

async function writeRevisionLimit(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const limit: unknown = JSON.parse(await readJsonBody(call));
  if (typeof limit !== "number") {
    throw badRequest("The revision limit must be a positive integer");
  }
  await writeDatabase(parts, call, (tx, database) => database.setRevisionLimit(tx, limit), {
    whenUnknown: "retry",
  });
  return json(200, OK);
}
