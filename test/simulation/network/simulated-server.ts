/**
 * A node that serves the API to other nodes with the real code. Requests for damaged documents
 * fail, both individual and bulk requests.
 */
import { setMaxListeners } from "node:events";
import { checkpointRoutes, createApi, UuidSource } from "../../../src/api/index.ts";
import { DesignCodes } from "../../../src/documents/index.ts";
import { parseMultipart } from "../../../src/host/http/multipart-parser.ts";
import type { FetchRequest } from "../../../src/http-client/index.ts";
import { BatchReader } from "../../../src/protocol/index.ts";
import { ADMIN, SETTINGS } from "../../api/api-settings.ts";
import type { composeNode } from "../../support/compose-node.ts";
import { type Answer, plainAnswer, textOf } from "./simulated-network.ts";
import { SYNCHRONOUS_SANDBOX } from "./synchronous-sandbox.ts";

export const SERVER_HOST = "server.test:5984";
export const SERVER_URL = `http://${SERVER_HOST}`;

/** Requests that read or write documents with a matching name fail until all faults are healed. */
const DAMAGED = /^damaged-/;

export class SimulatedServer {
  readonly #api;
  readonly #signal = new AbortController().signal;
  #isDamaged = true;

  constructor({
    runtime,
    kv,
    databases,
    attachments,
    indexes,
    indexBuilds,
  }: ReturnType<typeof composeNode>) {
    setMaxListeners(0, this.#signal);
    this.#api = createApi({
      runtime,
      kv,
      databases,
      attachments,
      indexes,
      indexBuilds,
      uuids: new UuidSource(runtime, SETTINGS),
      parseMultipart,
      functions: {
        runtime,
        sandbox: SYNCHRONOUS_SANDBOX,
        timeoutMs: 1000,
        codes: new DesignCodes(),
      },
      authenticate: async () => ADMIN,
      server: {
        version: "3.5.0",
        vendor: { name: "Tandem", version: "0.1.0" },
        uuid: "0".repeat(32),
        nodeName: "server",
      },
      isUp: () => true,
      isFull: () => false,
      pausingOf: () => ({}),
      compaction: { start: () => {}, isRunning: () => false },
      hashPasswords: async (edits) => edits,
      haltedRuns: { hasJobs: () => false, settledAfter: (call) => call() },
      settings: { ...SETTINGS, compressesResponses: false },
      cors: () => undefined,
      routes: checkpointRoutes({ kv, databases }),
    });
  }

  heal(): void {
    this.#isDamaged = false;
  }

  async serve(request: FetchRequest): Promise<Answer> {
    if (this.#isDamaged && isOverDamaged(request)) {
      return plainAnswer(500, '{"error":"internal_server_error","reason":"badmatch"}');
    }
    const { method, url, headers = {}, body } = request;
    const { pathname, searchParams, host } = new URL(url);
    const response = await this.#api({
      method,
      path: pathname.replace(/(.)\/$/, "$1"),
      query: new Map(searchParams),
      headers: new Map([...Object.entries(headers), ["host", host]]),
      body: pieces(await bytesOf(body)),
      peer: "127.0.0.1",
      isSecure: false,
      signal: this.#signal,
    });
    const chunks: Uint8Array[] = [];
    if (typeof response.body === "string" || response.body instanceof Uint8Array) {
      chunks.push(Buffer.from(response.body));
    } else if (response.body !== undefined) {
      for await (const piece of response.body) chunks.push(Buffer.from(piece));
    }
    const type = response.headers["Content-Type"] ?? response.headers["content-type"] ?? "";
    const { Server: server = "" } = response.headers;
    return { status: response.status, headers: { server }, type, bytes: Buffer.concat(chunks) };
  }
}

/** Returns whether the request reads or writes a document whose name matches `DAMAGED`. */
function isOverDamaged({ url, body }: Pick<FetchRequest, "url" | "body">): boolean {
  const { pathname, searchParams } = new URL(url);
  const name = pathname.split("/").at(-1) ?? "";
  if (searchParams.has("open_revs")) return DAMAGED.test(name);
  if (name === "_batch") {
    const messages = new BatchReader().push(body as Uint8Array);
    return messages.some(({ head, body: own }) =>
      isOverDamaged({ url: SERVER_URL + head.path, body: own }),
    );
  }
  if (name !== "_bulk_get" && name !== "_bulk_docs") return false;
  const { docs } = JSON.parse(textOf(body)) as { docs: { id?: string; _id?: string }[] };
  return docs.some(({ id, _id }) => DAMAGED.test(id ?? _id ?? ""));
}

async function bytesOf(body: FetchRequest["body"]): Promise<Uint8Array> {
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) {
    return Buffer.from(body ?? "");
  }
  const chunks: Uint8Array[] = [];
  for await (const chunk of body.stream()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function* pieces(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  if (bytes.length > 0) yield bytes;
}
