/** Both kinds of endpoints, with local databases and, if `COUCHDB_URL` is set, with a CouchDB. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { attachmentsRead, endpointTests, unplaced } from "../../conformance/endpoint/index.ts";
import { deferred } from "../../support/deferred.ts";
import { COUCHDB_URL, openEndpoint } from "./endpoint.fixture.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

describe("a local database", () => endpointTests(() => openEndpoint("local")));
test("a local database sends an attachment whose revpos is 0 even to a target that has an ancestor", async () => {
  const endpoint = await openEndpoint("local");
  const signal = new AbortController().signal;
  await endpoint.create({}, signal);
  await endpoint.writer.writeDocuments([unplaced("a")], signal);
  const request = { id: "a", revision: "2-b", ancestors: ["1-a"] };
  expect(await attachmentsRead(endpoint, request)).toEqual({ hasStubs: false, sent: ["poster"] });
});
test("closing a feed of a local database cancels its watch", async () => {
  const waiting = deferred();
  const kept = new Set<unknown>();
  const endpoint = await openEndpoint("local", async (kv) => {
    await kv.transact(async (tx) => {
      const transaction = Object.getPrototypeOf(tx);
      const { watch } = transaction;
      vi.spyOn(transaction, "watch").mockImplementation(function (this: unknown, key: unknown) {
        const watched = watch.call(this, key);
        kept.add(watched);
        const fired = watched.fired.bind(watched);
        watched.fired = (given: AbortSignal) => {
          waiting.resolve();
          return fired(given);
        };
        const cancel = watched.cancel.bind(watched);
        watched.cancel = () => {
          kept.delete(watched);
          cancel();
        };
        return watched;
      });
    });
  });
  const signal = new AbortController().signal;
  await endpoint.create({}, signal);
  const stopping = new AbortController();
  const request = { since: 0, continuous: true, selection: { kind: "all" } } as const;
  const feed = endpoint.changes({ ...request, winningRevisionsOnly: false }, stopping.signal);
  const read = (async () => {
    for await (const items of feed) expect(items).not.toEqual([]);
  })();
  await waiting.promise;
  stopping.abort();
  await expect(read).rejects.toThrow();
  expect(kept.size).toBe(0);
});
describe("our API", () => endpointTests(() => openEndpoint("own API")));
describe.runIf(COUCHDB_URL !== undefined)("a CouchDB", () => {
  endpointTests(() => openEndpoint("CouchDB"));
});
