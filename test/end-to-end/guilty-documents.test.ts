/** A server that answers for all documents but one holds up no others; a server that answers for none is in trouble itself. */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { documentJob, documents, openPair, type Pair } from "../couchdb-replicator/pair.fixture.ts";

let pair: Pair;
beforeAll(async () => {
  pair = await openPair(
    "[replicator]\nretries_per_request = 1\nmin_backoff_penalty_sec = 1\nmax_backoff_penalty_sec = 2\n",
  );
});
beforeEach(() => pair.reset());
afterAll(() => pair.close());

test("a bulk write that fails while documents are read one by one loses none of them", async () => {
  // Seven megabytes: the first write is sent before the last document is read.
  await pair.fill("large", documents(7, { text: "x".repeat(1_000_000) }));
  pair.reset();
  let failureCount = 2;
  pair.target.intercept(async (request, forward) => {
    if (!request.path.endsWith("/_bulk_docs") || failureCount === 0) return forward(request);
    failureCount--;
    return { status: 503, body: '{"error":"service_unavailable","reason":"not now"}' };
  });
  const job = { ...pair.body("large"), use_bulk_get: false, http_connections: 1 };
  await pair.here.call("PUT", "/_replicator/large", job);
  await documentJob(pair.here, "large", "completed");
  expect(failureCount).toBe(0);
  expect(await pair.ids("large")).toHaveLength(7);
});
