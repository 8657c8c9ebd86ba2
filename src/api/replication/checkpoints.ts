/**
 * `/{db}/_local/{name}/_continue`: extends the stored checkpoint without reading it first (decision
 * 297). CouchDB has no counterpart.
 */
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import {
  type ContinuedOutcome,
  continueStoredLog,
  isOfOneRun,
  LOG_BYTES_MAX,
  parseReplicationLog,
} from "../../replicator/index.ts";
import { locationOf, writeDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import { notFound } from "../documents/document-request.ts";
import { type Call, parameter } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readJsonBody, requireJsonType } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { DOCUMENT } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

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
  const name = parameter(call, "name");
  requireJsonType(call);
  const log = parseReplicationLog(await readJsonBody(call, LOG_BYTES_MAX));
  if (log === undefined || !isOfOneRun(log)) throw badRequest(NO_LOG);
  const madeAt = call.request.query.get("instance_start_time") ?? undefined;
  const outcome = await writeDatabase(
    parts,
    call,
    (tx, database) => continueStoredLog(tx, database, { name, log, madeAt }),
    { whenUnknown: "retry" },
  );
  if (outcome.kind !== "written") throw refusalOf(outcome);
  const id = `_local/${name}`;
  const headers = { Location: locationOf(call, id) };
  return json(201, { ok: true, id, rev: outcome.revision }, headers);
}

function refusalOf({ kind }: Exclude<ContinuedOutcome, { kind: "written" }>): ProtocolError {
  switch (kind) {
    case "missing":
      return notFound("missing");
    case "too-long":
      return new ProtocolError(413, "too_large", TOO_LONG);
    case "ends-elsewhere":
      return new ProtocolError(409, "conflict", ENDS_ELSEWHERE);
    case "re-created":
      return new ProtocolError(409, "conflict", MADE_ANEW);
  }
}
