/**
 * `/{db}/_local/{name}/_continue`: extends the stored checkpoint without reading it first (decision
 * 297). CouchDB has no counterpart.
 */
import { Utf8Text } from "../../base/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import { continuedLog, isOfOneRun, parseReplicationLog } from "../../replicator/index.ts";
import { locationOf, writeDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import { notFound } from "../documents/document-request.ts";
import { type Call, parameter } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readJsonBody, requireJsonType } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { DOCUMENT } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

/**
 * Maximum size of a replication log, which is parsed without yielding. Fifty runs in a cluster with
 * hundreds of shards take half as much.
 */
const LOG_BYTES_MAX = 1024 * 1024;

const NO_LOG =
  "The body must be a replication log with `session_id`, `source_last_seq`, and a `history` with one entry, whose `session_id` is the same and whose `recorded_seq` equals `source_last_seq`.";
const TOO_LONG = `The stored log has more than ${LOG_BYTES_MAX} bytes, so nothing can be appended; read it and write the whole document.`;
const ENDS_ELSEWHERE = "The stored replication log has another session_id or source_last_seq.";
const MADE_ANEW = "The database was re-created: its instance_start_time differs.";

type CheckpointsParts = Pick<DatabaseParts, "kv" | "databases">;

export function checkpointRoutes(parts: CheckpointsParts): readonly Route[] {
  return [
    defineRoute(
      "POST",
      "/{database}/_local/{name}/_continue",
      { ...DOCUMENT, isBatched: true },
      (call) => continueLog(parts, call),
    ),
  ];
}

async function continueLog(parts: CheckpointsParts, call: Call): Promise<ApiResponse> {
  const id = `_local/${parameter(call, "name")}`;
  requireJsonType(call);
  const log = parseReplicationLog(await readJsonBody(call, LOG_BYTES_MAX));
  if (log === undefined || !isOfOneRun(log)) throw badRequest(NO_LOG);
  const madeAt = call.request.query.get("instance_start_time");
  const outcome = await writeDatabase(
    parts,
    call,
    async (tx, database) => {
      if (madeAt !== undefined && madeAt !== database.instanceStartTime) {
        throw new ProtocolError(409, "conflict", MADE_ANEW);
      }
      const stored = await database.local.read(tx, id);
      if (stored === undefined && madeAt === undefined) return undefined;
      if (stored !== undefined && stored.body.bytes.length > LOG_BYTES_MAX) {
        throw new ProtocolError(413, "too_large", TOO_LONG);
      }
      const next = stored === undefined ? log : continuedLog(stored.body.text, log);
      if (next === undefined) throw new ProtocolError(409, "conflict", ENDS_ELSEWHERE);
      const body = Utf8Text.of(JSON.stringify(next));
      return database.local.write(tx, { id, parent: stored?.revision, body });
    },
    { whenUnknown: "retry" },
  );
  if (outcome?.kind !== "written") throw notFound("missing");
  const headers = { Location: locationOf(call, id) };
  return json(201, { ok: true, id, rev: outcome.revision }, headers);
}
