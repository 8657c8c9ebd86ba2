/**
 * CouchDB resources that Tandem does not implement. They return 501 with an explanation, so that no
 * client mistakes them for a missing document.
 */
import { badRequest, ProtocolError, percentEncode } from "../../protocol/index.ts";
import type { Handler } from "./call.ts";
import { databaseNameFault } from "./error-responses.ts";
import { ADMIN, DOCUMENT, MEMBER } from "./route-facts.ts";
import { defineRoute, type Route } from "./router.ts";

const WRITING = ["PUT", "POST", "PATCH", "DELETE", "COPY"];
export const ALL_METHODS = ["GET", ...WRITING, "OPTIONS", "TRACE", "CONNECT"];

const SENTENCES: Readonly<Record<string, string>> = {
  "/{database}/_shards": "Databases of Tandem have no shards.",
  "/{database}/_shards/{rest...}": "Databases of Tandem have no shards.",
  "/{database}/_sync_shards": "Databases of Tandem have no shards.",
  "/{database}/_partition/{rest...}": "Tandem does not support partitioned databases.",
  "/{database}/_temp_view": "Views are not part of Tandem.",
  "/{database}/_search_analyze": "Search is not part of Tandem.",
};

const DESIGN_SENTENCES: Readonly<Record<string, string>> = {
  _view: "Views are not part of Tandem.",
  _info: "Views are not part of Tandem.",
  _show: "Show functions are not part of Tandem.",
  _list: "List functions are not part of Tandem.",
  _update: "Update functions are not part of Tandem.",
  _rewrite: "Rewrites are not part of Tandem.",
  _search: "Search is not part of Tandem.",
  _search_info: "Search is not part of Tandem.",
  _nouveau: "Search is not part of Tandem.",
  _nouveau_info: "Search is not part of Tandem.",
  _geo: "Geographic indexes are not part of Tandem.",
};

/** Explanations for resources of the server, by the first segment of their path. */
const SERVER_SENTENCES: Readonly<Record<string, string>> = {
  _reshard: "Databases of Tandem have no shards.",
  _nouveau_analyze: "Search is not part of Tandem.",
  _search_analyze: "Search is not part of Tandem.",
};

/**
 * The error for a path without a route. As in CouchDB, the first segment counts as a database,
 * except `_tandem`.
 */
export function unknownPath(method: string, segments: readonly string[]): ProtocolError {
  const [first = ""] = segments;
  if (method === "PUT" && segments.length === 1) {
    return new ProtocolError(400, "illegal_database_name", databaseNameFault(first));
  }
  if (first === "_node" && segments.length === 1) {
    return badRequest("Incomplete path to _node request");
  }
  const reason =
    first === "_tandem" ? unknownResource(segments.slice(1)) : "Database does not exist.";
  return new ProtocolError(404, "not_found", reason);
}

/** The reason for a path below `/_tandem` without a route. Often, a name has an unescaped slash. */
function unknownResource(segments: readonly string[]): string {
  const [kind, first, second, ...others] = segments.map(percentEncode);
  if (kind !== "jobs" || second === undefined) {
    return "There is no such resource: see /_tandem/openapi.json, and write a slash in a name as %2F";
  }
  const path = ["/_tandem/jobs", `${first}%2F${second}`, ...others].join("/");
  return `There is no such resource: use DATABASE/DOCUMENT, RULE/DATABASE or an id, with a slash written as %2F, as in ${path}`;
}

export function notImplementedRoutes(): Route[] {
  const resources = Object.entries(SENTENCES).map(([path, sentence]) =>
    defineRoute(
      ALL_METHODS,
      path,
      path.endsWith("/_sync_shards") ? ADMIN : MEMBER,
      refuse(sentence),
    ),
  );
  const design = Object.entries(DESIGN_SENTENCES).flatMap(([name, sentence]) =>
    [`/{database}/_design/{name}/${name}`, `/{database}/_design/{name}/${name}/{rest...}`].map(
      (path) => defineRoute(ALL_METHODS, path, DOCUMENT, refuse(sentence)),
    ),
  );
  const server = Object.entries(SERVER_SENTENCES).flatMap(([name, sentence]) =>
    [`/${name}`, `/${name}/{rest...}`].map((path) =>
      defineRoute(ALL_METHODS, path, ADMIN, refuse(sentence)),
    ),
  );
  return [...resources, ...design, ...server];
}

function refuse(sentence: string): Handler {
  return async () => {
    throw refusal(sentence);
  };
}

function refusal(reason: string): ProtocolError {
  return new ProtocolError(501, "not_implemented", reason);
}
