/**
 * A source with many documents and an empty target, both one round trip away, in virtual time. Each
 * server has one processor with a fixed time per document, byte and request. The link takes half a
 * round trip per direction and has unlimited bandwidth. Individually read documents are sent in
 * pieces, and the pieces of several documents alternate.
 *
 * The servers respond like CouchDB, as far as a first replication needs, and count the requests in
 * flight.
 */
import { setMaxListeners } from "node:events";
import type { Fetch, FetchRequest, FetchResponse } from "../../../src/http-client/fetch.ts";
import type { VirtualTime } from "../kernel/virtual-time.ts";

export const SOURCE_URL = "http://source.test/films";
export const TARGET_URL = "http://target.test/films";

/**
 * Processor time in milliseconds per request, per row, per document read, and per document written.
 * A processor reads about 65,000 small documents per second, or writes 25,000.
 */
const REQUEST_MS = 0.2;
const ROW_MS = 0.002;
const READ_MS = 0.015;
const WRITE_MS = 0.04;
/** Milliseconds for each byte, at 50 MB per second. */
const BYTE_MS = 2e-5;
const PIECE_BYTES = 65_536;
const ZEROS = new Uint8Array(PIECE_BYTES);

export interface DistantServersOptions {
  readonly roundTripMs: number;
  /** Size of the body of each document. */
  readonly bodyBytes: number;
  readonly attachmentBytes?: number;
  /** Returns the number of changes that the source has at this time. */
  readonly changeCount: (nowMs: number) => number;
  /** Returns the time at which the source has this number of changes, if ever. */
  readonly changedAtMs?: (count: number) => number | undefined;
  /** Returns the factor by which each processor is slower at this time. Default: 1. */
  readonly slownessAt?: (nowMs: number) => number;
  /** Called when a `_bulk_docs` request begins, with the number of such requests in flight. */
  readonly onWrite?: (count: number, nowMs: number) => void;
  /**
   * Called when the read of an individual document begins, with the number of such reads in flight.
   */
  readonly onRead?: (count: number, nowMs: number) => void;
}

type Query = URLSearchParams;

export class DistantServers {
  readonly #time: VirtualTime;
  readonly #options: DistantServersOptions;
  readonly #freeAtMs = new Map<string, number>();
  readonly #locals = new Map<string, { readonly revision: number; readonly body: object }>();
  readonly #written = new Set<string>();
  readonly #writtenAtMs: number[] = [];
  #heldBytes = 0;
  /** Number of requests, by the last segment of the request's path. */
  readonly requestCounts = new Map<string, number>();
  /** Number of document requests in flight, by kind. */
  readonly underWay = { ...NONE_UNDER_WAY };
  readonly underWayMax = { ...NONE_UNDER_WAY };
  /** Maximum number of bytes that the replicator had read and not yet written. */
  heldBytesMax = 0;

  constructor(time: VirtualTime, options: DistantServersOptions) {
    this.#time = time;
    this.#options = options;
  }

  get writtenCount(): number {
    return this.#written.size;
  }

  /** Returns the time at which this number of documents was written. */
  writtenAtMs(count: number): number {
    return this.#writtenAtMs[count] ?? Number.NaN;
  }

  readonly fetch: Fetch = async (request) => {
    const { roundTripMs } = this.#options;
    setMaxListeners(0, request.signal);
    const { host, pathname, searchParams } = new URL(request.url);
    const name = pathname.split("/")[2] || "info";
    const kind = name.startsWith("film-") ? (request.method === "GET" ? "read" : "write") : name;
    this.requestCounts.set(kind, (this.requestCounts.get(kind) ?? 0) + 1);
    const end = isCounted(kind) ? this.#begin(kind) : () => {};
    if (kind === "read") return this.#readIndividually(host, name, request, end);
    if (kind === "write") return this.#writeIndividually(host, name, request).finally(end);
    const body = await textOf(request);
    await this.#time.sleep(roundTripMs / 2, request.signal);
    await this.#work(host, REQUEST_MS + body.length * BYTE_MS, request.signal);
    const answer = await this.#answer({ host, name, body, query: searchParams, request });
    await this.#time.sleep(roundTripMs / 2, request.signal);
    end();
    if (kind === "_bulk_get") this.#hold(answer.text.length);
    if (kind === "_bulk_docs") this.#hold(-body.length);
    return responseOf(answer);
  };

  /** Counts a request as in flight until the returned function is called. */
  #begin(kind: Counted): () => void {
    const count = ++this.underWay[kind];
    this.underWayMax[kind] = Math.max(this.underWayMax[kind], count);
    if (kind === "_bulk_docs") this.#options.onWrite?.(count, this.#time.nowMs);
    if (kind === "read") this.#options.onRead?.(count, this.#time.nowMs);
    return () => void this.underWay[kind]--;
  }

  #hold(byteCount: number): void {
    this.#heldBytes += byteCount;
    this.heldBytesMax = Math.max(this.heldBytesMax, this.#heldBytes);
  }

  /**
   * Sends a document with its attachment as multipart. The response begins when the source has
   * found the document, and is streamed at the processor's pace.
   */
  async #readIndividually(
    host: string,
    name: string,
    { signal }: FetchRequest,
    end: () => void,
  ): Promise<FetchResponse> {
    const wayMs = this.#options.roundTripMs / 2;
    await this.#time.sleep(wayMs, signal);
    await this.#work(host, REQUEST_MS + READ_MS, signal);
    const { attachmentBytes = 0 } = this.#options;
    const arrivals: Promise<Uint8Array>[] = [];
    let made = Promise.resolve();
    for (const piece of multipartDocument(this.#document(name, "follows"), attachmentBytes)) {
      made = made.then(() => this.#work(host, piece.length * BYTE_MS, signal));
      arrivals.push(made.then(() => this.#time.sleep(wayMs, signal)).then(() => piece));
    }
    for (const arrival of arrivals) arrival.catch(() => {});
    await arrivals[0];
    const receive = (byteCount: number): void => this.#hold(byteCount);
    return {
      status: 200,
      headers: new Map([["content-type", 'multipart/mixed; boundary="mixed"']]),
      body: (async function* () {
        try {
          for (const arrival of arrivals) {
            const piece = await arrival;
            receive(piece.length);
            yield piece;
          }
        } finally {
          end();
        }
      })(),
      discard: end,
    };
  }

  async #writeIndividually(
    host: string,
    name: string,
    request: FetchRequest,
  ): Promise<FetchResponse> {
    const wayMs = this.#options.roundTripMs / 2;
    const { signal, body } = request;
    if (typeof body !== "object" || body instanceof Uint8Array) throw new Error("No multipart");
    let taken = this.#time.sleep(wayMs, signal).then(() => this.#work(host, REQUEST_MS, signal));
    for await (const piece of body.stream()) {
      this.#hold(-piece.length);
      const arrived = this.#time.sleep(wayMs, signal);
      const before = taken;
      taken = arrived
        .then(() => before)
        .then(() => this.#work(host, piece.length * BYTE_MS, signal));
      taken.catch(() => {});
    }
    await taken;
    await this.#work(host, WRITE_MS, signal);
    this.#note([name]);
    await this.#time.sleep(wayMs, signal);
    return responseOf(json(201, { ok: true, id: name, rev: REVISION }));
  }

  /** Resolves when the server's processor has done this work, after all work queued earlier. */
  async #work(host: string, durationMs: number, signal: AbortSignal): Promise<void> {
    const { nowMs } = this.#time;
    const slowness = this.#options.slownessAt?.(nowMs) ?? 1;
    const doneAtMs = Math.max(nowMs, this.#freeAtMs.get(host) ?? 0) + durationMs * slowness;
    this.#freeAtMs.set(host, doneAtMs);
    await this.#time.sleep(doneAtMs - nowMs, signal);
  }

  async #answer(asked: Asked): Promise<Answer> {
    switch (asked.name) {
      case "info":
        return json(200, {
          db_name: "films",
          update_seq: this.#changeCount(),
          instance_start_time: "0",
        });
      case "_local":
        return this.#local(asked);
      case "_changes":
        return this.#changes(asked);
      case "_revs_diff":
        return this.#difference(asked);
      case "_bulk_get":
        return this.#bulkGet(asked);
      case "_bulk_docs":
        return this.#bulkDocs(asked);
      case "_ensure_full_commit":
        return json(201, { ok: true, instance_start_time: "0" });
      default:
        throw new Error(`${asked.request.method} ${asked.request.url}`);
    }
  }

  #local({ request, body }: Asked): Answer {
    const { url, method } = request;
    const before = this.#locals.get(url);
    if (method === "GET") {
      if (before === undefined) return json(404, { error: "not_found", reason: "missing" });
      return json(200, { ...before.body, _rev: `0-${before.revision}` });
    }
    const revision = (before?.revision ?? 0) + 1;
    const document = JSON.parse(body) as { readonly _id: string };
    this.#locals.set(url, { revision, body: document });
    return json(201, { ok: true, id: document._id, rev: `0-${revision}` });
  }

  #changeCount(): number {
    return this.#options.changeCount(this.#time.nowMs);
  }

  async #changes({ host, query, request }: Asked): Promise<Answer> {
    const since = Number(query.get("since") ?? 0);
    const limit = Number(query.get("limit") ?? Number.POSITIVE_INFINITY);
    if (query.get("feed") === "longpoll" && this.#changeCount() <= since) {
      const timeoutMs = Number(query.get("timeout"));
      const atMs = this.#options.changedAtMs?.(since + 1) ?? Number.POSITIVE_INFINITY;
      const waitMs = Math.min(timeoutMs, atMs - this.#time.nowMs + 0.01);
      await this.#time.sleep(waitMs, request.signal);
    }
    const end = Math.min(this.#changeCount(), since + limit);
    await this.#work(host, (end - since) * ROW_MS, request.signal);
    const rows: string[] = [];
    for (let number = since; number < end; number++) {
      rows.push(`{"seq":${number + 1},"id":"${idOf(number)}","changes":[{"rev":"${REVISION}"}]}`);
    }
    const text = `{"results":[\n${rows.join(",\n")}\n],"last_seq":${end},"pending":0}`;
    return { status: 200, text };
  }

  async #difference({ host, body, request }: Asked): Promise<Answer> {
    const asked = Object.entries(JSON.parse(body) as Record<string, string[]>);
    await this.#work(host, asked.length * ROW_MS, request.signal);
    const lacking = asked.filter(([id]) => !this.#written.has(id));
    return json(
      200,
      Object.fromEntries(lacking.map(([id, revisions]) => [id, { missing: revisions }])),
    );
  }

  async #bulkGet({ host, body, query, request }: Asked): Promise<Answer> {
    const { docs } = JSON.parse(body) as { readonly docs: readonly { readonly id: string }[] };
    const form = query.get("attachments") === "true" ? "data" : "stub";
    const rows = docs.map(({ id }) => {
      return `{"id":"${id}","docs":[{"ok":${this.#document(id, form)}}]}`;
    });
    const text = `{"results":[${rows.join(",")}]}`;
    await this.#work(host, docs.length * READ_MS + text.length * BYTE_MS, request.signal);
    return { status: 200, text };
  }

  #document(id: string, form: "data" | "stub" | "follows"): string {
    const { bodyBytes, attachmentBytes = 0 } = this.#options;
    const revisions = `{"start":1,"ids":["${REVISION.slice(2)}"]}`;
    const filler = "x".repeat(Math.max(0, bodyBytes - 130));
    const length = Math.ceil((attachmentBytes * 4) / 3);
    const bytes =
      form === "data" ? `"data":"${"A".repeat(length - (length % 4))}"` : `"${form}":true`;
    const attachments =
      attachmentBytes === 0
        ? ""
        : `,"_attachments":{"a":{"content_type":"image/png","revpos":1,"length":${attachmentBytes},${bytes}}}`;
    return `{"_id":"${id}","_rev":"${REVISION}","_revisions":${revisions},"x":"${filler}"${attachments}}`;
  }

  async #bulkDocs({ host, body, request }: Asked): Promise<Answer> {
    const ids = [...body.matchAll(/"_id":"([^"]*)"/g)].map(([, id]) => id as string);
    await this.#work(host, ids.length * WRITE_MS, request.signal);
    this.#note(ids);
    return json(201, []);
  }

  #note(ids: readonly string[]): void {
    for (const id of ids) {
      this.#written.add(id);
      this.#writtenAtMs[this.#written.size] = this.#time.nowMs;
    }
  }
}

/** Document requests in flight, by kind: bulk requests and individual requests. */
const NONE_UNDER_WAY = { _bulk_get: 0, _bulk_docs: 0, read: 0, write: 0 };
type Counted = keyof typeof NONE_UNDER_WAY;

function isCounted(kind: string): kind is Counted {
  return kind in NONE_UNDER_WAY;
}

/** Yields the pieces of a response with one document and its attachment. */
function* multipartDocument(text: string, attachmentBytes: number): Generator<Uint8Array> {
  yield Buffer.from(
    `--mixed\r\ncontent-type: multipart/related; boundary="related"\r\n\r\n` +
      `--related\r\ncontent-type: application/json\r\n\r\n${text}\r\n` +
      `--related\r\ncontent-length: ${attachmentBytes}\r\n\r\n`,
  );
  for (let left = attachmentBytes; left > 0; left -= PIECE_BYTES) {
    yield ZEROS.subarray(0, Math.min(left, PIECE_BYTES));
  }
  yield Buffer.from("\r\n--related--\r\n--mixed--");
}

const REVISION = `1-${"0".repeat(31)}1`;

const idOf = (number: number): string => `film-${String(number).padStart(8, "0")}`;

interface Asked {
  readonly host: string;
  readonly name: string;
  readonly body: string;
  readonly query: Query;
  readonly request: FetchRequest;
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

const json = (status: number, value: unknown): Answer => ({ status, text: JSON.stringify(value) });

async function textOf({ body = "" }: FetchRequest): Promise<string> {
  if (typeof body === "string") return body;
  if (body instanceof Uint8Array) return Buffer.from(body).toString("latin1");
  const chunks: Uint8Array[] = [];
  for await (const chunk of body.stream()) chunks.push(chunk);
  return Buffer.concat(chunks).toString("latin1");
}

function responseOf({ status, text }: Answer): FetchResponse {
  const bytes = Buffer.from(text);
  return {
    status,
    headers: new Map([["content-type", "application/json"]]),
    body: (async function* () {
      for (let start = 0; start < bytes.length; start += PIECE_BYTES) {
        yield bytes.subarray(start, start + PIECE_BYTES);
      }
    })(),
    discard: () => {},
  };
}
