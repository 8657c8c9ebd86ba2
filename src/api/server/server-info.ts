/** Resources of the server itself. */
import { utf8Encode } from "../../base/index.ts";
import { badRequest } from "../../protocol/index.ts";
import type { ServerInfoParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { json, jsonText } from "../http/responses.ts";
import { ADMIN, OPERATIONS, PUBLIC } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";

/** Headers that prevent caching. */
const NOT_CACHED = {
  "Cache-Control": "no-cache",
  Expires: "Mon, 01 Jan 1990 00:00:00 GMT",
  Pragma: "no-cache",
};

export function serverInfoRoutes(parts: ServerInfoParts): Route[] {
  return [
    defineRoute("GET", "/", PUBLIC, async () => welcome(parts)),
    defineRoute("GET", "/_up", { ...PUBLIC, admission: "free" }, async () => up(parts)),
    defineRoute("GET", "/_uuids", PUBLIC, async (call) => uuids(parts, call)),
    defineRoute("GET", "/_membership", { ...OPERATIONS, admission: "counted" }, async () =>
      membership(parts),
    ),
    defineRoute("GET", "/_cluster_setup", ADMIN, async () =>
      json(200, { state: "single_node_enabled" }),
    ),
    defineRoute("POST", "/_cluster_setup", ADMIN, async () => {
      throw badRequest("Cluster is already finished");
    }),
  ];
}

function welcome({ server }: ServerInfoParts): ApiResponse {
  return json(200, {
    couchdb: "Welcome",
    version: server.version,
    git_sha: "",
    uuid: server.uuid,
    features: ["scheduler"],
    vendor: server.vendor,
  });
}

function up({ isUp, isFull, settings: { maintenanceMode } }: ServerInfoParts): ApiResponse {
  if (maintenanceMode !== "false") {
    // The status names the mode, as in CouchDB. Both modes make load balancers drop the node.
    const status = maintenanceMode === "nolb" ? "nolb" : "maintenance_mode";
    return json(404, { status });
  }
  if (!isUp()) {
    return jsonText(404, '{"status":"unavailable","reason":"The store does not answer"}');
  }
  // A node with a full disk still serves reads and deletions, so a load balancer need not drop it.
  if (isFull()) return jsonText(200, '{"status":"ok","seeds":{},"disk_full":true}');
  return jsonText(200, '{"status":"ok","seeds":{}}');
}

/** Handles `_membership`: clients see the whole cluster as one node. */
function membership({ server: { nodeName } }: ServerInfoParts): ApiResponse {
  return json(200, { all_nodes: [nodeName], cluster_nodes: [nodeName] });
}

function uuids({ runtime, uuids, settings }: ServerInfoParts, call: Call): ApiResponse {
  const text = call.request.query.get("count") ?? "1";
  if (!/^\d+$/.test(text)) throw badRequest("count must be a positive integer");
  if (Number(text) > settings.uuidCountMax) throw badRequest("count parameter too large");
  const list = Array.from({ length: Number(text) }, () => uuids.next());
  const tag = runtime.digests.md5Hex(utf8Encode(list.join()));
  return json(200, { uuids: list }, { ...NOT_CACHED, ETag: `"${tag}"` });
}
