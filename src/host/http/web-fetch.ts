/** Serves an `Api` to callers in the same process, with the web's `Request` and `Response`. */
import type { Api, ApiRequest, ApiResponse } from "../../api/index.ts";
import { abortable, abortWith, ServerStoppingError } from "../../base/index.ts";
import { parseQuery } from "../../protocol/index.ts";
import { QUERY_UNREADABLE } from "./node-server.ts";

/** Base of relative URLs, and the `Host` of their requests. */
const BASE = "http://localhost/";
/** Client address of requests whose sender is not given. */
const OWN_ADDRESS = "127.0.0.1";

/** Statuses whose responses have no body. */
const BODILESS: ReadonlySet<number> = new Set([101, 204, 205, 304]);

export interface WebRequestInit extends RequestInit {
  /** Address of the client on whose behalf the request is made. Default: the loopback address. */
  readonly peer?: string;
}

/** A function like the global `fetch`, with requests to the API only. URLs may be relative. */
export type WebFetch = (input: Request | string | URL, init?: WebRequestInit) => Promise<Response>;

export class WebRequests {
  readonly #api: Api;
  readonly #unanswered = new Set<AbortController>();
  #isStopped = false;

  constructor(api: Api) {
    this.#api = api;
  }

  readonly fetch: WebFetch = async (input, { peer = OWN_ADDRESS, ...init } = {}) => {
    const request = requestOf(input, init);
    request.signal.throwIfAborted();
    const controller = new AbortController();
    const unfollow = abortWith(request.signal, controller);
    const settle = (): void => {
      unfollow();
      this.#unanswered.delete(controller);
    };
    if (this.#isStopped) controller.abort(new ServerStoppingError());
    this.#unanswered.add(controller);
    const { signal } = controller;
    const asked = apiRequestOf(request, peer, signal);
    const answered = asked === undefined ? Promise.resolve(QUERY_UNREADABLE) : this.#api(asked);
    try {
      const response = await abortable(answered, request.signal);
      return webResponse(response, request.method, controller, settle);
    } catch (error) {
      settle();
      // The caller gets `error`. A later response is therefore discarded, and a later failure is
      // ignored.
      void answered.then(discard).catch(() => {});
      throw error;
    }
  };

  /** Ends feeds. Requests that begin later are refused. */
  stop(): void {
    this.#isStopped = true;
    for (const controller of this.#unanswered) controller.abort(new ServerStoppingError());
  }
}

function requestOf(input: Request | string | URL, init: RequestInit): Request {
  if (typeof input !== "string" && !(input instanceof URL)) {
    return Object.keys(init).length === 0 ? input : new Request(input, init);
  }
  return new Request(new URL(input, BASE), init);
}

/** Converts a request. Returns `undefined` if the query string is not UTF-8. */
function apiRequestOf(request: Request, peer: string, signal: AbortSignal): ApiRequest | undefined {
  const url = new URL(request.url);
  const parsed = parseQuery(url.search.slice(1));
  if (parsed === undefined) return undefined;
  const headers = new Map([["host", url.host], ...request.headers]);
  return {
    method: request.method,
    path: url.pathname,
    ...parsed,
    headers,
    body: request.body ?? nothing(),
    peer,
    isSecure: url.protocol === "https:",
    signal,
  };
}

function webResponse(
  { status, headers, body }: ApiResponse,
  method: string,
  controller: AbortController,
  settle: () => void,
): Response {
  const shown = new Headers(headers);
  const isBodiless = BODILESS.has(status) || method === "HEAD";
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) {
    settle();
    if (!isBodiless) shown.set("content-length", String(Buffer.byteLength(body ?? "")));
    return new Response(isBodiless ? null : (body ?? ""), { status, headers: shown });
  }
  return new Response(streamOf(body, controller, settle), { status, headers: shown });
}

/** Returns a stream that pulls the pieces on demand. Cancelling the stream aborts the request. */
function streamOf(
  pieces: AsyncIterable<Uint8Array | string>,
  controller: AbortController,
  settle: () => void,
): ReadableStream<Uint8Array> {
  const iterator = pieces[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  return new ReadableStream<Uint8Array>(
    {
      async pull(sink) {
        try {
          const { done, value } = await iterator.next();
          const { signal } = controller;
          // The feed of an aborted request ends like a complete one, so throw an error here.
          if (signal.aborted && !(signal.reason instanceof ServerStoppingError))
            throw signal.reason;
          if (done !== true) {
            sink.enqueue(typeof value === "string" ? encoder.encode(value) : value);
            return;
          }
          settle();
          sink.close();
        } catch (error) {
          settle();
          throw controller.signal.aborted ? controller.signal.reason : error;
        }
      },
      async cancel(reason) {
        controller.abort(reason ?? new Error("The client has disconnected"));
        settle();
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

async function discard({ body }: ApiResponse): Promise<void> {
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) return;
  await body[Symbol.asyncIterator]().return?.();
}

async function* nothing(): AsyncGenerator<Uint8Array, void, undefined> {}
