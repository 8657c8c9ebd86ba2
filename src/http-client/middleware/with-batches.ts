/**
 * Batches short requests to another Tandem (decision 304). While a request is in progress,
 * additional requests are collected for one turn of the event loop and sent as one batch. This
 * saves most of the cost per request on both sides. Transparent to callers.
 */
import {
  abortable,
  type Clock,
  concatBytes,
  EMPTY_BYTES,
  largest,
  utf8Encode,
} from "../../base/index.ts";
import {
  BATCH_MESSAGES_MAX,
  BATCH_TYPE,
  type BatchMessage,
  BatchReader,
  batchMessage,
  ProtocolError,
} from "../../protocol/index.ts";
import {
  type Fetch,
  type FetchRequest,
  type FetchResponse,
  RequestFailedError,
  type RequestFailure,
} from "../fetch.ts";

/** Maximum size of the body of a batched request. */
const BODY_BYTES_MAX = 65_536;
/** Maximum total length, in bytes, of the request bodies in a batch. */
const BATCH_BYTES_MAX = 1024 * 1024;
/** Time for which no batches are sent to a server that rejected one. */
const REFUSED_MS = 600_000;
/** Time for which no batches are sent to a server after a batch failed. */
const TROUBLED_MS = 60_000;
/** Maximum number of servers remembered. The list is cleared when it is exceeded. */
const SERVERS_MAX = 1_000;

/** Statuses of a server without support for batches, which would reject every later batch too. */
const REFUSALS: ReadonlySet<number> = new Set([400, 404, 405, 413, 415, 501]);

/** Pattern of the `Server` header of a Tandem server. */
const TAKES_BATCHES = /\(Tandem [^)]*\)/;
/** Headers sent with each request of a batch; all others are sent once for the batch. */
const OWN_HEADERS: ReadonlySet<string> = new Set(["accept", "content-type"]);
/** Headers that a Tandem server ignores. */
const IDLE_HEADERS: ReadonlySet<string> = new Set(["x-couch-full-commit"]);
/** Response headers that concern the transport of the batch. */
const BATCH_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "content-type",
  "keep-alive",
  "transfer-encoding",
]);

/** A request that waits for its response. */
interface Member {
  readonly request: FetchRequest;
  readonly root: string;
  readonly body: Uint8Array;
  resolve(response: FetchResponse): void;
  reject(error: unknown): void;
}

/** State of the requests to one server with the same credentials, over the same connections. */
interface Queue {
  waiting: Member[];
  underWayCount: number;
}

/** Batches requests that have a `FetchRequest.batchRoot`. */
export function withBatches(clock: Clock, fetch: Fetch): Fetch {
  const batches = new Batches(clock, fetch);
  return (request) => batches.send(request);
}

class Batches {
  readonly #clock: Clock;
  readonly #fetch: Fetch;
  /**
   * Root URLs of known Tandem servers, each with the monotonic time before which no batches are
   * sent.
   */
  readonly #servers = new Map<string, number>();
  readonly #queues = new Map<string, Queue>();

  constructor(clock: Clock, fetch: Fetch) {
    this.#clock = clock;
    this.#fetch = fetch;
  }

  async send(request: FetchRequest): Promise<FetchResponse> {
    const { batchRoot: root, url, signal } = request;
    const body = shortBody(request);
    // The URL must be below the root, because a redirect might have led to a different server.
    if (root === undefined || body === undefined || !url.startsWith(root)) {
      return this.#fetch(request);
    }
    const fromMs = this.#servers.get(root);
    if (fromMs === undefined) {
      const response = await this.#fetch(request);
      this.#learn(root, response);
      return response;
    }
    if (this.#clock.monotonicMs() < fromMs) return this.#fetch(request);
    signal.throwIfAborted();
    const key = JSON.stringify([root, sharedHeaders(request), request.connection]);
    const queue = this.#queueOf(key);
    if (queue.underWayCount === 0) return this.#underWay(key, queue, () => this.#fetch(request));
    const answer = new Promise<FetchResponse>((resolve, reject) => {
      queue.waiting.push({ request, root, body, resolve, reject });
    });
    if (queue.waiting.length === 1) void this.#sendGathered(key, queue);
    return abortable(answer, signal);
  }

  #learn(root: string, { headers }: FetchResponse): void {
    if (this.#servers.size >= SERVERS_MAX) this.#servers.clear();
    // A response of a gateway for an unreachable server does not show whether the server supports
    // batches.
    if (TAKES_BATCHES.test(headers.get("server") ?? "")) this.#servers.set(root, 0);
  }

  #queueOf(key: string): Queue {
    const known = this.#queues.get(key);
    if (known !== undefined) return known;
    const queue: Queue = { waiting: [], underWayCount: 0 };
    this.#queues.set(key, queue);
    return queue;
  }

  async #underWay<T>(key: string, queue: Queue, work: () => Promise<T>): Promise<T> {
    queue.underWayCount++;
    try {
      return await work();
    } finally {
      queue.underWayCount--;
      this.#forgetIdle(key, queue);
    }
  }

  #forgetIdle(key: string, { underWayCount, waiting }: Queue): void {
    if (underWayCount === 0 && waiting.length === 0) this.#queues.delete(key);
  }

  /** Sends the waiting requests, and those added within one turn of the event loop. */
  async #sendGathered(key: string, queue: Queue): Promise<void> {
    await this.#clock.sleep(0);
    const waiting = queue.waiting.filter(({ request }) => !request.signal.aborted);
    queue.waiting = [];
    for (const members of batchesOf(waiting)) {
      const [first] = members as [Member];
      void this.#underWay(key, queue, () =>
        members.length === 1 ? this.#sendAlone(first) : this.#sendTogether(members),
      );
    }
    this.#forgetIdle(key, queue);
  }

  /** Sends a request unbatched. Resolves when its response has begun or the request has failed. */
  #sendAlone({ request, resolve, reject }: Member): Promise<void> {
    return this.#fetch(request).then(resolve, reject);
  }

  async #sendTogether(members: readonly Member[]): Promise<void> {
    const [{ request, root }] = members as [Member];
    const unanswered = new Map(members.entries());
    const over = new AbortController();
    const leave = (): void => {
      const isAwaited = [...unanswered.values()].some((member) => !member.request.signal.aborted);
      if (!isAwaited) over.abort(new Error("The caller no longer waits for the response"));
    };
    for (const member of members) member.request.signal.addEventListener("abort", leave);
    try {
      const response = await this.#fetch(batchRequest(members, over.signal));
      if (response.status !== 200 || response.headers.get("content-type") !== BATCH_TYPE) {
        response.discard();
        const isLasting = response.status < 400 || REFUSALS.has(response.status);
        this.#refuse(root, isLasting ? REFUSED_MS : TROUBLED_MS);
        await Promise.all(members.map((member) => this.#sendAlone(member)));
        return;
      }
      const alone: Promise<void>[] = [];
      const reader = new BatchReader();
      for await (const piece of response.body) {
        // Rejects data after the last response, because a server could send heartbeats
        // indefinitely.
        if (unanswered.size === 0) throw failed(request, { cause: "BATCH_MALFORMED" });
        for (const message of reader.push(piece)) {
          const number = message.head.request as number;
          const member = unanswered.get(number);
          if (member === undefined) throw failed(request, { cause: "BATCH_MALFORMED" });
          if (message.head.alone === true) alone.push(this.#sendAlone(member));
          else member.resolve(answerOf(response, message, member.request));
          unanswered.delete(number);
        }
      }
      if (unanswered.size > 0) throw failed(request, { cause: "BODY_BROKEN_OFF" });
      await Promise.all(alone);
    } catch (error) {
      if (!over.signal.aborted) this.#refuse(root, TROUBLED_MS);
      for (const member of unanswered.values()) member.reject(failureOf(error, member.request));
    } finally {
      for (const member of members) member.request.signal.removeEventListener("abort", leave);
    }
  }

  #refuse(root: string, durationMs: number): void {
    this.#servers.set(root, this.#clock.monotonicMs() + durationMs);
  }
}

/** Returns the body, or `undefined` if it is too long for a batch or can be sent only once. */
function shortBody({ body }: FetchRequest): Uint8Array | undefined {
  if (body === undefined) return EMPTY_BYTES;
  if (body.length > BODY_BYTES_MAX) return undefined;
  const bytes = typeof body === "string" ? utf8Encode(body) : body;
  return bytes instanceof Uint8Array && bytes.length <= BODY_BYTES_MAX ? bytes : undefined;
}

function* batchesOf(members: readonly Member[]): Generator<readonly Member[]> {
  let batch: Member[] = [];
  let byteCount = 0;
  for (const member of members) {
    byteCount += member.body.length;
    if (batch.length === BATCH_MESSAGES_MAX || byteCount > BATCH_BYTES_MAX) {
      yield batch;
      batch = [];
      byteCount = member.body.length;
    }
    batch.push(member);
  }
  if (batch.length > 0) yield batch;
}

function batchRequest(members: readonly Member[], signal: AbortSignal): FetchRequest {
  const [{ request, root }] = members as [Member];
  const { connection } = request;
  return {
    method: "POST",
    url: `${root}_tandem/_batch`,
    headers: { ...sharedHeaders(request), "content-type": BATCH_TYPE },
    body: concatBytes(members.flatMap(messageOf)),
    inactivityTimeoutMs: largest(members.map((member) => member.request.inactivityTimeoutMs)),
    ...(connection === undefined ? {} : { connection }),
    signal,
  };
}

function messageOf({ request, root, body }: Member): readonly Uint8Array[] {
  const { method, url, headers = {} } = request;
  const own = Object.entries(headers).filter(([name]) => OWN_HEADERS.has(name));
  const path = url.slice(root.length - 1);
  return batchMessage({ method, path, headers: Object.fromEntries(own) }, body);
}

function sharedHeaders({ headers = {} }: FetchRequest): Readonly<Record<string, string>> {
  const shared = Object.entries(headers).filter(
    ([name]) => !OWN_HEADERS.has(name) && !IDLE_HEADERS.has(name),
  );
  return Object.fromEntries(shared);
}

/** Returns the response to one request of the batch. */
function answerOf(
  batch: FetchResponse,
  { head, body }: BatchMessage,
  request: FetchRequest,
): FetchResponse {
  const { status, headers: own } = head;
  if (!Number.isInteger(status) || typeof own !== "object" || own === null) {
    throw failed(request, { cause: "BATCH_MALFORMED" });
  }
  const headers = new Map([...batch.headers].filter(([name]) => !BATCH_HEADERS.has(name)));
  for (const [name, value] of Object.entries(own)) headers.set(name.toLowerCase(), String(value));
  return { status: status as number, headers, body: once(body), discard: () => {} };
}

async function* once(body: Uint8Array): AsyncGenerator<Uint8Array, void> {
  if (body.length > 0) yield body;
}

/** Converts the failure of a batch to a failure of one of its requests. */
function failureOf(error: unknown, request: FetchRequest): unknown {
  if (error instanceof RequestFailedError) return failed(request, error.details, error);
  return error instanceof ProtocolError
    ? failed(request, { cause: "BATCH_MALFORMED" }, error)
    : error;
}

function failed(
  { method, url }: FetchRequest,
  failure: Omit<RequestFailure, "method" | "url">,
  error?: RequestFailedError | ProtocolError,
): RequestFailedError {
  const options = error === undefined ? {} : { cause: error };
  const details = { ...failure, method, url: url.replace(/\?.*$/s, "") };
  return new RequestFailedError(details, options);
}
