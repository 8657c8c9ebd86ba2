/**
 * The requests of one endpoint: with its headers and credentials, at the rate that its server allows, repeated when an
 * answer is incomplete. Errors name the endpoint.
 */
import {
  EMPTY_BYTES,
  errorCode,
  type JsonValue,
  outlineJsonInTurns,
  parseInTurns,
  type Runtime,
  type ScanOptions,
  Turns,
  valuesNow,
} from "../../../base/index.ts";
import type { ReplicationOptions } from "../../../contract/index.ts";
import { namesSystemDatabase } from "../../../databases/index.ts";
import {
  type Activity,
  basicAuthorization,
  type Connection,
  type Fetch,
  type FetchRequest,
  type FetchResponse,
  type Grants,
  IamToken,
  type RateLimits,
  RequestFailedError,
  type RetryOptions,
  readBeginning,
  readBytes,
  readText,
  type SecretsInUse,
  SessionLogin,
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
import { endpointUrl } from "../../request/endpoint-url.ts";
import type { HttpAddress } from "../../request/replication.ts";
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

/** Beginning of an answer that is shown because it is not the expected one. */
const MISREAD_LENGTH_MAX = 200;

/** What answers when something changes: of a database, and of a server. */
const FEEDS = ["_changes", "_db_updates"];

/** Writes that are under way when their run stops. A last checkpoint may take as long. */
const LINGERING = {
  isWrite: ({ method, url }: FetchRequest) =>
    method === "PUT" || (method === "POST" && url.endsWith("/_bulk_docs")),
  waits: (reason: unknown) =>
    ["JOBS_HALTED", "REPLICATOR_STOPPED"].includes(errorCode(reason) ?? ""),
  lingerMsMax: 5000,
};

/** Before an answer that broke off in its middle is asked for again. */
const BREAK_PAUSE_MS = 250;

/** The error of an answer beyond its budget. */
export const ANSWER_TOO_LONG = "answer_too_long";

/** An answer that is parsed as a whole. */
const PARSED: Outline = { depthMax: 1, nestingMax: NESTING_MAX };

const JSON_TYPE = { "content-type": "application/json", accept: "application/json" };

export interface HttpRequestsParts {
  readonly runtime: Runtime;
  /** Answers once; repeats nothing. */
  readonly fetch: Fetch;
  readonly retry: RetryOptions;
  /** Those of the node: all endpoints share them. */
  readonly rateLimits: RateLimits;
  readonly grants: Grants;
  /** Secrets that were sent, and are not to be shown. */
  readonly secrets: SecretsInUse;
  /** How TLS is spoken where an address does not say otherwise. */
  readonly tls: TlsSettings;
  readonly client: ClientSettings;
  readonly userAgent: string;
  /** Of the run that asks. */
  readonly activity?: Activity | undefined;
  /** A higher number asks for connections that are new. */
  readonly generation?: number | undefined;
  /** Absent: nothing is stored about long answers. */
  readonly during?: Hazardous | undefined;
}

/** Does work that may end the node, after storing what it is. */
export type Hazardous = <T>(work: string, perform: () => Promise<T>) => Promise<T>;

/** An answer of this length may end the node that parses it. */
const HAZARD_BYTES_MIN = 8 * 1024 * 1024;

export type Method = "GET" | "PUT" | "POST";

export interface RequestParts {
  readonly body?: FetchRequest["body"];
  readonly headers?: Readonly<Record<string, string>>;
  /** An answer that says "later" is not waited for. */
  readonly once?: boolean | undefined;
  /** Little is asked, and little comes back soon: at a Tandem it may travel with the requests of other runs. */
  readonly isShort?: boolean | undefined;
  readonly signal: AbortSignal;
}

/** A whole answer. */
export interface Answer<Json = unknown> {
  readonly status: number;
  /** What is no UTF-8 stands there as U+FFFD. */
  readonly text: string;
  /** What the text says; undefined for what is no JSON, or is nested too deeply. */
  readonly json: Json | undefined;
}

/** An answer of which something was read, or one that is something else. */
export type Begun<T> =
  | { readonly kind: "begun"; readonly begun: T }
  | { readonly kind: "refused"; readonly status: number; readonly text: string };

/** Limits of an answer that is read whole, and the form in which it is wanted. */
interface Whole {
  readonly budget: AnswerBudget;
  /** Absent: parsed. */
  readonly outline?: Outline;
}

/** Brackets down to which an answer can be cut into values, and brackets that may enclose a value. */
export interface Outline {
  readonly depthMax: number;
  readonly nestingMax: number;
}

/** A server must not send us on to a system database that nobody named. */
function mayMove(from: URL, to: URL): boolean {
  return namesSystemDatabase(from.pathname) || !namesSystemDatabase(to.pathname);
}

export class HttpRequests {
  /** Of the database, or of the server, with a slash at the end, without credentials. */
  readonly url: string;
  /** For people. */
  readonly shownUrl: string;
  /** Of a database: its server. */
  /** What the server says, for people. */
  readonly words: ServerWords;
  readonly #root: string;
  readonly #parts: HttpRequestsParts;
  readonly #inactivityTimeoutMs: number;
  readonly #connection: Connection;
  readonly #once: Fetch;
  readonly #patiently: Fetch;
  readonly #roundTrip: RoundTrip;
  #serverName: string | undefined;
  #isRecognized = false;

  constructor(parts: HttpRequestsParts, address: HttpAddress, options: ReplicationOptions) {
    const headers: Record<string, string> = {
      accept: "application/json",
      "user-agent": parts.userAgent,
    };
    for (const [name, value] of Object.entries(address.headers))
      headers[name.toLowerCase()] = value;
    if (address.basic !== undefined && !parts.client.usesSessions)
      headers.authorization = basicAuthorization(address.basic);
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
    // What a user gave as a header may be a secret, whatever its name.
    const secretHeaders = Object.keys(address.headers).map((name) => name.toLowerCase());
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
      // A feed may be silent for long, and go on for ever.
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

  /** What the server called itself in its last answer (`Server`); undefined: nothing, or there was none. */
  /** Whether an answer had the form of a CouchDB's. */
  get isRecognized(): boolean {
    return this.#isRecognized;
  }

  get serverName(): string | undefined {
    return this.#serverName;
  }

  /** The least time in which an answer began lately; undefined: there was none. */
  get roundTripMs(): number | undefined {
    return this.#roundTrip.leastMs;
  }

  /** The error of a request: a server may repeat a secret in the place to which it redirects. */
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

  /** What our credentials are exchanged for, shared with all jobs that have the same. */
  #sharedGrant(address: HttpAddress): SharedGrant | undefined {
    const { basic, iam } = address;
    const { runtime, grants, secrets, userAgent, client } = this.#parts;
    const { clock } = runtime;
    secrets.add(basic?.password);
    secrets.add(iam?.apiKey);
    const fetch = withSecretsNoted(this.#parts.fetch, secrets);
    const { generation: _, ...connection } = this.#connection;
    const parts = { clock, fetch, connection, userAgent, settings: client };
    if (iam !== undefined) {
      const key = JSON.stringify(["iam", connection, iam]);
      return grants.of(key, () => new SharedGrant(runtime, new IamToken(parts, iam), client));
    }
    if (basic === undefined || !client.usesSessions) return undefined;
    const { origin } = endpointUrl(address);
    const key = JSON.stringify(["session", origin, connection, basic]);
    const login = new SessionLogin(parts, origin, basic);
    return grants.of(key, () => new SharedGrant(runtime, login, client));
  }

  /** A whole answer within its budget. One that breaks off is requested again, like one that does not come. */
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
      // A refusal is shown to people, however long it is.
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
    this.#checkRate(status);
    return {
      status,
      json,
      get text() {
        return shownText(body);
      },
    };
  }

  /** The JSON of a body, scanned before it is parsed. Undefined if it is not JSON, or if a refusal is beyond its budget. */
  async #jsonOf(
    body: Uint8Array,
    path: string,
    { budget, outline }: Whole,
    isRefusal: boolean,
  ): Promise<unknown> {
    const turns = this.#turns();
    const { depthMax, nestingMax } = outline ?? PARSED;
    const limits = { depthMax, nestingMax, valueCountMax: budget.valuesMax };
    try {
      const scanned = await outlineJsonInTurns(body, limits, turns);
      return outline === undefined ? await parseInTurns(scanned.text, turns) : scanned;
    } catch (error) {
      if (!isNoAnswer(error)) throw error;
      if (isTooMuch(error) && !isRefusal) throw this.tooLong(path, error.message);
      return undefined;
    }
  }

  /**
   * What `begin` makes of an answer, of which it has to read something. When that breaks, the answer is asked for again, like one that
   * does not come. `begin` sees answers with status 200; all others come back to be read.
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

  /** The whole body of an answer to this path. Throws an EndpointError `answer_too_long`. */
  async readWhole(response: FetchResponse, path: string, bytesMax: number): Promise<Uint8Array> {
    const body = await readBytes(response, bytesMax);
    if (body !== undefined) return body;
    throw this.tooLong(path, `more than ${bytesMax} bytes`);
  }

  /** An answer to this path beyond its budget. */
  tooLong(path: string, limit: string): EndpointError {
    const reason = `answer of ${this.shownUrl}${shownPath(path)} refused: ${limit}`;
    return new EndpointError(ANSWER_TOO_LONG, reason);
  }

  /** Scans an answer to this path, or a part of it, in steps that yield. Throws as `outlineJson` does. */
  outline(bytes: Uint8Array, path: string, limits: Partial<ScanOptions>): Promise<JsonValue> {
    return this.#process(bytes, path, () => outlineJsonInTurns(bytes, limits, this.#turns()));
  }

  /** Does work on an answer to this path. If a node dies over a long one, the next run of the job knows. */
  #process<T>({ length }: Uint8Array, path: string, perform: () => Promise<T>): Promise<T> {
    const { during } = this.#parts;
    if (during === undefined || length < HAZARD_BYTES_MIN) return perform();
    return during(`${length} bytes from ${this.shownUrl}${shownPath(path)}`, perform);
  }

  #turns(): Turns {
    return new Turns(this.#parts.runtime.clock);
  }

  /** Lets a moment pass before an answer that broke off is asked for again. */
  pause(signal: AbortSignal): Promise<void> {
    return this.#parts.runtime.clock.sleep(BREAK_PAUSE_MS, signal);
  }

  /** An answer to this path that is no JSON to its end. */
  brokenOff(method: Method, path: string): RequestFailedError {
    const url = this.shownUrl + shownPath(path);
    return new RequestFailedError({ method, url, cause: "BODY_BROKEN_OFF" });
  }

  /** An answer whose body is still to be read. */
  async send(method: Method, path: string, parts: RequestParts): Promise<FetchResponse> {
    const response = await this.#patiently(this.#request(method, path, parts));
    this.#checkRate(response.status);
    return response;
  }

  /** The same, asked once: for a body that cannot be sent again. */
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

  /** A server that goes on answering 429 is one for later (`max_backoff`). */
  #checkRate(status: number): void {
    if (status !== 429) return;
    throw new EndpointError("max_backoff", `429 from ${this.shownUrl} again and again`);
  }

  refused(status: number): EndpointError {
    return new EndpointError(
      status === 401 ? "unauthorized" : "forbidden",
      `unauthorized to access or create database ${this.shownUrl}`,
    );
  }

  /** An answer with a status of success that does not say what it must: a login page, or the answer to another path. */
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
    const { error: theirs, reason } = parseObject(text) ?? {};
    const { words } = this;
    const said = theirs === undefined ? "" : ` ${words.shown(theirs)}: ${words.shown(reason)}`;
    const reasonText = `${status} from ${this.shownUrl}${shownPath(path)}${said}`;
    return new EndpointError(error, reasonText, { answer: words.answer(status, text) });
  }
}

/** The information about a database, or an error. */
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

/** The query of a path; empty without parameters. */
export function query(parameters: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(parameters).map(
    ([name, value]) => `${percentEncode(name)}=${percentEncode(value)}`,
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}
