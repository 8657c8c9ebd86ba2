/** The API on the in-memory engine, called without a socket. */
import {
  type Api,
  type ApiParts,
  type ApiRequest,
  checkpointRoutes,
  createApi,
  pausingOf,
  type User,
  UuidSource,
} from "../../src/api/index.ts";
import type { Runtime } from "../../src/base/index.ts";
import { AttachmentStore, type DatabaseHook, DatabaseRegistry } from "../../src/databases/index.ts";
import { DesignCodes, VALIDATION_HOOK } from "../../src/documents/index.ts";
import { parseMultipart } from "../../src/host/http/multipart-parser.ts";
import { SandboxPool } from "../../src/host/sandbox/pool.ts";
import { createSystemRuntime } from "../../src/host/system/runtime.ts";
import { IndexBuilds, Indexes } from "../../src/indexes/index.ts";
import { Jobs } from "../../src/jobs/index.ts";
import { type Engine, KeyValueStore, MemoryEngine, Subspace } from "../../src/kv/index.ts";
import { type ParsedQuery, parseQuery } from "../../src/protocol/index.ts";
import { ADMIN, SETTINGS } from "./api-settings.ts";

export { ADMIN, SETTINGS };

export interface AskOptions {
  /** Body of the request. Strings and bytes are sent unchanged, other values as JSON. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Buffer;
  readonly text: string;
  /** The parsed body, or `undefined` if it is not JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  readonly json: any;
}

/** Recipient of a test's requests: this API or a real CouchDB. */
export interface Asked {
  /** Sends a request such as `GET /films?limit=1`. */
  ask(request: string, options?: AskOptions): Promise<Answer>;
}

export interface OpenApi extends Asked {
  readonly api: Api;
  /** The components below the API. */
  readonly parts: ApiParts;
  readonly runtime: Runtime;
  readonly events: readonly { readonly name: string }[];
  /** Streams the body of the response. */
  stream(request: string, options?: AskOptions): Promise<AsyncIterator<string>>;
}

export async function openApi({
  user = ADMIN,
  hooks = [],
  parts = {},
  wrapEngine = (engine) => engine,
  keepOldBodiesMs = () => 0,
  nowMs,
  functionMs = 1_000,
}: {
  readonly user?: User;
  readonly hooks?: readonly DatabaseHook[];
  readonly parts?: Partial<ApiParts>;
  readonly wrapEngine?: (engine: Engine) => Engine;
  readonly keepOldBodiesMs?: () => number;
  /** The wall clock. Default: the system's. */
  readonly nowMs?: () => number;
  /** Time limit of a function or selector for one document. */
  readonly functionMs?: number;
} = {}): Promise<OpenApi> {
  const events: { name: string }[] = [];
  const system = createSystemRuntime({
    event: (name, fields) => events.push({ name, ...fields }),
  });
  const runtime = nowMs === undefined ? system : { ...system, clock: { ...system.clock, nowMs } };
  const kv = new KeyValueStore({ runtime, engine: wrapEngine(new MemoryEngine({ runtime })) });
  // No node executes jobs, so `scheduleBuild` does nothing, and each query builds its own index.
  const functions = {
    runtime,
    sandbox: sandboxes(runtime),
    timeoutMs: functionMs,
    codes: new DesignCodes(),
  };
  const indexes = new Indexes({ runtime, functions, scheduleBuild: async () => {} });
  const databases = new DatabaseRegistry({
    runtime,
    root: Subspace.fromTuple([1]),
    hooks: [...hooks, VALIDATION_HOOK, indexes.hook],
    keepOldBodiesMs,
  });
  const jobs = new Jobs(runtime, Subspace.fromTuple([2]));
  const attachments = new AttachmentStore({ runtime, kv });
  const all: ApiParts = {
    runtime,
    kv,
    databases,
    attachments,
    indexes,
    indexBuilds: new IndexBuilds({ runtime, kv, jobs, databases, indexes }),
    uuids: new UuidSource(runtime, parts.settings ?? SETTINGS),
    parseMultipart,
    functions: { ...functions, runtime: parts.runtime ?? runtime },
    authenticate: async () => user,
    server: {
      version: "3.5.0",
      vendor: { name: "Tandem", version: "0.1.0" },
      uuid: "0123456789abcdef0123456789abcdef",
      nodeName: "tandem@test",
    },
    isUp: () => true,
    isFull: () => false,
    pausingOf,
    compaction: { start: () => {}, isRunning: () => false },
    hashPasswords: async (edits) => edits,
    settings: SETTINGS,
    cors: () => undefined,
    haltedRuns: { hasJobs: () => false, settledAfter: (call) => call() },
    routes: checkpointRoutes({ kv, databases }),
    ...parts,
  };
  const api = createApi(all);
  const send = (request: string, options: AskOptions = {}) => api(requestOf(request, options));
  return {
    api,
    parts: all,
    runtime,
    events,
    async ask(request, options) {
      const { status, headers, body } = await send(request, options);
      const chunks: Buffer[] = [];
      if (typeof body === "string" || body instanceof Uint8Array) chunks.push(Buffer.from(body));
      else if (body !== undefined) for await (const piece of body) chunks.push(Buffer.from(piece));
      const bytes = Buffer.concat(chunks);
      const text = bytes.toString();
      return { status, headers, bytes, text, json: parsed(text) };
    },
    async stream(request, options) {
      const { status, body } = await send(request, options);
      if (typeof body !== "object" || body instanceof Uint8Array) {
        throw new Error(`Expected a stream, received ${status} ${body}`);
      }
      return texts(body)[Symbol.asyncIterator]();
    },
  };
}

/** Opens the API and creates a database `films`. */
export async function openFilms(...options: Parameters<typeof openApi>): Promise<OpenApi> {
  const api = await openApi(...options);
  await api.ask("PUT /films");
  return api;
}

/**
 * Sandbox pool shared by all tests of a process. Its threads start on demand and end with the
 * process.
 */
let pool: SandboxPool | undefined;

function sandboxes(runtime: Runtime): SandboxPool {
  pool ??= new SandboxPool(runtime);
  return pool;
}

function requestOf(request: string, { body, headers = {}, signal }: AskOptions): ApiRequest {
  const space = request.indexOf(" ");
  const target = request.slice(space + 1);
  const question = target.indexOf("?");
  const bytes = bodyBytes(body);
  const named = new Map(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
  );
  if (body !== undefined && !named.has("content-type")) {
    named.set("content-type", "application/json");
  }
  named.set("host", "127.0.0.1:5984");
  return {
    method: request.slice(0, space),
    path: question < 0 ? target : target.slice(0, question),
    ...(parseQuery(question < 0 ? "" : target.slice(question + 1)) as ParsedQuery),
    headers: named,
    body: (async function* () {
      for (let start = 0; start < bytes.length; start += 10_000) {
        yield bytes.subarray(start, start + 10_000);
      }
    })(),
    peer: "127.0.0.1",
    isSecure: false,
    signal: signal ?? new AbortController().signal,
  };
}

export function bodyBytes(body: AskOptions["body"]): Buffer {
  if (typeof body === "string" || body instanceof Uint8Array) return Buffer.from(body);
  return Buffer.from(body === undefined ? "" : JSON.stringify(body));
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function* texts(body: AsyncIterable<Uint8Array | string>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  for await (const piece of body) {
    yield typeof piece === "string" ? piece : decoder.decode(piece, { stream: true });
  }
}
