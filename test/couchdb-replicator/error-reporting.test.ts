/**
 * CouchDB's `couch_replicator_error_reporting_tests`: errors of an endpoint, and the names under
 * which the job reports these errors.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { ProxiedRequest } from "../support/faults/http-proxy.ts";
import { ATTACHED, count, documents, openPair, type Pair, write } from "./pair.fixture.ts";

let pair: Pair;
beforeAll(async () => {
  pair = await openPair("[replicator]\nretries_per_request = 1\n");
});
beforeEach(() => pair.reset());
afterAll(() => pair.close());

const REFUSAL = { error: "x", reason: "y" };

/**
 * Makes the source or the target give this response to matching requests, and forwards all other
 * requests.
 */
function refuse(
  side: "source" | "target",
  matches: (request: ProxiedRequest) => boolean,
  status: number,
  body: unknown = REFUSAL,
): void {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  pair[side].intercept(async (request, forward) =>
    matches(request) ? { status, body: text } : forward(request),
  );
}

test.each([
  ["t_fail_bulk_docs", "target", /_bulk_docs/, 403, "bulk_docs_failed"],
  ["t_fail_changes_reader", "source", /_changes\?feed/, 418, "changes_req_failed"],
  ["t_fail_revs_diff", "target", /_revs_diff/, 407, "revs_diff_failed"],
  ["t_fail_open_docs_get", "source", /open_revs/, 418, "open_doc_revs_failed"],
] as const)(
  "%s: the job fails with an error that names the failed request",
  async (name, side, path, status, error) => {
    const database = name.replaceAll("_", "-");
    await pair.fill(database, documents(3));
    // The replicator sends `_revs_diff` only to a target that contains documents.
    await write(pair.there, database, [{ _id: "other" }]);
    pair.reset();
    refuse(side, (request) => path.test(request.path), status);
    const answer = await pair.replicate(database, { use_bulk_get: false });
    expect([answer.status, answer.body.error]).toEqual([500, error]);
    expect(answer.body.reason).toMatch(
      new RegExp(`^${status} from http://.*/${database}/.* x: y$`),
    );
    if (error === "open_doc_revs_failed") {
      expect(count(pair.source, "GET", /^doc-0\?.*open_revs/)).toBeGreaterThanOrEqual(2);
    }
  },
);

test.each([501, 418])(
  "t_fail_bulk_get: if _bulk_get fails with %i, the documents are read individually",
  async (status) => {
    const database = `bulk-get-${status}`;
    await pair.fill(database, documents(1));
    pair.reset();
    refuse("source", ({ path }) => path.includes("_bulk_get"), status);
    const { body } = await pair.replicate(database);
    expect(body.history[0].docs_written).toBe(1);
    expect(count(pair.source, "GET", /open_revs/)).toBe(1);
  },
);

const isPut = ({ method, path }: ProxiedRequest): boolean =>
  method === "PUT" && path.includes("/bad?");

test.each([
  ["t_skip_doc_put_401_errors", 401, { error: "unauthorized", reason: "y" }],
  ["t_skip_doc_put_403_errors", 403, { error: "forbidden", reason: "y" }],
  ["t_skip_doc_put_413_errors", 413, { error: "too_large", reason: "y" }],
  ["t_skip_doc_put_415_errors", 415, { error: "unsupported_media_type", reason: "y" }],
  [
    "t_skip_doc_put_invalid_attachment_name",
    400,
    { error: "bad_request", reason: "Attachment name '_x'" },
  ],
] as const)(
  "%s: the failure list names the refused document, and all other documents arrive",
  async (name, status, refusal) => {
    const database = name.replaceAll("_", "-");
    await pair.fill(database, [...documents(5, ATTACHED), { _id: "bad", ...ATTACHED }]);
    refuse("target", isPut, status, refusal);
    const { body } = await pair.replicate(database);
    expect(body.history[0]).toMatchObject({ docs_written: 5, doc_write_failures: 1 });
    const listed = `bad: ${status} ${refusal.error}: ${refusal.reason}`;
    expect(await pair.failures(database)).toEqual([listed]);
  },
);

// In CouchDB, one refused document ends the job, and therefore blocks all other documents.
test.each([
  ["t_fail_doc_put_4xx_well_formed_json_error", 400, REFUSAL, "x: y"],
  ["t_fail_doc_put_4xx_unexpected_json_error", 400, { a: 1 }, "http_400"],
  ["t_fail_doc_put_4xx_invalid_json_error", 400, "potato", "http_400"],
] as const)(
  "%s: the failure list names the refused document, and all other documents arrive",
  async (name, status, refusal, shown) => {
    const database = name.replaceAll("_", "-");
    await pair.fill(database, [...documents(5, ATTACHED), { _id: "bad", ...ATTACHED }]);
    refuse("target", isPut, status, refusal);
    const { body } = await pair.replicate(database);
    expect(body.history[0]).toMatchObject({ docs_written: 5, doc_write_failures: 1 });
    expect((await pair.failures(database))[0]).toContain(`bad: ${status} ${shown}`);
  },
);
