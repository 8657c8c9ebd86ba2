/**
 * `POST /_tandem/_batch`: processes batched requests of replicators and returns responses as they
 * complete (decision 304). Each request is processed as if the sender of the batch had sent it
 * individually. CouchDB has no counterpart.
 */
import {
  append,
  type Clock,
  concatBytes,
  EMPTY_BYTES,
  Notifier,
  utf8Encode,
  waitAtMost,
} from "../../base/index.ts";
import {
  BATCH_BODY_BYTES_MAX,
  BATCH_TYPE,
  type BatchMessage,
  BatchReader,
  badRequest,
  batchMessage,
  ProtocolError,
  parseQuery,
} from "../../protocol/index.ts";
import type { ApiParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiRequest, ApiResponse, User } from "../http/exchange.ts";
import { readBody } from "../http/request-body.ts";
import { PUBLIC } from "../http/route-facts.ts";
import { defineRoute, type Route, splitPath } from "../http/router.ts";

/** Maximum size of a batch, which is buffered until its end. */
const BATCH_BYTES_MAX = 2 * 1024 * 1024;
/**
 * Maximum total size of the responses that have not been sent yet. Requests whose responses do not
 * fit must be repeated individually.
 */
const ANSWERS_BYTES_MAX = 1024 * 1024;
/** Heartbeat interval while a response is pending. */
const HEARTBEAT_MS = 10_000;

/**
 * Headers that requests do not inherit from the batch. All others, which identify the sender and
 * its proxies, are inherited.
 */
const BODY_HEADERS = [
  "accept",
  "accept-encoding",
  "content-encoding",
  "content-length",
  "content-type",
];
/**
 * Headers that a request in a batch is allowed to have. With other headers, the request could
 * appear to have passed through a proxy.
 */
const OWN_HEADERS: ReadonlySet<string> = new Set(["accept", "content-type"]);

/** Processes the requests of a batch as if they were sent individually. */
export interface BatchMembers {
  /** Answers a request of an authenticated user. */
  answer(request: ApiRequest, user: User, requestId: string): Promise<ApiResponse>;
  /** Whether the route of the decoded path is allowed in a batch. */
  isBatched(method: string, segments: readonly string[]): boolean;
  /** Methods and paths of all routes that are allowed in a batch. */
  batched(): readonly string[];
}

type BatchParts = Pick<ApiParts, "runtime" | "settings">;

export function batchRoutes(parts: BatchParts, members: BatchMembers): readonly Route[] {
  return [
    defineRoute("POST", "/_tandem/_batch", { ...PUBLIC, admission: "free" }, async (call) => {
      const requests = await readRequests(parts, members, call);
      const { renewedCookie: _, ...user } = call.user;
      const signals = followers(call.request.signal, requests.length);
      const answers = requests.map((request, number) =>
        members.answer(
          { ...request, signal: signals[number] as AbortSignal },
          user,
          call.requestId,
        ),
      );
      const body = new BatchAnswers(parts.runtime.clock, call.request.signal).of(answers);
      return { status: 200, headers: { "Content-Type": BATCH_TYPE }, body };
    }),
  ];
}

async function readRequests(
  { settings }: BatchParts,
  members: BatchMembers,
  call: Call,
): Promise<readonly ApiRequest[]> {
  const type = call.request.headers.get("content-type");
  if (type !== BATCH_TYPE) {
    throw new ProtocolError(415, "bad_content_type", `Content-Type must be ${BATCH_TYPE}`);
  }
  const reader = new BatchReader();
  const messages = reader.push(await readBody(call, "question", BATCH_BYTES_MAX));
  if (!reader.isWhole) throw badRequest("The batch ends inside a message");
  const shared = new Map(call.request.headers);
  for (const name of BODY_HEADERS) shared.delete(name);
  return messages.map((message, number) => {
    const request = requestOf(call, shared, message, number);
    const { method, path, query } = request;
    const isFeed = (query.get("feed") ?? "normal") !== "normal";
    if (isFeed || !members.isBatched(method, splitPath(path, settings))) {
      const known = members.batched().join(", ");
      throw badRequest(
        `${method} ${path} is not allowed in a batch (message ${number}); allowed are ${known}, without a feed`,
      );
    }
    return request;
  });
}

/** Parses a request of a batch. Throws a ProtocolError 400 if it is not permitted in a batch. */
function requestOf(
  call: Call,
  shared: ReadonlyMap<string, string>,
  { head, body }: BatchMessage,
  number: number,
): ApiRequest {
  const { method, path: target, headers: own = {} } = head;
  if (typeof method !== "string" || typeof target !== "string" || !target.startsWith("/")) {
    throw badRequest(`Message ${number} of the batch needs a \`method\` and a \`path\``);
  }
  if (typeof own !== "object" || own === null || Array.isArray(own)) {
    throw badRequest(`The \`headers\` of message ${number} of the batch must be an object`);
  }
  const question = target.indexOf("?");
  const path = question < 0 ? target : target.slice(0, question);
  const parsed = parseQuery(question < 0 ? "" : target.slice(question + 1));
  if (parsed === undefined) throw badRequest(`The query string of message ${number} is not UTF-8`);
  const headers = new Map(shared);
  for (const [name, value] of Object.entries(own)) {
    const isOwn = OWN_HEADERS.has(name.toLowerCase()) && typeof value === "string";
    if (!isOwn) {
      const names = [...OWN_HEADERS].join(" and ");
      throw badRequest(
        `\`headers\` of message ${number} has ${name}; allowed are the strings ${names}`,
      );
    }
    headers.set(name.toLowerCase(), value);
  }
  headers.set("content-length", String(body.length));
  return { ...call.request, method, path, ...parsed, headers, body: once(body) };
}

/**
 * Creates `count` signals that abort with `signal`, one per request of a batch: listeners for a
 * hundred requests on a single signal would cause a warning by Node.js.
 */
function followers(signal: AbortSignal, count: number): readonly AbortSignal[] {
  const controllers = Array.from({ length: count }, () => new AbortController());
  const abortAll = (): void => {
    for (const controller of controllers) controller.abort(signal.reason);
  };
  if (signal.aborted) abortAll();
  else signal.addEventListener("abort", abortAll, { once: true });
  return controllers.map((controller) => controller.signal);
}

/** The responses of a batch, in order of completion. */
class BatchAnswers {
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #ended = new Notifier();
  #messages: Uint8Array[] = [];
  #leftCount = 0;
  /** Total number of bytes of queued messages and of responses that are being read. */
  #heldCount = 0;

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock;
    this.#signal = signal;
  }

  async *of(answers: readonly Promise<ApiResponse>[]): AsyncGenerator<Uint8Array, void> {
    this.#leftCount = answers.length;
    for (const [number, answer] of answers.entries()) void this.#take(number, answer);
    while (this.#leftCount > 0 || this.#messages.length > 0) {
      await waitAtMost(this.#clock, HEARTBEAT_MS, this.#signal, (over) =>
        this.#ended.notified(over),
      );
      this.#signal.throwIfAborted();
      const messages = concatBytes(this.#messages);
      this.#messages = [];
      yield messages.length === 0 ? HEARTBEAT : messages;
      this.#heldCount -= messages.length;
    }
  }

  async #take(number: number, answer: Promise<ApiResponse>): Promise<void> {
    const { status, headers, body } = await answer;
    const bytes = await this.#wholeBody(body);
    const head = bytes === undefined ? { alone: true } : { status, headers };
    const message = batchMessage({ request: number, ...head }, bytes ?? EMPTY_BYTES);
    append(this.#messages, message);
    // The size of the body has already been counted.
    this.#heldCount += message[0]?.length ?? 0;
    this.#leftCount--;
    this.#ended.notify();
  }

  /**
   * Reads the body of a response. Returns `undefined` if it is too long or incomplete; the client
   * then sends the request again outside of a batch.
   */
  async #wholeBody(body: ApiResponse["body"]): Promise<Uint8Array | undefined> {
    if (body === undefined) return EMPTY_BYTES;
    const pieces: Uint8Array[] = [];
    let byteCount = 0;
    let isTooLong = false;
    try {
      for await (const piece of isStream(body) ? body : [body]) {
        const bytes = typeof piece === "string" ? utf8Encode(piece) : piece;
        pieces.push(bytes);
        byteCount += bytes.length;
        this.#heldCount += bytes.length;
        isTooLong = byteCount > BATCH_BODY_BYTES_MAX || this.#heldCount > ANSWERS_BYTES_MAX;
        if (isTooLong) break;
      }
      if (!isTooLong) return concatBytes(pieces);
    } catch {
      // The response was cut off, so it counts as incomplete.
    }
    this.#heldCount -= byteCount;
    return undefined;
  }
}

const HEARTBEAT = utf8Encode("\n");

function isStream(
  body: NonNullable<ApiResponse["body"]>,
): body is AsyncIterable<Uint8Array | string> {
  return typeof body !== "string" && !(body instanceof Uint8Array);
}

async function* once(body: Uint8Array): AsyncGenerator<Uint8Array, void> {
  if (body.length > 0) yield body;
}
