/**
 * Endpoints for local databases, which are accessed in the store or through the API, and for
 * databases of a CouchDB.
 */

import { randomBytes } from "node:crypto";
import { afterEach } from "vitest";
import { REPLICATION_OPTIONS_DEFAULT } from "../../../src/contract/index.ts";
import { openNodeServer } from "../../../src/host/http/node-server.ts";
import { createSystemRuntime, openUndiciFetch, parseMultipart } from "../../../src/host/index.ts";
import { MemoryLoginGates, SecretsInUse } from "../../../src/http-client/index.ts";
import { type KeyValueStore, Subspace } from "../../../src/kv/index.ts";
import {
  BatchCopier,
  Budgets,
  continueLog,
  type Endpoint,
  Endpoints,
  MemoryRunFailures,
  REPLICATOR_CONFIG_DEFAULT,
} from "../../../src/replicator/index.ts";
import { openApi } from "../../api/api.fixture.ts";

/** URL of a running CouchDB, with its administrator's credentials. */
export const COUCHDB_URL = process.env.COUCHDB_URL;

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/**
 * Opens a database with this name in the store, behind the API, or on a CouchDB. `onStore` receives
 * the store.
 */
export async function openEndpoint(
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
    continueLog,
    fetch: http.fetch,
    parseMultipart,
    userAgent: "Tandem",
    lookUpSecret: (reference) => ({ kind: "missing", reason: `${reference} is not here` }),
    spendingFor: (address) => budgets.spendingFor(address),
    loginGates: new MemoryLoginGates(runtime),
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

/**
 * Opens a copier whose failure list the test can read. The copier requests a missing document again
 * without a pause.
 */
export function openCopier(sides: { readonly source: Endpoint; readonly target: Endpoint }) {
  const failures = new MemoryRunFailures();
  const copier = new BatchCopier(
    {
      ...sides,
      runtime: createSystemRuntime(),
      options: REPLICATION_OPTIONS_DEFAULT,
      copyLimits: { ...REPLICATOR_CONFIG_DEFAULT.copyLimits, missingDocumentPauseMs: 0 },
    },
    { count: () => {}, failures, secrets: new SecretsInUse() },
  );
  return { copier, failures };
}

/** Returns an endpoint, or a part of one, with some members replaced. */
export function overriding<Part extends object>(part: Part, members: Partial<Part>): Part {
  return new Proxy(part, {
    get: (inner, name) => {
      if (name in members) return Reflect.get(members, name);
      const member = Reflect.get(inner, name, inner);
      return typeof member === "function" ? member.bind(inner) : member;
    },
  });
}
