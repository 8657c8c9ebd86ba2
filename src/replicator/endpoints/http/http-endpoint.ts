/**
 * A database on a server that speaks the CouchDB protocol. The requests are those of CouchDB's own
 * replicator (`couch_replicator_api_wrap`), except that continuous jobs read changes in pages
 * (`changes.ts`).
 */
import { type JsonText, joinObject, splitObject } from "../../../base/index.ts";
import type { ReplicationOptions } from "../../../contract/index.ts";
import type { MissingRevisions } from "../../../databases/index.ts";
import { encodeDocumentId, parseWireDocument, percentEncode } from "../../../protocol/index.ts";
import type { ResolvedAddress } from "../../request/replication.ts";
import {
  type ChangesItem,
  type ChangesRequest,
  type CheckpointDocument,
  type Endpoint,
  type EndpointError,
  type EndpointInfo,
  type SourceSequence,
  sequenceText,
} from "../endpoint.ts";
import {
  CHANGES_ANSWER,
  DIFFERENCE_ANSWER,
  DOCUMENT_ANSWER,
  LOG_ANSWER,
  SECURITY_ANSWER,
  SHORT_ANSWER,
} from "./answer-budget.ts";
import { readHttpChanges } from "./changes.ts";
import { HttpDocumentReader, type HttpDocumentReaderParts } from "./document-reader.ts";
import { HttpDocumentWriter, type HttpDocumentWriterParts } from "./document-writer.ts";
import { asObject } from "./json-answer.ts";
import { type Answer, HttpRequests, type HttpRequestsParts, query } from "./requests.ts";
import { missingOf } from "./revisions-difference.ts";

/**
 * Part of the inactivity timeout during which a server is allowed to hold back a page of changes,
 * as in CouchDB.
 */
const FEED_TIMEOUT_RATIO = 1 / 3;
const FEED_TIMEOUT_MS_MIN = 1000;

/** Status of the response if the database to create already exists. */
const ALREADY_THERE = 412;
/** Statuses with which servers reject `limit=0` if they do not implement it. */
const LACKS_COUNT: ReadonlySet<number> = new Set([400, 405, 501]);
/** Status if the server timed out. */
const TIMED_OUT = 408;
/** Status if the server does not implement the request. */
const NOT_IMPLEMENTED = 501;
/** Status codes for users without write access. */
const READ_ONLY: ReadonlySet<number> = new Set([401, 403, 405]);
/** Status codes for users who are not allowed to read `_local` documents. */
const NO_LOCAL: ReadonlySet<number> = new Set([403, 405]);

const SECURITY = "_security";

/** Marks requests about one database or a few of its documents as short (`RequestParts`). */
const isShort = true;

/**
 * Pattern of the `Server` header of servers whose acknowledged writes are durable, whatever their
 * configuration. CouchDB since 3.0 has no `delayed_commits`, and keeps `_ensure_full_commit` only
 * for older replicators. Compatible servers such as Tandem also match.
 */
const DURABLE_SERVER = /^CouchDB\/(?:[3-9]|[1-9]\d+)\./;

/** Pattern of the `Server` header of servers that support `_continue` (`docs/api/documents.md`). */
const CONTINUES_LOGS = /\(Tandem [^)]*\)/;
/**
 * Statuses of `_continue` if the user has no write access (401, 403), if there is no log or the
 * server lacks the resource (404, 405), or if the log is too long (413).
 */
const NOT_OFFERED: ReadonlySet<number> = new Set([401, 403, 404, 405, 413]);

/**
 * Maximum number of documents in a database whose response to a changes request is expected to be
 * short.
 */
const FEW_DOCUMENTS = 500;

export interface HttpEndpointParts
  extends HttpRequestsParts,
    HttpDocumentReaderParts,
    HttpDocumentWriterParts {
  /** Silence after which a run counts as stalled. Default: not checked. */
  readonly stallTimeoutMs?: number;
}

export class HttpEndpoint implements Endpoint {
  readonly shownUrl: string;
  readonly reader: HttpDocumentReader;
  readonly writer: HttpDocumentWriter;
  readonly #requests: HttpRequests;
  readonly #feedTimeoutMs: number;
  /**
   * Number of documents, including deleted ones, as last reported. Infinite before the first
   * report; NaN if a report contains no number.
   */
  #documentCount = Number.POSITIVE_INFINITY;
  /** Reason why the database could not be created. Ignored if the database turns out to exist. */
  #creationFailure: EndpointError | undefined;

  constructor(parts: HttpEndpointParts, address: ResolvedAddress, options: ReplicationOptions) {
    this.#requests = new HttpRequests(parts, address, options);
    this.shownUrl = this.#requests.shownUrl;
    this.reader = new HttpDocumentReader(parts, this.#requests);
    this.writer = new HttpDocumentWriter(parts, this.#requests);
    this.#feedTimeoutMs = feedTimeoutMs(options.connectionTimeoutMs, parts.stallTimeoutMs);
  }

  get writesDurably(): boolean {
    return DURABLE_SERVER.test(this.#requests.serverName ?? "");
  }

  get continuesLogs(): boolean {
    return CONTINUES_LOGS.test(this.#requests.serverName ?? "");
  }

  get isRecognized(): boolean {
    return this.#requests.isRecognized;
  }

  get roundTripMs(): number | undefined {
    return this.#requests.roundTripMs;
  }

  async create(
    parameters: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const response = await this.#requests.ask("PUT", query(parameters), {
      budget: SHORT_ANSWER,
      signal,
    });
    if (response.status === 401 || response.status === 403)
      throw this.#requests.refused(response.status, response.text);
    const { status, text } = response;
    const isCreated = isDone(response);
    if (status === ALREADY_THERE || isCreated) this.#creationFailure = undefined;
    else if (status < 300) {
      this.#creationFailure = this.#requests.misread("db_create_failed", "", response, {
        text,
        wanted: '"ok": true',
      });
    } else {
      this.#creationFailure = this.#requests.unexpected("db_create_failed", "", response, text);
    }
    return isCreated;
  }

  async info(signal: AbortSignal): Promise<EndpointInfo> {
    const response = await this.#requests.ask("GET", "", {
      budget: SHORT_ANSWER,
      isShort,
      signal,
    });
    const { status, text, json } = response;
    const body = status === 200 ? asObject(json) : undefined;
    if (body === undefined || !("update_seq" in body)) {
      const failure = this.#requests.notOpened(status, text);
      throw status === 404 ? (this.#creationFailure ?? failure) : failure;
    }
    this.#creationFailure = undefined;
    const { words } = this.#requests;
    words.refuseRepeated(body.update_seq, "the update sequence");
    words.refuseRepeated(body.instance_start_time, "the start time");
    this.#documentCount = countOf(body.doc_count) + countOf(body.doc_del_count);
    return {
      updateSequence: body.update_seq,
      instanceStartTime: startTimeOf(body.instance_start_time),
      isEmpty: body.doc_count === 0 && body.doc_del_count === 0,
    };
  }

  changes(request: ChangesRequest, signal: AbortSignal): AsyncIterable<readonly ChangesItem[]> {
    const hasFew = request.showsEnd === true || this.#documentCount <= FEW_DOCUMENTS;
    const options = { timeoutMs: this.#feedTimeoutMs, isShort: hasFew };
    return readHttpChanges(this.#requests, options, request, signal);
  }

  async pendingChangeCount(
    since: SourceSequence,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    if (typeof since === "number" && since > 0) {
      // If sequences are numbers, their difference is the count.
      const { updateSequence } = await this.info(signal);
      if (typeof updateSequence === "number") return Math.max(0, updateSequence - since);
    }
    const path = `_changes${query({ since: sequenceText(since), limit: "0" })}`;
    // A server that ignores `limit=0` responds with rows, so the budget of a page of changes
    // applies.
    const response = await this.#requests.ask("GET", path, {
      budget: CHANGES_ANSWER,
      isShort,
      signal,
    });
    const { status, text } = response;
    if (LACKS_COUNT.has(status)) return undefined;
    if (status === 401 || status === 403) throw this.#requests.refused(status, text);
    if (status !== 200) {
      throw this.#requests.unexpected("changes_req_failed", path, response, text);
    }
    const pending = asObject(response.json)?.pending;
    return Number.isSafeInteger(pending) ? Math.max(0, pending as number) : undefined;
  }

  async missingRevisions(
    revisions: ReadonlyMap<string, readonly string[]>,
    signal: AbortSignal,
    { once = false }: { readonly once?: boolean } = {},
  ): Promise<ReadonlyMap<string, MissingRevisions>> {
    const body = JSON.stringify(Object.fromEntries(revisions));
    const response = await this.#requests.ask("POST", "_revs_diff", {
      body,
      budget: DIFFERENCE_ANSWER,
      once,
      isShort,
      signal,
    });
    const { text, json } = response;
    const answer = response.status === 200 ? asObject(json) : undefined;
    const missing = answer && missingOf(answer, revisions);
    if (missing !== undefined) return missing;
    throw this.#requests.unexpected("revs_diff_failed", "_revs_diff", response, text);
  }

  async readDocument(id: string, signal: AbortSignal): Promise<JsonText | undefined> {
    const path = encodeDocumentId(id);
    const response = await this.#requests.ask("GET", path, {
      budget: DOCUMENT_ANSWER,
      outline: MEMBERS,
      signal,
    });
    const { text, json } = response;
    if (response.status === 404) return undefined;
    if (response.status !== 200 || json?.member("_id")?.isString(id) !== true)
      throw this.#requests.unexpected("http_error_code", path, response, text);
    return text;
  }

  async security(signal: AbortSignal): Promise<JsonText> {
    const { status, text, json } = await this.#requests.ask("GET", SECURITY, {
      budget: SECURITY_ANSWER,
      signal,
    });
    if (status === 200 && asObject(json) !== undefined) return text;
    throw this.#requests.unexpected("security_failed", SECURITY, { status }, text);
  }

  async setSecurity(body: JsonText, signal: AbortSignal): Promise<void> {
    const response = await this.#requests.ask("PUT", SECURITY, {
      body,
      budget: SHORT_ANSWER,
      signal,
    });
    if (isDone(response)) return;
    throw this.#requests.unexpected("security_failed", SECURITY, response, response.text);
  }

  async readLocal(id: string, signal: AbortSignal): Promise<CheckpointDocument | undefined> {
    const path = `_local/${percentEncode(id)}`;
    const response = await this.#requests.ask("GET", path, {
      budget: LOG_ANSWER,
      isShort,
      signal,
    });
    const { text, json } = response;
    if (response.status === 404) return undefined;
    if (NO_LOCAL.has(response.status)) {
      throw this.#requests.unexpected("read_only", path, response, text);
    }
    if (response.status !== 200 || asObject(json)?._id !== `_local/${id}`)
      throw this.#requests.unexpected("http_error_code", path, response, text);
    const { revision = "0-0", body } = parseWireDocument(text);
    return { revision, body: body.text };
  }

  async writeLocal(
    id: string,
    body: JsonText,
    parent: string | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const path = `_local/${percentEncode(id)}`;
    const document = joinObject([
      { name: "_id", value: JSON.stringify(`_local/${id}`) },
      ...(parent === undefined ? [] : [{ name: "_rev", value: JSON.stringify(parent) }]),
      ...splitObject(body),
    ]);
    const response = await this.#requests.ask("PUT", path, {
      body: document,
      budget: SHORT_ANSWER,
      isShort,
      signal,
    });
    const { text: answer, json } = response;
    if (response.status === 409) return undefined;
    if (READ_ONLY.has(response.status)) {
      throw this.#requests.unexpected("read_only", path, response, answer);
    }
    const revision = response.status < 300 ? localRevision(json, id) : undefined;
    if (revision === undefined) {
      throw this.#requests.unexpected("checkpoint_commit_failure", path, response, answer);
    }
    return revision;
  }

  async continueLog(
    id: string,
    log: JsonText,
    signal: AbortSignal,
    { madeAt }: { readonly madeAt?: string } = {},
  ): Promise<string | false | undefined> {
    if (!this.continuesLogs) return undefined;
    const parameters = madeAt === undefined ? "" : query({ instance_start_time: madeAt });
    const path = `_local/${percentEncode(id)}/_continue${parameters}`;
    const response = await this.#requests.ask("POST", path, {
      body: log,
      budget: SHORT_ANSWER,
      isShort,
      signal,
    });
    const revision = response.status === 201 ? localRevision(response.json, id) : undefined;
    if (revision !== undefined) return revision;
    if (response.status === 409) return false;
    if (NOT_OFFERED.has(response.status)) return undefined;
    throw this.#requests.unexpected("checkpoint_commit_failure", path, response, response.text);
  }

  async commit(signal: AbortSignal): Promise<string> {
    const path = "_ensure_full_commit";
    const response = await this.#requests.ask("POST", path, {
      budget: SHORT_ANSWER,
      isShort,
      signal,
    });
    const body = asObject(response.json);
    if (response.status === 201 && isDone(response) && body?.instance_start_time !== undefined) {
      return startTimeOf(body.instance_start_time);
    }
    const isFailed = response.status >= 500 && response.status !== NOT_IMPLEMENTED;
    const isOther = response.status < 400 && !isDone(response);
    if (response.status === TIMED_OUT || isFailed || isOther) {
      throw this.#requests.unexpected("checkpoint_commit_failure", path, response, response.text);
    }
    // Some services no longer support `_ensure_full_commit`, because every acknowledged write is
    // durable.
    return (await this.info(signal)).instanceStartTime;
  }
}

/** Scanning options for a document that is passed on unchanged: only its members are scanned. */
const MEMBERS = { depthMax: 1, nestingMax: Number.POSITIVE_INFINITY };

/** Whether the server confirms that it made the requested change. */
function isDone({ status, json }: Answer): boolean {
  return status >= 200 && status < 300 && asObject(json)?.ok === true;
}

/** Returns the new revision of a `_local` document, if the response is about that document. */
function localRevision(json: unknown, id: string): string | undefined {
  const { id: named, rev } = asObject(json) ?? {};
  return named === `_local/${id}` && typeof rev === "string" && rev !== "" ? rev : undefined;
}

/** Returns a number unchanged, and NaN for any other type: `Number` throws for some objects. */
function countOf(value: unknown): number {
  return typeof value === "number" ? value : Number.NaN;
}

/** Maximum stored length of a server's `instance_start_time`; CouchDB's has 16 characters. */
const START_TIME_LENGTH_MAX = 1_000;

/** Converts `instance_start_time` of a response to a string; "0" for any other type. */
function startTimeOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number"
    ? String(value).slice(0, START_TIME_LENGTH_MAX)
    : "0";
}

/**
 * Returns the time for which a server is allowed to delay a page of changes: less than the timeouts
 * of the request and of the run.
 */
function feedTimeoutMs(
  connectionTimeoutMs: number,
  stallTimeoutMs = Number.POSITIVE_INFINITY,
): number {
  const usual = Math.max(FEED_TIMEOUT_MS_MIN, connectionTimeoutMs * FEED_TIMEOUT_RATIO);
  return Math.floor(Math.min(usual, stallTimeoutMs * FEED_TIMEOUT_RATIO));
}
