/** The two kinds of endpoint, on our databases and, when `COUCHDB_URL` names one, on a CouchDB's. */
import { randomBytes } from "node:crypto";
import { afterEach, describe, expect, test, vi } from "vitest";
import { openNodeServer } from "../../src/host/http/node-server.ts";
import { openUndiciFetch, parseMultipart } from "../../src/host/index.ts";
import { type KeyValueStore, Subspace } from "../../src/kv/index.ts";
import {
  Budgets,
  type Endpoint,
  Endpoints,
  REPLICATION_OPTIONS_DEFAULT,
  REPLICATOR_CONFIG_DEFAULT,
} from "../../src/replicator/index.ts";
import { openApi } from "../api/api.fixture.ts";
import { attachmentsRead, endpointTests, unplaced } from "../conformance/endpoint/index.ts";
import { deferred } from "../support/deferred.ts";

const COUCHDB_URL = process.env.COUCHDB_URL;

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const close of closing.splice(0).reverse()) await close();
});

/** A database of this name, in our store or behind the URL. `onStore` is given the store. */
async function openEndpoint(
  place: "local" | "own API" | "CouchDB",
  onStore: (kv: KeyValueStore) => Promise<void> = async () => {},
): Promise<Endpoint> {
  const { api, parts } = await openApi();
  await onStore(parts.kv);
  const { runtime, kv, databases, attachments, functions } = parts;
  const http = openUndiciFetch();
  closing.push(() => http.close());
  const budgets = new Budgets({ runtime, kv, subspace: Subspace.fromTuple([2]) });
  const endpoints = new Endpoints({
    runtime,
    kv,
    databases,
    attachments,
    functions,
    resolveUser: async (userName) => ({ userName, roles: ["_admin"], isAdmin: true }),
    documentLimits: { documentBytesMax: 8 * 1024 * 1024 },
    serverUrl: "http://127.0.0.1:5984/",
    fetch: http.fetch,
    parseMultipart,
    userAgent: "Tandem",
    lookUpSecret: (reference) => ({ kind: "missing", reason: `${reference} is not here` }),
    spendingFor: (address) => budgets.spendingFor(address),
    config: REPLICATOR_CONFIG_DEFAULT,
  });
  const name = `conformance-${randomBytes(6).toString("hex")}`;
  const open = (url: string, basic?: { username: string; password: string }): Endpoint => {
    const address = { kind: "http", url: `${url}/${name}/`, headers: {}, ...(basic && { basic }) };
    return endpoints.open({ ...address, kind: "http" }, REPLICATION_OPTIONS_DEFAULT, {
      userName: null,
    });
  };
  if (place === "local") {
    return endpoints.open({ kind: "local", database: name }, REPLICATION_OPTIONS_DEFAULT, {
      userName: null,
    });
  }
  if (place === "CouchDB") {
    const { origin, username, password } = new URL(COUCHDB_URL as string);
    const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
    closing.push(() =>
      fetch(`${origin}/${name}`, { method: "DELETE", headers: { authorization } }),
    );
    return open(origin, { username, password });
  }
  const options = { port: 0, bindAddress: "127.0.0.1", api, trace: runtime.trace };
  const server = await openNodeServer(options);
  closing.push(() => server.close());
  return open(`http://127.0.0.1:${server.port}`);
}

describe("a database of our own", () => endpointTests(() => openEndpoint("local")));
test("a database of our own sends an attachment without a position to a target that has an ancestor, too", async () => {
  const endpoint = await openEndpoint("local");
  const signal = new AbortController().signal;
  await endpoint.create({}, signal);
  await endpoint.writeDocuments([unplaced("a")], signal);
  const request = { id: "a", revision: "2-b", ancestors: ["1-a"] };
  expect(await attachmentsRead(endpoint, request)).toEqual({ hasStubs: false, sent: ["poster"] });
});
test("a feed of a database of our own that is given up leaves no watch behind", async () => {
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
