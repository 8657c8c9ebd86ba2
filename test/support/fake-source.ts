/**
 * A source with documents that no CouchDB would serve. It sends ids, revisions, attachments and
 * sequences exactly as given.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { percentEncode } from "../../src/protocol/index.ts";

export interface FakeDocument {
  readonly _id: string;
  readonly _rev: string;
  readonly [name: string]: unknown;
}

export interface FakeDatabase {
  /** Documents that the source serves. All leaves of a document must be adjacent in the list. */
  readonly documents: readonly FakeDocument[];
  /** How the source answers `_bulk_get`. Default: with JSON. */
  readonly bulkGet?: "json" | "none";
  /**
   * Returns the sequence of the change with this number, counted from 1. Default: the number
   * followed by `-x`.
   */
  readonly sequence?: (number: number) => string;
  /** Returns the response to `GET /db/doc?open_revs`. Default: a JSON array. */
  readonly openRevisions?: (documents: readonly FakeDocument[]) => FakeAnswer;
  /** Returns additional members of a document. Default: the members that `revs=true` adds. */
  readonly sent?: (document: FakeDocument) => object;
}

export interface FakeAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

export interface FakeSource {
  readonly url: string;
  readonly databases: Map<string, FakeDatabase>;
  /** Paths of all requests, in order. */
  readonly requests: string[];
  close(): Promise<void>;
}

export async function openFakeSource(): Promise<FakeSource> {
  const databases = new Map<string, FakeDatabase>();
  const requests: string[] = [];
  const locals = new Map<string, string>();
  const server = createServer((incoming, outgoing) => {
    requests.push(`${incoming.method} ${incoming.url}`);
    void respond({ databases, locals }, incoming, outgoing);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    databases,
    requests,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

export const NOTE = "note".repeat(50);

interface State {
  readonly databases: ReadonlyMap<string, FakeDatabase>;
  readonly locals: Map<string, string>;
}

async function respond(
  { databases, locals }: State,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString();
  const [path = "", query = ""] = (incoming.url ?? "").split(/\?(.*)/s);
  const [, name = "", ...rest] = path.split("/");
  const database = databases.get(name);
  const send = (value: unknown, status = 200): void => {
    const sent = isAnswer(value) ? value : { body: JSON.stringify(value) };
    const headers = { "content-type": "application/json", ...sent.headers };
    outgoing.writeHead(sent.status ?? status, headers).end(sent.body);
  };
  if (path === "/") return send({ couchdb: "Welcome", version: "3.5.0" });
  if (database === undefined) return send({ error: "not_found", reason: "no_db_file" }, 404);
  const place = rest.join("/");
  if (place === "") return send({ db_name: name, update_seq: "9-x", instance_start_time: "0" });
  if (place === "_changes") {
    const page = changes(database, query);
    // A longpoll feed without changes stays open until its client disconnects.
    if (page.results.length === 0 && query.includes("feed=longpoll")) return;
    return send(page);
  }
  if (place === "_ensure_full_commit") return send({ ok: true, instance_start_time: "0" }, 201);
  if (place.startsWith("_local/")) {
    if (incoming.method === "PUT") {
      locals.set(path, body);
      return send({ ok: true, id: decodeURIComponent(place), rev: "0-1" }, 201);
    }
    const stored = locals.get(path);
    if (stored === undefined) return send({ error: "not_found", reason: "missing" }, 404);
    return send({ ...JSON.parse(stored), _rev: "0-1" });
  }
  if (place === "_bulk_get") {
    if (database.bulkGet === "none") return send({ error: "not_found", reason: "missing" }, 404);
    return send({ results: JSON.parse(body).docs.map(bulkRow(database)) });
  }
  const [first = "", ...names] = rest;
  const id = decodeURIComponent(first);
  // All attachments that are not sent with their documents have this content.
  if (names.length > 0) return send({ body: NOTE, headers: { "content-type": "image/png" } });
  const revisions: string[] = JSON.parse(new URLSearchParams(query).get("open_revs") ?? "[]");
  const found = database.documents.filter((it) => it._id === id && revisions.includes(it._rev));
  if (found.length === 0) return send({ error: "not_found", reason: "missing" }, 404);
  if (database.openRevisions !== undefined) return send(database.openRevisions(found));
  const { sent = withRevisions } = database;
  send(found.map((document) => ({ ok: sent(document) })));
}

const isAnswer = (value: unknown): value is FakeAnswer =>
  Object.hasOwn(value as object, "body") && !Array.isArray(value);

function changes({ documents, sequence = (number) => `${number}-x` }: FakeDatabase, query: string) {
  const ids = [...new Set(documents.map(({ _id }) => _id))];
  const rows = ids.map((id, index) => ({
    seq: sequence(index + 1),
    id,
    changes: documents.filter(({ _id }) => _id === id).map(({ _rev }) => ({ rev: _rev })),
  }));
  const [, since = ""] = /(?:^|&)since=([^&]*)/.exec(query) ?? [];
  const place = rows.findIndex(
    ({ seq }) => percentEncode(seq) === since || percentEncode(JSON.stringify(seq)) === since,
  );
  const results = rows.slice(place + 1);
  return { results, last_seq: sequence(ids.length), pending: 0 };
}

/** Returns a document as a server sends it for `revs=true`. */
export function withRevisions(document: FakeDocument): object {
  const [, start = "", hash = ""] = /^([^-]*)-?(.*)$/s.exec(document._rev) ?? [];
  return { ...document, _revisions: { start: Number(start), ids: [hash] } };
}

function bulkRow({ documents, sent = withRevisions }: FakeDatabase) {
  return ({ id, rev }: { readonly id: string; readonly rev: string }): object => {
    const found = documents.find((it) => it._id === id && it._rev === rev);
    const error = { id, rev, error: "not_found", reason: "missing" };
    return { id, docs: [found === undefined ? { error } : { ok: sent(found) }] };
  };
}
