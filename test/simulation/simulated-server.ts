/**
 * A node that serves the API to the others, over a network that is slow, loses requests and answers, breaks answers off, and lets a
 * server take half of what it was sent; and a server that fails over some documents, alone or with others. Client and server are the real code on both sides; what is between them is a function.
 */
import { setMaxListeners } from "node:events";
import { createApi } from "../../src/api/index.ts";
import { AttachmentStore } from "../../src/databases/index.ts";
import { parseMultipart } from "../../src/host/multipart-parser.ts";
import {
  type Fetch,
  type FetchRequest,
  type FetchResponse,
  RequestFailedError,
} from "../../src/http-client/index.ts";
import { ValidationCodes } from "../../src/replicator/index.ts";
import { ADMIN, bodyBytes, SETTINGS } from "../api/api.fixture.ts";
import type { composeNode } from "../support/compose-node.ts";
import type { SeededRandom } from "./kernel/seeded-random.ts";
import type { SimulatedNode } from "./kernel/simulated-node.ts";

export const SERVER_URL = "http://server.test:5984";

/** Of the requests while the network is bad. */
const FAULT_RATIO = 0.2;
const FAULTS = ["lost", "unanswered", "broken off", "half taken", "503", "429"] as const;
const LATENCY_MS_MAX = 40;
/** Documents of this name make the server fail when they are read or written, until all is healed. */
const DAMAGED = /^damaged-/;

export class SimulatedServer {
  readonly #api;
  readonly #random: SeededRandom;
  readonly #signal = new AbortController().signal;
  #isBad = true;
  /** How often something was done to a request. */
  faultCount = 0;

  constructor({ runtime, kv, databases }: ReturnType<typeof composeNode>, random: SeededRandom) {
    this.#random = random;
    setMaxListeners(0, this.#signal);
    const withoutFunctions = async (): Promise<never> => {
      throw new Error("No functions here");
    };
    this.#api = createApi({
      runtime,
      kv,
      databases,
      attachments: new AttachmentStore({ runtime, kv }),
      parseMultipart,
      functions: {
        sandbox: { open: withoutFunctions } as never,
        timeoutMs: 1000,
        validationCodes: new ValidationCodes(),
      },
      authenticate: async () => ADMIN,
      server: {
        version: "3.5.0",
        vendor: { name: "Tandem", version: "0.1.0" },
        uuid: "0".repeat(32),
        nodeName: "server",
      },
      isUp: () => true,
      hashPasswords: async (edits) => edits,
      settings: { ...SETTINGS, compressesResponses: false },
      cors: () => undefined,
      routes: [],
    });
  }

  heal(): void {
    this.#isBad = false;
  }

  /** The network as this node has it. A node that is paused neither sends nor receives. */
  fetchFrom({ runtime }: SimulatedNode): Fetch {
    return async (request) => {
      setMaxListeners(0, request.signal);
      const fault = this.#draw(request);
      const pause = () =>
        runtime.clock.sleep(this.#random.ratio() * LATENCY_MS_MAX, request.signal);
      const { method, url } = request;
      const failed = () => new RequestFailedError({ method, url, cause: "ECONNRESET" });
      await pause();
      if (fault === "lost") throw failed();
      if (fault === "503" || fault === "429") return answerOf(Number(fault), "{}");
      if (this.#isBad && isOverDamaged(request))
        return answerOf(500, '{"error":"internal_server_error","reason":"badmatch"}');
      const half = fault === "half taken" ? halfOf(request) : undefined;
      const { status, body } = await this.#serve(
        half === undefined ? request : { ...request, body: half },
      );
      await pause();
      if (fault === "unanswered" || half !== undefined) throw failed();
      return answerOf(status, body, fault === "broken off" ? failed : undefined);
    };
  }

  #draw({ url }: FetchRequest): (typeof FAULTS)[number] | undefined {
    if (!this.#isBad || !this.#random.chance(FAULT_RATIO)) return undefined;
    this.faultCount++;
    return url.endsWith("/_bulk_docs")
      ? this.#random.pick(FAULTS)
      : this.#random.pick(FAULTS.slice(0, 3));
  }

  async #serve({ method, url, headers = {}, body }: FetchRequest) {
    const { pathname, searchParams } = new URL(url);
    const bytes = await bytesOf(body);
    const response = await this.#api({
      method,
      path: pathname.replace(/(.)\/$/, "$1"),
      query: new Map(searchParams),
      headers: new Map([...Object.entries(headers), ["host", "server.test:5984"]]),
      body: pieces(bytes),
      peer: "127.0.0.1",
      signal: this.#signal,
    });
    const chunks: Uint8Array[] = [];
    if (typeof response.body === "string" || response.body instanceof Uint8Array) {
      chunks.push(Buffer.from(response.body));
    } else if (response.body !== undefined) {
      for await (const piece of response.body) chunks.push(Buffer.from(piece));
    }
    const type = response.headers["Content-Type"] ?? response.headers["content-type"] ?? "";
    return { status: response.status, body: { type, bytes: Buffer.concat(chunks) } };
  }
}

/** Whether documents are read or written of which one is damaged. */
function isOverDamaged({ url, body }: FetchRequest): boolean {
  const { pathname, searchParams } = new URL(url);
  const name = pathname.split("/").at(-1) ?? "";
  if (searchParams.has("open_revs")) return DAMAGED.test(name);
  if (name !== "_bulk_get" && name !== "_bulk_docs") return false;
  const { docs } = JSON.parse(String(body)) as { docs: { id?: string; _id?: string }[] };
  return docs.some(({ id, _id }) => DAMAGED.test(id ?? _id ?? ""));
}

async function bytesOf(body: FetchRequest["body"]): Promise<Uint8Array> {
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) {
    return bodyBytes(body ?? "");
  }
  const chunks: Uint8Array[] = [];
  for await (const chunk of body.stream()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function* pieces(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  if (bytes.length > 0) yield bytes;
}

/** A `_bulk_docs` with the first half of its documents. */
function halfOf({ body }: FetchRequest): string {
  const { docs, ...rest } = JSON.parse(String(body)) as { docs: unknown[] };
  return JSON.stringify({ ...rest, docs: docs.slice(0, Math.ceil(docs.length / 2)) });
}

function answerOf(
  status: number,
  body: string | { readonly type: string; readonly bytes: Uint8Array },
  breakingOff?: () => Error,
): FetchResponse {
  const { type, bytes } =
    typeof body === "string" ? { type: "application/json", bytes: Buffer.from(body) } : body;
  return {
    status,
    headers: new Map([["content-type", type]]),
    body: (async function* () {
      if (breakingOff === undefined) yield* pieces(bytes);
      else {
        yield* pieces(bytes.subarray(0, bytes.length / 2));
        throw breakingOff();
      }
    })(),
    discard: () => {},
  };
}
