/**
 * Answers of servers that implement a part of CouchDB's protocol, or an older version. Each stands
 * in front of a database of a Tandem, and follows the source code of the named version, or the
 * provider's documentation.
 */
import type {
  Forward,
  Intercept,
  ProxiedAnswer,
  ProxiedRequest,
} from "../../support/faults/http-proxy.ts";
import { NumberedSequences } from "./numbered-sequences.ts";

export interface Implementation {
  readonly name: string;
  /** Whether the server neither accepts nor sends design documents. */
  readonly lacksDesigns?: boolean;
  /** Returns an intercept that imitates the server's responses for one database. */
  open(database: string): Intercept;
}

function json(status: number, body: object): ProxiedAnswer {
  const headers = { "content-type": "application/json" };
  return { status, headers, body: JSON.stringify(body) };
}

const refused = (status: number, error: string, reason: string): ProxiedAnswer =>
  json(status, { error, reason });

const parsed = ({ body }: { readonly body: Buffer | string }) => JSON.parse(String(body));

/** Splits the path of a request into its first two segments, and the query. */
function placeOf({ path }: ProxiedRequest) {
  const { pathname, searchParams } = new URL(path, "http://localhost");
  const [, database = "", resource] = pathname.split("/");
  return { database, resource, pathname, searchParams };
}

/** Wraps an intercept, and replaces the `Server` header, which identifies a Tandem. */
const servedBy =
  (server: string, intercept: Intercept): Intercept =>
  async (request, forward) => {
    const answer = await intercept(request, forward);
    return { ...answer, headers: { ...answer.headers, server } };
  };

/** Imitates CouchDB 1.7.1 (`couch_httpd_db`, `couch_changes`). */
function couchDb1(database: string): Intercept {
  const numbers = new NumberedSequences();
  return servedBy("CouchDB/1.7.1 (Erlang OTP/19)", async (request, forward) => {
    const { resource, pathname, searchParams, database: named } = placeOf(request);
    if (pathname === "/") return json(200, { couchdb: "Welcome", version: "1.7.1" });
    if (named.startsWith("_") && named !== "_session") {
      return refused(400, "illegal_database_name", `Name: '${named}'. Only lowercase characters`);
    }
    if (request.method === "GET" && pathname === `/${database}`) {
      const answer = await forward(request);
      if (answer.status !== 200) return answer;
      const { db_name, doc_count, doc_del_count } = parsed(answer);
      const sequence = await numbers.refresh(database, request, forward);
      const counts = { db_name, doc_count, doc_del_count, update_seq: sequence, purge_seq: 0 };
      const times = { instance_start_time: "1420070400000000", disk_format_version: 6 };
      return json(200, {
        ...counts,
        compact_running: false,
        ...times,
        committed_update_seq: sequence,
      });
    }
    if (resource === "_bulk_get") return refused(400, "bad_request", "Referer header required.");
    if (resource === "_changes") {
      const filter = searchParams.get("filter");
      if (
        filter?.startsWith("_") &&
        filter !== "_doc_ids" &&
        filter !== "_design" &&
        filter !== "_view"
      ) {
        return refused(400, "bad_request", "unknown builtin filter name");
      }
      const changes = await numbers.changes(database, request, forward);
      if ("status" in changes) return changes;
      return json(200, { results: changes.results, last_seq: changes.last });
    }
    return forward(request);
  });
}

/** Imitates CouchDB 2.3.1, which may acknowledge writes that are not yet durable. */
function couchDb2(): Intercept {
  return servedBy("CouchDB/2.3.1 (Erlang OTP/19)", (request, forward) => {
    const { pathname } = placeOf(request);
    if (pathname === "/") {
      return Promise.resolve(json(200, { couchdb: "Welcome", version: "2.3.1" }));
    }
    return forward(request);
  });
}

/** Number of accepted requests of a class between two requests that exceed the limit. */
const RATE = 5;

/**
 * Imitates IBM Cloudant's documented limits per class of requests. Every sixth request of a class
 * exceeds the limit.
 */
function cloudant(): Intercept {
  const counts = new Map<string, number>();
  return servedBy("CouchDB/3.4.2 (Erlang OTP/25)", async (request, forward) => {
    const { resource = "" } = placeOf(request);
    const isQuery = /^_(changes|all_docs|find)/.test(resource);
    const isRead = request.method === "GET" || /^_(bulk_get|revs_diff)$/.test(resource);
    const kind = isQuery ? "query" : isRead ? "lookup" : "write";
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    if (count % (RATE + 1) !== 0) return forward(request);
    const limit = `You've exceeded your current limit of ${RATE} requests per second for ${kind} class.`;
    const body = { class: kind, error: "too_many_requests", rate: RATE };
    return json(429, { ...body, reason: `${limit} Please try later.` });
  });
}

/** Imitates a Cloudant account with only the role `_reader`, which excludes `_local` documents. */
function readOnlyAccount(): Intercept {
  return servedBy("CouchDB/3.4.2 (Erlang OTP/25)", async (request, forward) => {
    const { resource = "" } = placeOf(request);
    const writes =
      request.method === "PUT" || request.method === "DELETE" || resource === "_bulk_docs";
    if (resource !== "_local" && !writes) return forward(request);
    const access = resource === "_local" ? "_admin" : "_writer";
    return refused(403, "forbidden", `${access} access is required for this request`);
  });
}

const ALLOWED: readonly (readonly [method: RegExp, resource: RegExp])[] = [
  [/^(GET|POST)$/, /^_changes$|^_all_docs$/],
  [/^POST$/, /^_bulk_docs$|^_bulk_get$|^_revs_diff$|^_ensure_full_commit$/],
  [/^(GET|PUT|DELETE)$/, /^_local$|^[^_]/],
];

const SYNC_GATEWAY = "Couchbase Sync Gateway/4.0 EE";

/**
 * Imitates the public port of Sync Gateway 4 (`routing.go`, `bulk_api.go` and `changes_api.go` in
 * `rest`).
 */
function syncGateway(database: string): Intercept {
  const numbers = new NumberedSequences();
  const start = { instance_start_time: 1_700_000_000_000_000 };
  return servedBy(SYNC_GATEWAY, async (request, forward) => {
    const { database: named, resource, pathname, searchParams } = placeOf(request);
    const isDatabase = resource === undefined || resource === "";
    if (pathname === "/") return json(200, { couchdb: "Welcome", version: SYNC_GATEWAY });
    if (named !== database) return refused(404, "not_found", `no such database "${named}"`);
    if (isDatabase && request.method === "PUT") {
      return refused(412, "file_exists", "Database already exists");
    }
    if (isDatabase) {
      const sequence = await numbers.refresh(database, request, forward);
      const sequences = { update_seq: sequence, committed_update_seq: sequence, purge_seq: 0 };
      const more = { compact_running: false, disk_format_version: 0, state: "Online" };
      return json(200, { db_name: database, ...sequences, ...start, ...more });
    }
    if (resource === "_design") return refused(403, "forbidden", "forbidden");
    if (!ALLOWED.some(([method, place]) => method.test(request.method) && place.test(resource))) {
      return refused(404, "not_found", "unknown URL");
    }
    if (resource === "_ensure_full_commit") return json(201, { ...start, ok: true });
    if (resource === "_changes") {
      const [filter, feed] = [searchParams.get("filter"), searchParams.get("feed") ?? "normal"];
      if (filter === "_doc_ids" && feed !== "normal") {
        const reason = "Filter '_doc_ids' is only valid for feed=normal replications";
        return refused(400, "Bad Request", reason);
      }
      if (filter !== null && filter !== "_doc_ids") {
        const reason = "Unknown filter; try sync_gateway/bychannel or _doc_ids";
        return refused(400, "Bad Request", reason);
      }
      if (searchParams.get("limit") === "0")
        return numberedChanges(numbers, database, withoutLimit(request), forward);
      return numberedChanges(numbers, database, request, forward);
    }
    if (resource === "_bulk_get") return inParts(await forward(request));
    if (resource === "_bulk_docs") return written(request, forward);
    const answer = await forward(request);
    return request.method === "GET" && resource !== "_local" ? withVersion(answer) : answer;
  });
}

/** Removes `limit=0`, which Sync Gateway treats as "no limit". */
function withoutLimit(request: ProxiedRequest): ProxiedRequest {
  return { ...request, path: request.path.replace(/([?&])limit=0&?/, "$1") };
}

async function numberedChanges(
  numbers: NumberedSequences,
  database: string,
  request: ProxiedRequest,
  forward: Forward,
): Promise<ProxiedAnswer> {
  const changes = await numbers.changes(database, request, forward);
  if ("status" in changes) return changes;
  const results = changes.results.filter(({ id }) => !id.startsWith("_"));
  return json(200, { results, last_seq: String(changes.last) });
}

/**
 * Converts a bulk read's response to multipart/mixed, the only format that Sync Gateway supports.
 */
function inParts(answer: ProxiedAnswer): ProxiedAnswer {
  if (answer.status !== 200) return answer;
  const { results } = parsed(answer) as {
    readonly results: readonly { readonly docs: readonly { readonly ok?: object }[] }[];
  };
  const documents = results.flatMap(({ docs }) => docs.flatMap(({ ok }) => ok ?? []));
  const parts = documents.map(
    (document) => `--part\r\nContent-Type: application/json\r\n\r\n${JSON.stringify(document)}\r\n`,
  );
  const headers = { "content-type": 'multipart/mixed; boundary="part"' };
  return { status: 200, headers, body: `${parts.join("")}--part--` };
}

interface Written {
  readonly docs: readonly { readonly _id: string; readonly _rev: string }[];
}

/**
 * Writes documents, except those with ids that Sync Gateway reserves. The response has a row for
 * each document. If `new_edits` is false, CouchDB's response would have no rows for documents that
 * were written.
 */
async function written(request: ProxiedRequest, forward: Forward): Promise<ProxiedAnswer> {
  const { docs, ...rest } = parsed(request) as Written;
  const isReserved = (id: string) => id.startsWith("_") || id.length > 250;
  const accepted = docs.filter(({ _id: id }) => !isReserved(id));
  const body = Buffer.from(JSON.stringify({ ...rest, docs: accepted }));
  const answer = await forward({ ...request, body });
  if (answer.status !== 201) return answer;
  const failures = parsed(answer) as readonly { readonly id: string; readonly rev?: string }[];
  const rows = docs.map(({ _id: id, _rev: rev }) =>
    isReserved(id)
      ? { id, status: 400, error: "bad_request", reason: "Invalid doc ID" }
      : (failures.find((failed) => failed.id === id && failed.rev === rev) ?? { id, rev }),
  );
  return json(201, rows);
}

/** Adds the member that version 4 adds to each document. */
function withVersion(answer: ProxiedAnswer): ProxiedAnswer {
  const text = Buffer.from(answer.body).toString("latin1");
  const body = text.replaceAll('{"_id":', '{"_cv":"18000@k9","_id":');
  return { ...answer, body: Buffer.from(body, "latin1") };
}

export const COUCHDB_1: Implementation = { name: "CouchDB 1.7.1", open: couchDb1 };
export const COUCHDB_2: Implementation = { name: "CouchDB 2.3.1", open: couchDb2 };
export const CLOUDANT: Implementation = { name: "Cloudant", open: cloudant };
export const READ_ONLY: Implementation = { name: "a read-only account", open: readOnlyAccount };
export const SYNC_GATEWAY_4: Implementation = {
  name: "Sync Gateway 4",
  lacksDesigns: true,
  open: syncGateway,
};
