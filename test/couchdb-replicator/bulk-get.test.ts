/**
 * CouchDB's `couch_replicator_bulk_get_tests`: whether documents are read in bulk or individually,
 * and the option that decides this.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { ATTACHED, count, documents, openPair, type Pair } from "./pair.fixture.ts";

let pair: Pair;
beforeAll(async () => {
  pair = await openPair();
});
beforeEach(() => pair.reset());
afterAll(() => pair.close());

const COUNT = 10;
const DESIGN = Array.from({ length: COUNT }, (_, number) => ({ _id: `_design/d${number}` }));
const SINGLE = /open_revs=/;
const WRITTEN_INDIVIDUALLY = /^(_design\/|doc-).*new_edits=false/;

/** Runs a replication. Returns the numbers of its bulk reads, single reads, and single writes. */
async function requestsOf(database: string, docs: readonly object[], more: object) {
  await pair.fill(database, docs);
  pair.reset();
  const { body } = await pair.replicate(database, more);
  expect(body.history[0].docs_written).toBe(docs.length);
  return {
    bulk: count(pair.source, "POST", /^_bulk_get/),
    reads: count(pair.source, "GET", SINGLE),
    writes: count(pair.target, "PUT", WRITTEN_INDIVIDUALLY),
  };
}

test("use_bulk_get: plain documents are read only in bulk", async () => {
  const { bulk, reads, writes } = await requestsOf("plain", documents(COUNT), {});
  expect([bulk > 0, reads, writes]).toEqual([true, 0, 0]);
});

test("use_bulk_get_with_ddocs: design documents are read individually, and other documents in bulk", async () => {
  const docs = [...DESIGN, ...documents(COUNT)];
  const { bulk, reads, writes } = await requestsOf("designs", docs, {});
  expect([bulk > 0, reads, writes]).toEqual([true, COUNT, COUNT]);
});

test("use_bulk_get_with_attachments: documents with attachments are requested in bulk and then read individually", async () => {
  const { bulk, reads, writes } = await requestsOf("attached", documents(COUNT, ATTACHED), {});
  expect([bulk > 0, reads, writes]).toEqual([true, COUNT, COUNT]);
});

test.each([
  ["dont_use_bulk_get", documents(COUNT), 0],
  ["dont_use_bulk_get_ddocs", DESIGN, COUNT],
  ["dont_use_bulk_get_attachments", documents(COUNT, ATTACHED), COUNT],
])("%s: each document is read individually", async (name, docs, written) => {
  const requests = await requestsOf(name.replaceAll("_", "-"), docs, { use_bulk_get: false });
  expect(requests).toEqual({ bulk: 0, reads: COUNT, writes: written });
});

test.each([
  ["global_disable_works", {}, false],
  ["job_enable_overrides_global_disable", { use_bulk_get: true }, true],
])("%s", async (name, more, isUsed) => {
  await pair.here.call("PUT", "/_node/_local/_config/replicator/use_bulk_get", '"false"');
  const { bulk } = await requestsOf(name.replaceAll("_", "-"), documents(COUNT), more);
  expect(bulk > 0).toBe(isUsed);
  await pair.here.call("DELETE", "/_node/_local/_config/replicator/use_bulk_get");
});
