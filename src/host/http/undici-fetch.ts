/** Implements the `Fetch` interface with undici. */
import { setMaxListeners } from "node:events";
import { Readable } from "node:stream";
import { type Dispatcher, errors } from "undici";
import {
  EgressRefusedError,
  type Fetch,
  type FetchRequest,
  type FetchResponse,
  RequestFailedError,
  SecretsInUse,
} from "../../http-client/index.ts";
import { percentDecode, stripCredentials } from "../../protocol/index.ts";
import { type ConnectTo, targetOf, urlOfAddress } from "./connect-to.ts";
import { EgressGuard, type Resolve, serverOf } from "./egress-guard.ts";
import type { EgressRules } from "./egress-rules.ts";
import { faultOfProxy, textOfProxy } from "./proxy-fault.ts";
import { UndiciDispatchers } from "./undici-dispatchers.ts";

/** Maximum idle time of a connection; CouchDB's default of `connection_close_interval`. */
const IDLE_MS_MAX = 90_000;

const NO_OVERRIDES: readonly ConnectTo[] = [];

/**
 * Maximum number of informational (1xx) responses, because each response restarts the header
 * timeout.
 */
const INFORMATIONAL_MAX = 10;

export interface UndiciFetch {
  readonly fetch: Fetch;
  /** Closes all connections. */
  close(): Promise<void>;
}

export interface UndiciFetchOptions {
  /**
   * Returns the maximum idle time of a connection (`connection_close_interval`). Called per
   * request.
   */
  readonly idleMsMax?: () => number;
  /**
   * Returns the egress rules; the same object while they are unchanged. Called for each request and
   * each connection.
   */
  readonly egressRules?: () => EgressRules;
  /**
   * Returns the address overrides; the same array while they are unchanged. Called for each
   * request.
   */
  readonly connectTo?: () => readonly ConnectTo[];
  /** Resolver used if there are egress rules. Default: the system's resolver. */
  readonly resolve?: Resolve;
}

export function openUndiciFetch({
  idleMsMax = () => IDLE_MS_MAX,
  egressRules,
  connectTo = () => NO_OVERRIDES,
  resolve,
}: UndiciFetchOptions = {}): UndiciFetch {
  const guard = egressRules && new EgressGuard(egressRules, resolve);
  const dispatchers = new UndiciDispatchers({ idleMsMax, connectTo, guard });
  return {
    fetch: async (request) => {
      const { url, connection = {} } = request;
      if (guard !== undefined) {
        const overrides = connectTo();
        // Parses the URL only if there are overrides, because parsing is slow. Most nodes have no
        // overrides.
        const target = overrides.length === 0 ? undefined : targetOf(overrides, serverOf(url));
        guard.checkRequest(url, connection.proxyUrl ?? (target && urlOfAddress(target)));
      }
      return send(dispatchers.of(connection), request);
    },
    close: () => dispatchers.close(),
  };
}

async function send(dispatcher: Dispatcher, request: FetchRequest): Promise<FetchResponse> {
  const { method, url, headers, body, inactivityTimeoutMs, signal } = request;
  signal.throwIfAborted();
  // Disables the warning about many listeners: all requests of a job listen to the same signal.
  setMaxListeners(0, signal);
  const sent = bodyOf(body);
  const sentHeaders: Record<string, string> = { ...headers };
  if (body === undefined && (method === "PUT" || method === "POST")) {
    sentHeaders["content-length"] = "0";
  } else if (typeof body === "object" && !(body instanceof Uint8Array)) {
    sentHeaders["content-length"] = String(body.length);
  }
  try {
    // Split without the URL parser, which would resolve a document id such as `..`.
    const [, origin = url, path = "/"] = /^(https?:\/\/[^/?#]*)(.*)$/is.exec(url) ?? [];
    const answer = await dispatcher.request({
      origin,
      path: path.startsWith("/") ? path : `/${path}`,
      method,
      headers: sentHeaders,
      body: sent ?? null,
      headersTimeout: inactivityTimeoutMs,
      bodyTimeout: inactivityTimeoutMs,
      signal,
      onInfo: informationalLimit(),
    });
    const received = new Map<string, string>();
    for (const [name, value] of Object.entries(answer.headers)) {
      if (value !== undefined) received.set(name, Array.isArray(value) ? value.join(", ") : value);
    }
    return {
      status: answer.statusCode,
      headers: received,
      body: readBody(request, answer.body),
      discard: () => {
        // The body may still emit an error after it is destroyed, and has no other listener for
        // errors.
        answer.body.on("error", () => {}).destroy();
      },
    };
  } catch (error) {
    throw failureOf(request, error);
  }
}

function informationalLimit(): () => void {
  let count = 0;
  return () => {
    count++;
    if (count <= INFORMATIONAL_MAX) return;
    throw Object.assign(new Error("Too many informational responses"), {
      code: "TOO_MANY_INFORMATIONAL",
    });
  };
}

/** Iterates over the body. Errors name the request. Faster than a generator. */
function readBody(request: FetchRequest, body: Readable): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      const pieces: AsyncIterator<Uint8Array> = body[Symbol.asyncIterator]();
      const fail = (error: unknown): never => {
        throw failureOf(request, error);
      };
      return {
        next: () => pieces.next().catch(fail),
        return: async () => (await pieces.return?.()) ?? { done: true, value: undefined },
      };
    },
  };
}

function bodyOf(body: FetchRequest["body"]): string | Uint8Array | Readable | undefined {
  if (typeof body !== "object" || body instanceof Uint8Array) return body;
  return Readable.from(body.stream(), { objectMode: false, highWaterMark: 65_536 });
}

/**
 * Returns the signal's reason if the signal has aborted, and otherwise the failure with its cause.
 */
function failureOf({ method, url, signal, connection }: FetchRequest, error: unknown): unknown {
  if (signal.aborted) return signal.reason;
  const refusal = refusalAmong(error);
  if (refusal !== undefined) return refusal;
  const fault = connection?.proxyUrl === undefined ? undefined : faultOfProxy(error);
  let cause = error instanceof errors.UndiciError || hasCode(error) ? error.code : undefined;
  if (connection?.proxyUrl !== undefined) cause = fault ?? cause ?? "PROXY_FAILED";
  // An error without a code comes from the request body, which the caller provides.
  if (cause === undefined) return error;
  const shownUrl = stripCredentials(url).replace(/\?.*$/s, "");
  const way = connection?.proxyUrl && {
    proxy: originOf(connection.proxyUrl),
    isFaultOfProxy: fault !== undefined,
    ...wordsOfProxy(error, connection.proxyUrl),
  };
  return new RequestFailedError({ method, url: shownUrl, cause, ...way }, { cause: error });
}

/**
 * Returns the text with which a proxy rejects a tunnel. Removes the proxy's password, because the
 * text might repeat it.
 */
function wordsOfProxy(error: unknown, proxyUrl: string): { readonly text?: string } {
  const text = textOfProxy(error);
  if (text === undefined) return {};
  const secrets = new SecretsInUse();
  const { password } = new URL(proxyUrl);
  for (const secret of [password, percentDecode(password)]) secrets.add(secret);
  return { text: secrets.redact(text) };
}

/**
 * Returns the origin of a URL, even for schemes for which browsers define none, such as `socks5`.
 */
function originOf(url: string): string {
  const { protocol, host } = new URL(url);
  return `${protocol}//${host}`;
}

/**
 * Finds an EgressRefusedError among the causes, because proxy agents wrap errors of their
 * connections.
 */
function refusalAmong(error: unknown): EgressRefusedError | undefined {
  if (error instanceof EgressRefusedError) return error;
  return error instanceof Error && error.cause !== undefined
    ? refusalAmong(error.cause)
    : undefined;
}

function hasCode(error: unknown): error is Error & { code: string } {
  return error instanceof Error && typeof (error as { code?: unknown }).code === "string";
}
