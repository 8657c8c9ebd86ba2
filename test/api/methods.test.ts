/** Responses to methods that a resource does not support, and to requests for missing databases. */
import { describe } from "vitest";
import { FILMS, type Row, refusal, testRows } from "./rows.ts";

function only(ask: string, methods: string, differs?: string): Row {
  return {
    name: `${ask} is not supported`,
    ask,
    ...refusal(405, "method_not_allowed", `Only ${methods} allowed`),
    ...(differs === undefined ? {} : { differs }),
  };
}

const HEAD = "CouchDB does not name HEAD, which it answers";

const missing = refusal(404, "not_found", "Database does not exist.");

function nowhere(ask: string, body?: object): Row {
  return {
    name: `${ask} reports a missing database`,
    ask,
    ...(body === undefined ? {} : { body }),
    ...missing,
  };
}

describe("a method that the resource does not support", () => {
  testRows(FILMS, [
    only("POST /", "GET,HEAD"),
    only("DELETE /", "GET,HEAD"),
    only("POST /_up", "GET,HEAD"),
    only("DELETE /_all_dbs", "GET,HEAD"),
    only("PUT /_uuids", "GET,HEAD", HEAD),
    only("PUT /_membership", "GET,HEAD", HEAD),
    only("GET /films/_bulk_docs", "POST"),
    only("GET /films/_bulk_get", "POST"),
    only("GET /films/_revs_diff", "POST"),
    only("GET /films/_missing_revs", "POST"),
    only("GET /films/_compact", "POST"),
    only("GET /films/_view_cleanup", "POST"),
    only("GET /films/_ensure_full_commit", "POST"),
    only("DELETE /films/_security", "GET,HEAD,PUT", HEAD),
    only("DELETE /films/_revs_limit", "GET,HEAD,PUT", HEAD),
    only("DELETE /films/_changes", "GET,HEAD,POST", "CouchDB names them in another order"),
    only("DELETE /films/_all_docs", "GET,HEAD,POST"),
    only("DELETE /films/_local_docs", "GET,HEAD,POST"),
    only("DELETE /films/_design_docs", "GET,HEAD,POST"),
    only("GET /films/_purge", "POST"),
    only("GET /films/_explain", "POST"),
  ]);
});

describe("a missing database", () => {
  testRows(FILMS, [
    nowhere("GET /nope/_all_docs"),
    nowhere("GET /nope/_changes"),
    nowhere("GET /nope/_security"),
    nowhere("GET /nope/_revs_limit"),
    nowhere("GET /nope/_index"),
    nowhere("GET /nope/a"),
    nowhere("PUT /nope/a", {}),
    nowhere("DELETE /nope/a?rev=1-a"),
    nowhere("GET /nope/a/b"),
    nowhere("GET /nope/_local/a"),
    nowhere("GET /nope/_design/a"),
    nowhere("POST /nope", {}),
    nowhere("POST /nope/_bulk_docs", { docs: [] }),
    nowhere("POST /nope/_bulk_get", { docs: [] }),
    nowhere("POST /nope/_revs_diff", {}),
    nowhere("POST /nope/_missing_revs", {}),
    nowhere("POST /nope/_compact", {}),
    nowhere("POST /nope/_ensure_full_commit", {}),
    nowhere("POST /nope/_explain", { selector: {} }),
  ]);
});
