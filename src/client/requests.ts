/** Requests with JSON bodies, through any `fetch`. */
import { isJsonObject, parseJson, printJson } from "../base/index.ts";

/** The server rejected a request; `status` is 0 if the server could not be reached. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  /** CouchDB's word for the error, such as `unauthorized`. */
  readonly error: string;
  readonly reason: string;

  constructor(status: number, error: string, reason: string, options?: ErrorOptions) {
    super(reason, options);
    this.status = status;
    this.error = error;
    this.reason = reason;
  }
}

/** The part of a `Response` that the client uses. */
export interface FetchedResponse {
  readonly status: number;
  readonly statusText: string;
  readonly headers: { get(name: string): string | null };
  readonly body: unknown;
  text(): Promise<string>;
}

export interface FetchInit {
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

/** The global `fetch`, or a compatible function, such as that of a node in the same process. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchedResponse>;

export type Method = "GET" | "POST" | "PUT" | "DELETE";

/** Values of query parameters. Lists are joined by commas; undefined values are omitted. */
export type QueryParameters = Readonly<Record<string, unknown>>;

export interface RequestParts {
  readonly query?: QueryParameters;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Exchanged {
  readonly status: number;
  /** Path of the created resource; empty if the request created no resource. */
  readonly location: string;
  readonly text: string;
}

export interface RequestsParts {
  /** Root of the API, with a trailing slash. */
  readonly root: () => string;
  readonly fetch: Fetch;
  readonly headers: Readonly<Record<string, string>>;
}

const JSON_HEADERS = { accept: "application/json", "content-type": "application/json" };

export class Requests {
  readonly #parts: RequestsParts;

  constructor(parts: RequestsParts) {
    this.#parts = parts;
  }

  /** Sends a request. `path` has no leading slash. Rejects only if there is no response. */
  send(
    method: Method,
    path: string,
    { query = {}, body, signal, headers = {} }: RequestParts = {},
  ): Promise<FetchedResponse> {
    return this.#parts.fetch(this.#parts.root() + withQuery(path, query), {
      method,
      headers: { ...JSON_HEADERS, ...this.#parts.headers, ...headers },
      ...(body === undefined ? {} : { body: printJson(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  /** Returns a successful response. Rejects with an ApiError. */
  async exchange(method: Method, path: string, parts: RequestParts = {}): Promise<Exchanged> {
    const response = await this.send(method, path, parts).catch((cause: unknown) => {
      if (parts.signal?.aborted) throw cause;
      throw new ApiError(0, "unreachable", "The server cannot be reached.", { cause });
    });
    const text = await response.text().catch(() => "");
    const { status } = response;
    if (status >= 200 && status < 300) {
      return { status, location: response.headers.get("location") ?? "", text };
    }
    throw errorOf(response, text);
  }

  /**
   * Returns the JSON of a successful response. Rejects with an ApiError if the request failed or
   * the response is not JSON.
   */
  async askAny(method: Method, path: string, parts?: RequestParts): Promise<unknown> {
    const { status, text } = await this.exchange(method, path, parts);
    const answer = answerOf(text);
    if (answer === undefined) throw unexpected(status, "JSON");
    return answer;
  }

  /** Like `askAny`, but also rejects JSON that is not an object. */
  async ask<Answer>(method: Method, path: string, parts?: RequestParts): Promise<Answer> {
    const answer = await this.askAny(method, path, parts);
    if (!isJsonObject(answer)) throw unexpected(200, "an object");
    return answer as Answer;
  }
}

/** The error for a response that is not in Tandem's format. */
export function unexpected(status: number, expected: string): ApiError {
  const reason = `unexpected response: expected ${expected}; is this a Tandem server?`;
  return new ApiError(status, "unexpected_response", reason);
}

export function errorOf({ status, statusText }: FetchedResponse, text: string): ApiError {
  const { error = "error", reason = statusText } = (answerOf(text) ?? {}) as Partial<ApiError>;
  return new ApiError(status, error, reason);
}

/** Parses JSON. Returns `undefined` for any other text, such as a proxy's response. */
function answerOf(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

export function withQuery(path: string, query: QueryParameters): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const texts = given.map(([name, value]): [string, string] => [name, String(value)]);
  const text = new URLSearchParams(texts).toString();
  return text === "" ? path : `${path}?${text}`;
}

/**
 * Encodes a name as a path segment. Throws an ApiError for `.` and `..`, because browsers resolve
 * them as folders even if they are percent-encoded.
 */
export function segmentOf(name: string): string {
  if (name !== "." && name !== "..") return encodeURIComponent(name);
  throw new ApiError(0, "bad_name", `Browsers cannot request a resource named ${name}`);
}
