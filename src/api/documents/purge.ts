/**
 * `_purge`, which removes revisions without a trace, `_purged_infos`, which lists the latest
 * purges, and `_auto_purge`, the setting for purges by age.
 */
import { append, jsonKind, splitObject } from "../../base/index.ts";
import { type Purge, PurgeSize } from "../../databases/index.ts";
import { badRequest, parseTtl } from "../../protocol/index.ts";
import { readDatabase, writeContext, writeDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import { type ErrorAnswer, errorAnswer, isExpected } from "../http/error-responses.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { isTextList } from "../http/query.ts";
import { readJsonBody, readJsonMembers, requireJsonType } from "../http/request-body.ts";
import { json, jsonText } from "../http/responses.ts";
import { ADMIN, DATABASE_SETTING, MEMBER } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { checkRevision } from "./document-options.ts";

/** Maximum number of documents per request. CouchDB: `[purge] max_document_id_number`, 100. */
const DOCUMENTS_MAX = 1_000;

export function purgeRoutes(parts: DatabaseParts): Route[] {
  const limit = "/{database}/_purged_infos_limit";
  return [
    defineRoute("POST", "/{database}/_purge", ADMIN, (call) => purge(parts, call)),
    defineRoute("GET", "/{database}/_purged_infos", MEMBER, (call) => readInfos(parts, call)),
    defineRoute("GET", limit, ADMIN, (call) => readInfosLimit(parts, call)),
    defineRoute("PUT", limit, ADMIN, (call) => writeInfosLimit(parts, call)),
    defineRoute("GET", "/{database}/_auto_purge", DATABASE_SETTING, (call) =>
      readAutoPurge(parts, call),
    ),
    defineRoute("PUT", "/{database}/_auto_purge", DATABASE_SETTING, (call) =>
      writeAutoPurge(parts, call),
    ),
  ];
}

async function purge(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  requireJsonType(call);
  const asked = askedPurges(await readJsonBody(call));
  const purged = new Map<string, string[]>();
  let failure: ErrorAnswer | undefined;
  try {
    for await (const { id, revisions } of purgeAll(parts, call, asked)) {
      const earlier = purged.get(id);
      if (earlier === undefined) purged.set(id, [...revisions]);
      else append(earlier, revisions);
    }
  } catch (error) {
    // As in CouchDB, a failure is reported with the documents that it concerns, so that the client
    // learns which ones have been purged.
    if (purged.size === 0 || !isExpected(error)) throw error;
    failure = errorAnswer(error);
  }
  const failed = failure && { error: failure.error, reason: failure.reason };
  const members = asked.map(({ id }) => {
    return `${JSON.stringify(id)}:${JSON.stringify(purged.get(id) ?? failed)}`;
  });
  const body = `{"purge_seq":null,"purged":{${members.join(",")}}}`;
  return jsonText(failure?.status ?? 201, body);
}

/**
 * Uses several transactions, and at least one, so that a missing database is noticed. Yields the
 * revisions purged by each.
 */
async function* purgeAll(
  parts: DatabaseParts,
  call: Call,
  asked: readonly Purge[],
): AsyncGenerator<Purge> {
  const size = new PurgeSize();
  let left = asked;
  do {
    if (call.yielder.isDue) await call.yielder.yield();
    const purges = left;
    try {
      const { purged, rest } = await writeDatabase(parts, call, (tx, database) =>
        database.purge(tx, purges, writeContext(call.user), size),
      );
      yield* purged;
      left = rest;
    } catch (error) {
      if (!size.halveAfter(error)) throw error;
    }
  } while (left.length > 0);
}

/** Merges the revisions of a document that is named twice. */
function askedPurges(text: string): Purge[] {
  if (jsonKind(text) !== "object") throw badRequest("Request body must be a JSON object");
  const asked = new Map<string, readonly string[]>();
  const members = splitObject(text);
  if (members.length > DOCUMENTS_MAX) {
    const reason = `Exceeded maximum number of documents: ${members.length}, at most ${DOCUMENTS_MAX}.`;
    throw badRequest(reason);
  }
  for (const { name, value } of members) {
    const revisions: unknown = JSON.parse(value);
    if (!Array.isArray(revisions)) throw badRequest("Invalid list of revisions");
    if (!isTextList(revisions)) throw badRequest("Invalid rev format");
    // Revisions of local documents (`0-n`) are valid too. As in CouchDB, purging them has no
    // effect.
    revisions.forEach(checkRevision);
    asked.set(name, [...new Set([...(asked.get(name) ?? []), ...revisions])]);
  }
  return [...asked].map(([id, revisions]) => ({ id, revisions }));
}

async function readInfos(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const purges = await readDatabase(parts, call, (tx, database) => database.purges.infos(tx));
  const infos = purges.map(({ id, revisions }) => ({ id, revs: revisions }));
  return json(200, { purged_infos: infos });
}

async function readInfosLimit(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const read = readDatabase(parts, call, (tx, database) => database.purges.infosLimit(tx));
  return json(200, await read);
}

async function writeInfosLimit(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const limit: unknown = JSON.parse(await readJsonBody(call));
  if (!Number.isSafeInteger(limit) || (limit as number) < 1) {
    throw badRequest("`purged_infos_limit` must be positive integer");
  }
  await writeDatabase(
    parts,
    call,
    (tx, database) => database.purges.setInfosLimit(tx, limit as number),
    { whenUnknown: "retry" },
  );
  return json(200, { ok: true });
}

/** The setting of CouchDB after 3.5: the age at which deleted documents are purged. */
async function readAutoPurge(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const ttl = await readDatabase(parts, call, (tx, database) => database.tombstones.ttl(tx));
  return json(200, ttl === undefined ? {} : { deleted_document_ttl: ttl });
}

/** Replaces the setting. If the new setting has no time to live, the server's default applies. */
async function writeAutoPurge(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  requireJsonType(call);
  let ttl: string | undefined;
  for (const [name, value] of await readJsonMembers(call)) {
    if (name !== "deleted_document_ttl") throw badRequest("invalid auto purge property");
    const given: unknown = jsonKind(value) === "string" ? JSON.parse(value) : undefined;
    if (typeof given !== "string" || parseTtl(given) === undefined) {
      throw badRequest("deleted_document_ttl must be a valid string");
    }
    ttl = given;
  }
  await writeDatabase(parts, call, (tx, database) => database.tombstones.setTtl(tx, ttl), {
    whenUnknown: "retry",
  });
  return json(201, { ok: true });
}
