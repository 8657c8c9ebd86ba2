/** `_time_seq`: how the changes of a database map to times (CouchDB after 3.5). */
import { formatSinceTime } from "../../protocol/index.ts";
import { readDatabase, writeDatabase } from "../access/database-access.ts";
import type { DatabaseParts, ServerInfoParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { json } from "../http/responses.ts";
import { DATABASE_ADMIN, MEMBER } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

type Parts = DatabaseParts & Pick<ServerInfoParts, "server">;

export function timeSequenceRoutes(parts: Parts): Route[] {
  const path = "/{database}/_time_seq";
  return [
    defineRoute("GET", path, MEMBER, (call) => readTimes(parts, call)),
    defineRoute("DELETE", path, DATABASE_ADMIN, (call) => resetTimes(parts, call)),
  ];
}

/**
 * Reports the database as one shard on this node. All nodes know the same times, so no other node
 * is listed.
 */
async function readTimes(parts: Parts, call: Call): Promise<ApiResponse> {
  const periods = await readDatabase(parts, call, (tx, database) => database.times.periods(tx));
  const rows = periods.map(({ beganMs, changeCount }) => [formatSinceTime(beganMs), changeCount]);
  return json(200, { time_seq: { "00000000-ffffffff": { [parts.server.nodeName]: rows } } });
}

async function resetTimes(parts: Parts, call: Call): Promise<ApiResponse> {
  await writeDatabase(parts, call, (tx, database) => database.times.reset(tx), {
    whenUnknown: "retry",
  });
  return json(200, { ok: true });
}
