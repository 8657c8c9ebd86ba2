/**
 * Sends the requests of one endpoint. Adds its headers and credentials, observes the server's rate
 * limits, and repeats a request whose response is incomplete. Errors name the endpoint.
 */
import {
  EMPTY_BYTES,
  type JsonValue,
  OperationalError,
  outlineJsonYielding,
  parseYielding,
  type Runtime,
  type ScanOptions,
  valuesNow,
  Yielder,
} from "../../../base/index.ts";
import type { ReplicationOptions } from "../../../contract/index.ts";
import { namesSystemDatabase } from "../../../databases/index.ts";
import {
  type Activity,
  type Connection,
  type Fetch,
  type FetchRequest,
  type FetchResponse,
  type Grants,
  type RateLimits,
  RequestFailedError,
  type RetryOptions,
  readBeginning,
  readBytes,
  readText,
  type SecretsInUse,
  SharedGrant,
  type TlsSettings,
  withActivity,
  withConnection,
  withGrant,
  withHeaders,
  withLinger,
  withRateLimit,
  withRedirects,
  withRetry,
  withSecretsNoted,
  withSpans,
  withTimeLimit,
} from "../../../http-client/index.ts";
import { maskCredentials, percentEncode } from "../../../protocol/index.ts";
import type { ClientSettings } from "../../replicator-config.ts";
import { authorizationOf, loginOf, secretsOf } from "../../request/authentication-schemes.ts";
import type { ResolvedAddress } from "../../request/replication.ts";
import { EndpointError } from "../endpoint.ts";
import type { AnswerBudget } from "./answer-budget.ts";
import {
  asObject,
  isBroken,
  isNoAnswer,
  isTooMuch,
  NESTING_MAX,
  parseObject,
} from "./json-answer.ts";
import { RoundTrip } from "./round-trip.ts";
import { ServerWords } from "./server-words.ts";

/** Maximum number of characters quoted from an unexpected response. */
const MISREAD_LENGTH_MAX = 200;

/** Paths of changes feeds. Their responses can be delayed until something changes. */
const FEEDS = ["_changes", "_db_updates"];

/**
 * Maximum wait for a write in progress when a node stops or gives the job's slot to another job.
 */
const STOP_MS_MAX = 5000;

/**
 * Selects the requests that a stopped run waits for, and the time for which it waits. A request to
 * cancel the job is answered only after its writes have ended.
 */
const LINGERING = {
  isWrite: ({ method, url }: FetchRequest) =>
    method === "PUT" || (method === "POST" && url.endsWith("/_bulk_docs")),
  lingerMs: (reason: unknown) => {
    if (!(reason instanceof OperationalError)) return 0;
    if (reason.code === "REPLICATOR_STOPPED")
      return reason.details.awaitsWrites ? Number.POSITIVE_INFINITY : STOP_MS_MAX;
    return reason.code === "JOBS_HALTED" ? Number.POSITIVE_INFINITY : 0;
  },
};

/** Pause before a response that broke off is requested again. */
const BREAK_PAUSE_MS = 250;

/** Error name for a response that exceeds its budget. */
export const ANSWER_TOO_LONG = "answer_too_long";

/** Scanning depth for a response that is parsed as a whole. */
const PARSED: Outline = { depthMax: 1, nestingMax: NESTING_MAX };

const JSON_TYPE = { "content-type": "application/json", accept: "application/json" };

export interface HttpRequestsParts {
  readonly runtime: Runtime;
  /** Performs one request, without retries. */
  readonly fetch: Fetch;
  readonly retry: RetryOptions;
  /** Rate limits of servers, and grants of logins. All endpoints of the node share them. */
  readonly rateLimits: RateLimits;
  readonly grants: Grants;
  /** Only endpoints with the same scope share grants. Default: empty. */
  readonly grantScope?: readonly unknown[];
  /** Secrets that this endpoint sends. They must not appear in messages. */
  readonly secrets: SecretsInUse;
  /** Default TLS settings for addresses. */
  readonly tls: TlsSettings;
  readonly client: ClientSettings;
  readonly userAgent: string;
  /** Measures the transfers of the run that sends the requests. */
  readonly activity?: Activity | undefined;
  /** Generation of the connections. Connections of an earlier generation are not reused. */
  readonly generation?: number | undefined;
  /** Records work on long responses. If absent, such work is not recorded. */
  readonly during?: Hazardous | undefined;
}

/**
 * Performs work that can crash the node. The description `work` is stored while the work is in
 * progress.
 */
export type Hazardous = <T>(work: string, perform: () => Promise<T>) => Promise<T>;

/** Minimum length of a response whose parsing is recorded, because it can crash the node. */
const HAZARD_BYTES_MIN = 8 * 1024 * 1024;

export type Method = "GET" | "PUT" | "POST";

export interface RequestParts {
  readonly body?: FetchRequest["body"];
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether to send the request only once, even if the response asks to retry it later. */
  readonly once?: boolean | undefined;
  /**
   * Whether request and response are short and the server responds promptly. Such a request can be
   * sent to a Tandem server in a batch with requests of other runs.
   */
  readonly isShort?: boolean | undefined;
  readonly signal: AbortSignal;
}

/** A response that was read completely. */
export interface Answer<Json = unknown> {
  readonly status: number;
  /** The response text. Invalid UTF-8 is replaced by U+FFFD. */
  readonly text: string;
  /** The parsed text; undefined for invalid JSON or deep nesting. */
  readonly json: Json | undefined;
}

/** The result of `begin`, or a response with a status other than 200, read in full. */
export type Begun<T> =
  | { readonly kind: "begun"; readonly begun: T }
  | { readonly kind: "refused"; readonly status: number; readonly text: string };

/** Options for reading a complete response: its limits, and how to scan it. */
interface Whole {
  readonly budget: AnswerBudget;
  /** How to scan the response. If absent, the response is parsed as a whole. */
  readonly outline?: Outline;
}

/** Nesting level to which a response is scanned, and maximum nesting of values. */
export interface Outline {
  readonly depthMax: number;
  readonly nestingMax: number;
}

/**
 * Whether a redirect is allowed. A server must not redirect requests to a system database, unless
 * the address already named a system database.
 */
function mayMove(from: URL, to: URL): boolean {
  return namesSystemDatabase(from.pathname) || !namesSystemDatabase(to.pathname);
}

export class HttpRequests {
  /** URL of the database or server, with a trailing slash and without credentials. */
  readonly url: string;
  /** URL without credentials, for messages and pages. */
  readonly shownUrl: string;
  /** Formats text from the server for display. */
  readonly words: ServerWords;
  /** Root of a database's server. */
  readonly #root: string;
  readonly #parts: HttpRequestsParts;
  readonly #inactivityTimeoutMs: number;
  readonly #connection: Connection;
  readonly #once: Fetch;
  readonly #patiently: Fetch;
  readonly #roundTrip: RoundTrip;
  #serverName: string | undefined;
  #isRecognized = false;

  constructor(parts: HttpRequestsParts, address: ResolvedAddress, options: ReplicationOptions) {
    const headers: Record<string, string> = {
      accept: "application/json",
      "user-agent": parts.userAgent,
    };
    for (const [name, value] of Object.entries(address.headers))
      headers[name.toLowerCase()] = value;
    // A grant replaces this header, unless the address also has another login.
    if (address.authorization !== undefined) headers.authorization = address.authorization.read();
    const authorization = authorizationOf(address, parts.client);
    Object.assign(headers, authorization);
    this.url = address.url;
    this.#root = address.url.replace(/[^/]*\/$/, "");
    this.shownUrl = maskCredentials(address.url);
    this.words = new ServerWords(parts.secrets);
    this.#parts = parts;
    this.#inactivityTimeoutMs = options.connectionTimeoutMs;
    this.#connection = {
      tls: { ...valuesNow(parts.tls), ...address.tls },
      ...(parts.generation === undefined ? {} : { generation: parts.generation }),
      ...(address.proxyUrl === undefined ? {} : { proxyUrl: address.proxyUrl }),
    };
    // Any header given by a user might contain a secret, whatever its name.
    const secretHeaders = Object.keys({ ...address.headers, ...authorization }).map((name) =>
      name.toLowerCase(),
    );
    const { activity } = parts;
    this.#roundTrip = new RoundTrip(parts.runtime.clock);
    const lingering = withLinger(parts.runtime.clock, parts.fetch, LINGERING);
    const noted = withSecretsNoted(lingering, parts.secrets);
    const spanned = withSpans(parts.runtime, this.#timed(noted));
    const watched = activity === undefined ? spanned : withActivity(spanned, activity);
    const redirected = withRedirects(watched, { secretHeaders, mayMove });
    const feedConnection = { ...this.#connection, isFeed: true };
    const connected = withConnection(redirected, ({ url }) =>
      this.#isFeed(url) ? feedConnection : this.#connection,
    );
    const limited = withTimeLimit(parts.runtime, connected, ({ url }) =>
      // Feeds have no time limit: they can be silent for a long time, and some never end.
      this.#isFeed(url) ? Number.POSITIVE_INFINITY : parts.client.requestTimeoutMs,
    );
    const grant = this.#sharedGrant(address);
    const granted = grant === undefined ? limited : withGrant(limited, grant);
    const named = withHeaders(granted, headers);
    const { runtime, rateLimits } = parts;
    const limiter = withRateLimit(runtime, named, rateLimits, address.url, activity?.waits);
    this.#once = async (request) => {
      const response = await limiter(request).catch((error: unknown) => {
        throw this.#withoutSecrets(error);
      });
      this.#serverName = response.headers.get("server");
      return response;
    };
    this.#patiently = withRetry(parts.runtime, this.#once, parts.retry);
  }

  /** Whether any response had the form of CouchDB's responses. */
  get isRecognized(): boolean {
    return this.#isRecognized;
  }

  /** The `Server` header of the last response, if any. */
  get serverName(): string | undefined {
    return this.#serverName;
  }

  /** Shortest recent time to the beginning of a response; undefined before the first response. */
  get roundTripMs(): number | undefined {
    return this.#roundTrip.leastMs;
  }

  /**
   * Removes secrets from the error of a request, because the server might have repeated a secret in
   * a redirect URL.
   */
  #withoutSecrets(error: unknown): unknown {
    if (!(error instanceof RequestFailedError)) return error;
    const { url } = error.details;
    const shownUrl = this.#parts.secrets.redact(url);
    if (shownUrl === url) return error;
    return new RequestFailedError({ ...error.details, url: shownUrl }, { cause: error });
  }

  #timed(fetch: Fetch): Fetch {
    const { clock } = this.#parts.runtime;
    return async (request) => {
      const beganMs = clock.monotonicMs();
      const response = await fetch(request);
      this.#roundTrip.add(clock.monotonicMs() - beganMs);
      return response;
    };
  }

  #isFeed(url: string): boolean {
    return FEEDS.some((feed) => url.startsWith(this.url + feed));
  }

  /**
   * Returns the grant for the endpoint's credentials. All jobs with the same credentials share it.
   */
  #sharedGrant(address: ResolvedAddress): SharedGrant | undefined {
    const { runtime, grants, grantScope = [], secrets, userAgent, client } = this.#parts;
    for (const [, secret] of secretsOf(address)) secrets.add(secret);
    const fetch = withSecretsNoted(this.#parts.fetch, secrets);
    const { generation: _, ...connection } = this.#connection;
    const { clock, random } = runtime;
    const parts = { clock, random, fetch, connection, userAgent, settings: client };
    const login = loginOf(address, parts);
    if (login === undefined) return undefined;
    const { key, source } = login;
    const name = JSON.stringify([...key, grantScope]);
    return grants.of(name, () => new SharedGrant(runtime, source, client));
  }

  /**
   * Returns a complete response within its budget. If the response is missing or breaks off, the
   * request is repeated.
   */
  ask(
    method: Method,
    path: string,
    parts: RequestParts & Whole & { readonly outline: Outline },
  ): Promise<Answer<JsonValue>>;
  ask(method: Method, path: string, parts: RequestParts & Whole): Promise<Answer>;
  async ask(method: Method, path: string, parts: RequestParts & Whole): Promise<Answer> {
    let body: Uint8Array = EMPTY_BYTES;
    let json: unknown;
    const fetchWhole: Fetch = async (request) => {
      const response = await this.#once(request);
      const isRefusal = response.status >= 300;
      const { bytesMax } = parts.budget;
      // An error response is shown to users, so it is truncated to the budget instead of being
      // rejected.
      body = isRefusal
        ? await readBeginning(response, bytesMax)
        : await this.readWhole(response, path, bytesMax);
      const parse = () => this.#jsonOf(body, path, parts, isRefusal);
      json = await this.#process(body, path, parse);
      if (!isRefusal && json === undefined && isBroken(shownText(body))) {
        throw this.brokenOff(method, path);
      }
      return response;
    };
    const { runtime } = this.#parts;
    const retry =
      parts.once === true ? { ...this.#parts.retry, retryCountMax: 0 } : this.#parts.retry;
    const request = this.#request(method, path, parts);
    const { status } = await withRetry(runtime, fetchWhole, retry)(request);
    this.#isRecognized ||= hasCouchdbForm(json);
    this.#checkRate(status, shownText(body));
    return {
      status,
      json,
      get text() {
        return shownText(body);
      },
    };
  }

  /**
   * Returns the JSON of a body, scanned before it is parsed. Returns `undefined` for invalid JSON,
   * or for an error response beyond its budget.
   */
  async #jsonOf(
    body: Uint8Array,
    path: string,
    { budget, outline }: Whole,
    isRefusal: boolean,
  ): Promise<unknown> {
    const yielder = this.#yielder();
    const { depthMax, nestingMax } = outline ?? PARSED;
    const limits = { depthMax, nestingMax, valueCountMax: budget.valuesMax };
    try {
      const scanned = await outlineJsonYielding(body, limits, yielder);
      return outline === undefined ? await parseYielding(scanned.text, yielder) : scanned;
    } catch (error) {
      if (!isNoAnswer(error)) throw error;
      if (isTooMuch(error) && !isRefusal) throw this.tooLong(path, error.message);
      return undefined;
    }
  }

  /**
   * Sends a request, and returns the result of `begin`, which reads the beginning of the response.
   * If the connection breaks before `begin` has finished, the request is repeated, as if no
   * response had arrived. `begin` is called only for responses with status 200; all other responses
   * are read in full.
   */
  async begin<T>(
    method: Method,
    path: string,
    { begin, ...parts }: RequestParts & { readonly begin: (response: FetchResponse) => Promise<T> },
  ): Promise<Begun<T>> {
    let begun: T | undefined;
    const fetchBegun: Fetch = async (request) => {
      const response = await this.#once(request);
      begun = response.status === 200 ? await begin(response) : undefined;
      return response;
    };
    const { runtime, retry } = this.#parts;
    const response = await withRetry(
      runtime,
      fetchBegun,
      retry,
    )(this.#request(method, path, parts));
    this.#checkRate(response.status);
    if (response.status === 200) return { kind: "begun", begun: begun as T };
    return { kind: "refused", status: response.status, text: await readText(response) };
  }

  /**
   * Reads the whole body of a response to this path. Throws an EndpointError `answer_too_long` if
   * the body is longer than `bytesMax`.
   */
  async readWhole(response: FetchResponse, path: string, bytesMax: number): Promise<Uint8Array> {
    const body = await readBytes(response, bytesMax);
    if (body !== undefined) return body;
    throw this.tooLong(path, `more than ${bytesMax} bytes`);
  }

  /** Returns the error for a response to this path that exceeds its budget. */
  tooLong(path: string, limit: string): EndpointError {
    const reason = `response of ${this.shownUrl}${shownPath(path)} rejected: ${limit}`;
    return new EndpointError(ANSWER_TOO_LONG, reason);
  }

  /**
   * Scans a response to this path, or a part of it, while yielding to the event loop. Throws like
   * `outlineJson`.
   */
  outline(bytes: Uint8Array, path: string, limits: Partial<ScanOptions>): Promise<JsonValue> {
    return this.#process(bytes, path, () => outlineJsonYielding(bytes, limits, this.#yielder()));
  }

  /**
   * Performs work on a response to this path. Work on a long response is recorded, so that the
   * job's next run detects whether the work crashed the node.
   */
  #process<T>({ length }: Uint8Array, path: string, perform: () => Promise<T>): Promise<T> {
    const { during } = this.#parts;
    if (during === undefined || length < HAZARD_BYTES_MIN) return perform();
    return during(`${length} bytes from ${this.shownUrl}${shownPath(path)}`, perform);
  }

  #yielder(): Yielder {
    return new Yielder(this.#parts.runtime.clock);
  }

  /** Waits before a response that broke off is requested again. */
  pause(signal: AbortSignal): Promise<void> {
    return this.#parts.runtime.clock.sleep(BREAK_PAUSE_MS, signal);
  }

  /** Returns the error for incomplete JSON in a response to this path. */
  brokenOff(method: Method, path: string): RequestFailedError {
    const url = this.shownUrl + shownPath(path);
    return new RequestFailedError({ method, url, cause: "BODY_BROKEN_OFF" });
  }

  /** Sends a request. The caller has to read the body of the response. */
  async send(method: Method, path: string, parts: RequestParts): Promise<FetchResponse> {
    const response = await this.#patiently(this.#request(method, path, parts));
    this.#checkRate(response.status);
    return response;
  }

  /** Sends a request without retries, because the body of the request can be read only once. */
  sendOnce(method: Method, path: string, parts: RequestParts): Promise<FetchResponse> {
    return this.#once(this.#request(method, path, parts));
  }

  #request(method: Method, path: string, parts: RequestParts): FetchRequest {
    const typed = method === "GET" ? {} : JSON_TYPE;
    return {
      method,
      url: this.url + path,
      headers: { ...typed, ...parts.headers },
      ...(parts.body === undefined ? {} : { body: parts.body }),
      inactivityTimeoutMs: this.#inactivityTimeoutMs,
      ...(parts.isShort === true ? { batchRoot: this.#root } : {}),
      signal: parts.signal,
    };
  }

  /**
   * Throws if a server still responds with 429 after all retries. The job is then retried later
   * (`max_backoff`).
   */
  #checkRate(status: number, text = ""): void {
    if (status !== 429) return;
    const described = text === "" ? "" : ` (${this.words.described(status, text)})`;
    const reason = `${this.shownUrl} repeatedly responded with 429${described}`;
    throw new EndpointError("max_backoff", reason);
  }

  /**
   * Returns the error for a response with status 401 or 403. It consists of CouchDB's reason,
   * followed by the server's response.
   */
  refused(status: number, text: string): EndpointError {
    const { words } = this;
    const place = `unauthorized to access or create database ${this.shownUrl}`;
    const reason = `${place} (${words.described(status, text)})`;
    const answer = words.answer(status, text);
    return new EndpointError(status === 401 ? "unauthorized" : "forbidden", reason, { answer });
  }

  /** Returns the error for a response that does not describe a database. */
  notOpened(status: number, text: string): EndpointError {
    if (status === 401 || status === 403) return this.refused(status, text);
    const { words } = this;
    const error = status === 404 ? "db_not_found" : "db_open_failed";
    const place = `could not open ${this.shownUrl}`;
    // For a missing database, give only the place, as in CouchDB: the response would add nothing.
    const isMissing = status === 404 && parseObject(text)?.error === "not_found";
    const reason = isMissing ? place : `${place} (${words.described(status, text)})`;
    return new EndpointError(error, reason, { answer: words.answer(status, text) });
  }

  /**
   * Returns the error for a response with a success status but unexpected content, such as a login
   * page or a response to a different path.
   */
  misread(
    error: string,
    path: string,
    { status }: { readonly status: number },
    { text, wanted }: { readonly text: string; readonly wanted: string },
  ): EndpointError {
    const { words } = this;
    const said = words.shown(text.slice(0, MISREAD_LENGTH_MAX));
    const where = `${this.shownUrl}${shownPath(path)}`;
    const reason = `${status} from ${where} without ${wanted}: ${said}`;
    return new EndpointError(error, reason, { answer: { status, error, reason } });
  }

  unexpected(
    error: string,
    path: string,
    { status }: { readonly status: number },
    text: string,
  ): EndpointError {
    const { words } = this;
    const said = words.described(status, text).slice(String(status).length);
    const reason = `${status} from ${this.shownUrl}${shownPath(path)}${said}`;
    return new EndpointError(error, reason, { answer: words.answer(status, text) });
  }
}

/** Whether a response is information about a CouchDB database, or an error in CouchDB's form. */
function hasCouchdbForm(json: unknown): boolean {
  const { update_seq, error, reason } = asObject(json) ?? {};
  return update_seq !== undefined || (typeof error === "string" && typeof reason === "string");
}

const lenientDecoder = new TextDecoder("utf-8", { ignoreBOM: true });

function shownText(body: Uint8Array): string {
  return lenientDecoder.decode(body);
}

function shownPath(path: string): string {
  return path.replace(/\?.*$/s, "");
}

/** Formats the query of a path; empty without parameters. */
export function query(parameters: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(parameters).map(
    ([name, value]) => `${percentEncode(name)}=${percentEncode(value)}`,
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}
