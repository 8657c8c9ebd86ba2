/**
 * A database on a server that speaks the CouchDB protocol.
 *
 * The requests are those of CouchDB's own replicator (`couch_replicator_api_wrap`), with one difference: changes are read in
 * pages (`limit`, and `feed=longpoll` when continuous), which every server answers with one whole JSON text, and which bounds
 * what is held and repeated when a connection breaks.
 */
import {
  type JsonText,
  type Runtime,
  splitArray,
  splitObject,
  validateJson,
} from "../base/index.ts";
import {
  type Fetch,
  type FetchRequest,
  type FetchResponse,
  type RateLimits,
  RequestFailedError,
  type RetryOptions,
  readText,
  withHeaders,
  withRateLimit,
  withRedirects,
  withRetry,
} from "../http-client/index.ts";
import {
  encodeAttachmentName,
  encodeDocumentId,
  type MultipartParser,
  maskCredentials,
  parseWireDocument,
  type WireAttachment,
} from "../protocol/index.ts";
import {
  type BulkReadResult,
  type ChangedDocument,
  type ChangesItem,
  type ChangesRequest,
  type Endpoint,
  EndpointError,
  type EndpointInfo,
  type LocalRecord,
  type MissingRevisions,
  type PlainDocument,
  type RevisionRequest,
  type SourceSequence,
  type StreamedDocument,
  type WriteFailure,
  type WriteResult,
} from "./endpoint.ts";
import { documentUpload } from "./http-document-upload.ts";
import { readOpenRevisions } from "./http-open-revisions.ts";
import { refusalStatus } from "./refusal-status.ts";
import type { EndpointAddress, ReplicationOptions } from "./replication.ts";

/** Rows of one page of changes: a few hundred kilobytes. */
const CHANGES_ROWS_MAX = 2000;
/** CouchDB keeps request lines below this (`couch_replicator_api_wrap`); ancestors beyond it are left out. */
const URL_LENGTH_MAX = 7000;

/** Answers to a whole `_bulk_docs` that may concern one document of it, and what is said of that when the server says nothing. */
const BATCH_REFUSALS: ReadonlyMap<number, string> = new Map([
  [400, "bad_request"],
  [413, "too_large"],
  [415, "bad_content_type"],
]);

/** Answers to a PUT that say nothing of the document: the database is gone, or the server wants to be asked later. */
const NOT_ABOUT_DOCUMENTS: ReadonlySet<number> = new Set([404, 405, 408, 429]);

const JSON_TYPE = { "content-type": "application/json", accept: "application/json" };

export interface HttpEndpointParts {
  readonly runtime: Runtime;
  /** Answers once; repeats nothing. */
  readonly fetch: Fetch;
  readonly retry: RetryOptions;
  /** Those of the node: all endpoints share them. */
  readonly rateLimits: RateLimits;
  readonly parseMultipart: MultipartParser;
  readonly userAgent: string;
}

export class HttpEndpoint implements Endpoint {
  readonly shownUrl: string;
  readonly #url: string;
  readonly #parts: HttpEndpointParts;
  readonly #options: ReplicationOptions;
  readonly #once: Fetch;
  readonly #patiently: Fetch;

  constructor(
    parts: HttpEndpointParts,
    address: EndpointAddress & { kind: "http" },
    options: ReplicationOptions,
  ) {
    const headers: Record<string, string> = {
      accept: "application/json",
      "user-agent": parts.userAgent,
    };
    for (const [name, value] of Object.entries(address.headers))
      headers[name.toLowerCase()] = value;
    this.#url = address.url;
    this.shownUrl = maskCredentials(address.url);
    this.#parts = parts;
    this.#options = options;
    // What a user gave as a header may be a secret, whatever its name.
    const secretHeaders = Object.keys(address.headers).map((name) => name.toLowerCase());
    const redirected = withRedirects(parts.fetch, { secretHeaders });
    const authorized = withHeaders(redirected, headers, address.basic);
    this.#once = withRateLimit(parts.runtime, authorized, parts.rateLimits, address.url);
    this.#patiently = withRetry(parts.runtime, this.#once, parts.retry);
  }

  async create(parameters: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void> {
    const response = await this.#ask("PUT", query(parameters), { signal });
    if (response.status === 401 || response.status === 403) throw this.#refused(response.status);
  }

  async info(signal: AbortSignal): Promise<EndpointInfo> {
    const response = await this.#ask("GET", "", { signal });
    const { text } = response;
    if (response.status === 401 || response.status === 403) throw this.#refused(response.status);
    const body = response.status === 200 ? parseObject(text) : undefined;
    if (body === undefined || !("update_seq" in body)) {
      throw new EndpointError("db_not_found", `could not open ${this.shownUrl}`);
    }
    return {
      updateSequence: body.update_seq,
      instanceStartTime: String(body.instance_start_time ?? "0"),
    };
  }

  async *changes(
    request: ChangesRequest,
    signal: AbortSignal,
  ): AsyncIterable<readonly ChangesItem[]> {
    let since = request.since;
    let changeCount = 0;
    for (;;) {
      const page = await this.#changesPage(request, since, signal);
      changeCount += page.changes.length;
      const items = page.changes.map((change): ChangesItem => ({ kind: "change", change }));
      const ended = page.rowCount < CHANGES_ROWS_MAX;
      // A filtered feed may have passed more than its last row; what it passed need not be read again.
      if (ended && changeCount > 0 && !sameSequence(page.lastSequence, page.lastRowSequence)) {
        items.push({ kind: "position", sequence: page.lastSequence });
      } else if (ended && request.continuous && !sameSequence(page.lastSequence, since)) {
        items.push({ kind: "position", sequence: page.lastSequence });
      }
      if (items.length > 0) yield items;
      since = ended ? page.lastSequence : page.lastRowSequence;
      if (ended && !request.continuous) return;
    }
  }

  async pendingCount(since: SourceSequence, signal: AbortSignal): Promise<number | undefined> {
    const path = `_changes${query({ since: sequenceText(since), limit: "0" })}`;
    const response = await this.#ask("GET", path, { signal });
    if (response.status !== 200) return undefined;
    const pending = parseObject(response.text)?.pending;
    return typeof pending === "number" ? pending : undefined;
  }

  async missingRevisions(
    revisions: ReadonlyMap<string, readonly string[]>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, MissingRevisions>> {
    const body = JSON.stringify(Object.fromEntries(revisions));
    const response = await this.#ask("POST", "_revs_diff", { body, signal });
    const { text } = response;
    const answer = response.status === 200 ? splitAnswer(text) : undefined;
    if (answer === undefined)
      throw this.#unexpected("revs_diff_failed", "_revs_diff", response, text);
    return new Map(
      answer.map(({ name, value }) => {
        const { missing, possible_ancestors: ancestors } = JSON.parse(value) as {
          missing: string[];
          possible_ancestors?: string[];
        };
        return [name, { missing, possibleAncestors: ancestors ?? [] }];
      }),
    );
  }

  async readRevisions(
    requests: readonly RevisionRequest[],
    signal: AbortSignal,
  ): Promise<readonly BulkReadResult[] | undefined> {
    const docs = requests.map(({ id, revision, ancestors }) =>
      ancestors.length === 0 ? { id, rev: revision } : { id, rev: revision, atts_since: ancestors },
    );
    const path = "_bulk_get?latest=true&revs=true&attachments=false";
    const body = JSON.stringify({ docs });
    const response = await this.#ask("POST", path, { body, signal });
    if (response.status !== 200) return undefined;
    const results = splitAnswer(response.text)?.find(({ name }) => name === "results");
    if (results === undefined) return undefined;
    const rows = splitArray(results.value).map(bulkGetRow);
    return rows.length === requests.length ? rows : undefined;
  }

  async readRevision(
    request: RevisionRequest,
    consume: (document: StreamedDocument) => Promise<void>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const id = encodeDocumentId(request.id);
    let path = `${id}?revs=true&latest=true&open_revs=${encodeURIComponent(JSON.stringify([request.revision]))}`;
    const ancestors: string[] = [];
    let length = this.#url.length + path.length + "&atts_since=".length + 12;
    for (const ancestor of request.ancestors) {
      length += encodeURIComponent(ancestor).length + 9;
      if (length > URL_LENGTH_MAX) break;
      ancestors.push(ancestor);
    }
    if (ancestors.length > 0) {
      path += `&atts_since=${encodeURIComponent(JSON.stringify(ancestors))}`;
    }
    const response = await this.#send("GET", path, {
      headers: { accept: "multipart/mixed" },
      signal,
    });
    if (response.status !== 200) {
      const text = await readText(response);
      if (response.status === 404) return false;
      throw this.#unexpected("open_doc_revs_failed", path, response, text);
    }
    return readOpenRevisions(
      {
        response,
        parseMultipart: this.#parts.parseMultipart,
        readAttachment: (document, attachment) =>
          this.#readAttachment(request.id, document, attachment, signal),
      },
      consume,
    );
  }

  async readDocument(id: string, signal: AbortSignal): Promise<JsonText | undefined> {
    const path = encodeDocumentId(id);
    const response = await this.#ask("GET", path, { signal });
    const { text } = response;
    if (response.status === 404) return undefined;
    if (response.status !== 200) throw this.#unexpected("http_error_code", path, response, text);
    return text;
  }

  async writeDocuments(
    documents: readonly PlainDocument[],
    signal: AbortSignal,
  ): Promise<readonly WriteFailure[]> {
    if (documents.length === 0) return [];
    const texts = documents.map(({ text }) => text).join(",");
    const body = `{"new_edits":false,"docs":[${texts}]}`;
    const response = await this.#ask("POST", "_bulk_docs", {
      body,
      headers: { "x-couch-full-commit": "false" },
      signal,
    });
    const { text } = response;
    if (BATCH_REFUSALS.has(response.status)) {
      return this.#writeHalves(documents, response.status, text, signal);
    }
    if (response.status !== 201 && response.status !== 417) {
      throw this.#unexpected("bulk_docs_failed", "_bulk_docs", response, text);
    }
    const failures = bulkFailures(documents, text);
    if (failures !== undefined) return failures;
    throw this.#unexpected("bulk_docs_failed", "_bulk_docs", response, text);
  }

  async writeDocument(document: StreamedDocument, signal: AbortSignal): Promise<WriteResult> {
    const { random } = this.#parts.runtime;
    const upload = documentUpload(document, random);
    const response = await this.#once({
      method: "PUT",
      url: `${this.#url}${encodeDocumentId(document.id)}?new_edits=false`,
      headers: { "content-type": upload.contentType, "x-couch-full-commit": "false" },
      body: upload.body,
      inactivityTimeoutMs: this.#options.connectionTimeoutMs,
      signal,
    });
    const text = await readText(response);
    if (response.status >= 200 && response.status < 300) return { kind: "written" };
    const { error, reason } = parseObject(text) ?? {};
    if (response.status === 412 && error === "missing_stub") return { kind: "missing-stub" };
    const isRefusal = response.status >= 400 && response.status < 500;
    if (!isRefusal || NOT_ABOUT_DOCUMENTS.has(response.status)) {
      throw this.#unexpected("doc_write_failed", encodeDocumentId(document.id), response, text);
    }
    const { revision = "" } = parseWireDocument(document.text);
    return {
      kind: "refused",
      failure: {
        id: document.id,
        revision,
        status: response.status,
        error: typeof error === "string" ? error : `http_${response.status}`,
        reason: typeof reason === "string" ? reason : "",
      },
    };
  }

  async readLocal(id: string, signal: AbortSignal): Promise<LocalRecord | undefined> {
    const path = `_local/${encodeURIComponent(id)}`;
    const response = await this.#ask("GET", path, { signal });
    const { text } = response;
    if (response.status === 404) return undefined;
    if (response.status !== 200) throw this.#unexpected("http_error_code", path, response, text);
    const { revision = "0-0", body } = parseWireDocument(text);
    return { revision, body };
  }

  async writeLocal(
    id: string,
    body: JsonText,
    parent: string | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const path = `_local/${encodeURIComponent(id)}`;
    const text = JSON.stringify({
      _id: `_local/${id}`,
      ...(parent === undefined ? {} : { _rev: parent }),
      ...JSON.parse(body),
    });
    const response = await this.#ask("PUT", path, { body: text, signal });
    const answer = response.text;
    if (response.status === 409) return undefined;
    const revision = response.status < 300 ? parseObject(answer)?.rev : undefined;
    if (typeof revision !== "string") {
      throw this.#unexpected("checkpoint_commit_failure", path, response, answer);
    }
    return revision;
  }

  async commit(signal: AbortSignal): Promise<string> {
    const response = await this.#ask("POST", "_ensure_full_commit", { signal });
    const body = parseObject(response.text);
    if (response.status === 201 && body?.instance_start_time !== undefined) {
      return String(body.instance_start_time);
    }
    // Some services have dropped the call: what they acknowledge is durable.
    return (await this.info(signal)).instanceStartTime;
  }

  async #changesPage(
    request: ChangesRequest,
    since: SourceSequence,
    signal: AbortSignal,
  ): Promise<ChangesPage> {
    const { selection, continuous, winningRevisionsOnly } = request;
    const parameters: Record<string, string> = {
      feed: continuous ? "longpoll" : "normal",
      style: winningRevisionsOnly ? "main_only" : "all_docs",
      since: sequenceText(since),
      timeout: String(Math.max(1000, Math.floor(this.#options.connectionTimeoutMs / 3))),
      limit: String(CHANGES_ROWS_MAX),
    };
    let body: string | undefined;
    if (selection.kind === "doc-ids") {
      parameters.filter = "_doc_ids";
      body = JSON.stringify({ doc_ids: selection.ids });
    } else if (selection.kind === "selector") {
      parameters.filter = "_selector";
      body = JSON.stringify({ selector: selection.selector });
    } else if (selection.kind === "filter") {
      parameters.filter = selection.name;
      for (const [name, value] of Object.entries(selection.queryParameters)) {
        parameters[name] ??= typeof value === "string" ? value : JSON.stringify(value);
      }
    }
    const path = `_changes${query(parameters)}`;
    const response = await this.#ask(body === undefined ? "GET" : "POST", path, {
      ...(body === undefined ? {} : { body }),
      signal,
    });
    const { text } = response;
    if (response.status === 401 || response.status === 403) throw this.#refused(response.status);
    const page = response.status === 200 ? parseChangesPage(text, since) : undefined;
    if (page === undefined) throw this.#unexpected("changes_req_failed", path, response, text);
    return page;
  }

  /** The target took none of them, because of some: sends halves, down to those that it does not take by themselves. */
  async #writeHalves(
    documents: readonly PlainDocument[],
    status: number,
    answer: string,
    signal: AbortSignal,
  ): Promise<readonly WriteFailure[]> {
    const [only] = documents;
    if (documents.length === 1 && only !== undefined) {
      const { revision = "" } = parseWireDocument(only.text);
      const { error, reason } = parseObject(answer) ?? {};
      return [
        {
          id: only.id,
          revision,
          status,
          error: typeof error === "string" ? error : (BATCH_REFUSALS.get(status) ?? "bad_request"),
          reason: typeof reason === "string" ? reason : "",
        },
      ];
    }
    const middle = Math.floor(documents.length / 2);
    return [
      ...(await this.writeDocuments(documents.slice(0, middle), signal)),
      ...(await this.writeDocuments(documents.slice(middle), signal)),
    ];
  }

  /** For servers that answer `open_revs` without the attachments' bytes: one request for each. */
  async *#readAttachment(
    id: string,
    revision: string,
    { name }: WireAttachment,
    signal: AbortSignal,
  ): AsyncIterable<Uint8Array> {
    const path = `${encodeDocumentId(id)}/${encodeAttachmentName(name)}?rev=${revision}`;
    const response = await this.#send("GET", path, { headers: { accept: "*/*" }, signal });
    if (response.status !== 200) {
      throw this.#unexpected("attachment_read_failed", path, response, await readText(response));
    }
    yield* response.body;
  }

  /** A whole answer: one that breaks off is asked for again, like one that does not come. */
  async #ask(method: Method, path: string, parts: RequestParts): Promise<Answer> {
    let text = "";
    const fetchWhole: Fetch = async (request) => {
      const response = await this.#once(request);
      text = await readText(response);
      if (response.status < 300 && isBroken(text)) {
        const details = { method, url: this.shownUrl + shownPath(path), cause: "BODY_BROKEN_OFF" };
        throw new RequestFailedError(details);
      }
      return response;
    };
    const { runtime, retry } = this.#parts;
    const response = await withRetry(
      runtime,
      fetchWhole,
      retry,
    )(this.#request(method, path, parts));
    return { status: response.status, text };
  }

  /** An answer whose body is still to be read. */
  #send(method: Method, path: string, parts: RequestParts): Promise<FetchResponse> {
    return this.#patiently(this.#request(method, path, parts));
  }

  #request(method: Method, path: string, parts: RequestParts): FetchRequest {
    const typed = method === "GET" ? {} : JSON_TYPE;
    return {
      method,
      url: this.#url + path,
      headers: { ...typed, ...parts.headers },
      ...(parts.body === undefined ? {} : { body: parts.body }),
      inactivityTimeoutMs: this.#options.connectionTimeoutMs,
      signal: parts.signal,
    };
  }

  #refused(status: number): EndpointError {
    return new EndpointError(
      status === 401 ? "unauthorized" : "forbidden",
      `unauthorized to access or create database ${this.shownUrl}`,
    );
  }

  #unexpected(
    error: string,
    path: string,
    { status }: { readonly status: number },
    text: string,
  ): EndpointError {
    const { error: theirs, reason } = parseObject(text) ?? {};
    const said = theirs === undefined ? "" : ` ${String(theirs)}: ${String(reason)}`;
    return new EndpointError(error, `${status} from ${this.shownUrl}${shownPath(path)}${said}`);
  }
}

type Method = "GET" | "PUT" | "POST";

interface RequestParts {
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

function shownPath(path: string): string {
  return path.replace(/\?.*$/s, "");
}

/** Whether an answer begins as JSON and is none, or is empty: a proxy may end a body in good order that broke off. */
function isBroken(text: string): boolean {
  const first = text.trimStart()[0];
  if (first !== undefined && first !== "{" && first !== "[") return false;
  try {
    validateJson(text);
    return false;
  } catch {
    return true;
  }
}

interface ChangesPage {
  readonly changes: readonly ChangedDocument[];
  readonly rowCount: number;
  readonly lastRowSequence: SourceSequence;
  readonly lastSequence: SourceSequence;
}

interface ChangesRow {
  readonly seq: unknown;
  readonly id?: unknown;
  readonly changes?: readonly { readonly rev: string }[];
}

function parseChangesPage(text: string, since: SourceSequence): ChangesPage | undefined {
  const body = parseObject(text);
  if (!Array.isArray(body?.results)) return undefined;
  const rows = body.results as ChangesRow[];
  const changes: ChangedDocument[] = [];
  for (const { id, seq, changes: revisions } of rows) {
    // CouchDB skips rows without an id, too: there is nothing that could be asked for.
    if (typeof id !== "string" || id === "" || !Array.isArray(revisions)) continue;
    changes.push({
      id,
      sequence: seq,
      revisions: revisions.map(({ rev }) => rev),
      sizeBytes: id.length + 50 * revisions.length + 150,
    });
  }
  const lastRowSequence = rows.length === 0 ? since : (rows.at(-1) as ChangesRow).seq;
  const lastSequence = body.last_seq ?? lastRowSequence;
  return { changes, rowCount: rows.length, lastRowSequence, lastSequence };
}

/** The rows of a `_bulk_docs` answer that name an error; undefined when they do not fit what was sent. */
function bulkFailures(
  documents: readonly PlainDocument[],
  text: string,
): WriteFailure[] | undefined {
  const answer = parseArray(text);
  const rows = answer?.filter((row) => row?.error !== undefined);
  if (rows === undefined || rows.length === 0) return rows && [];
  const sent = new Map<unknown, string[]>();
  for (const { id, text: sentText } of documents) {
    const { revision = "" } = parseWireDocument(sentText);
    sent.set(id, [...(sent.get(id) ?? []), revision]);
  }
  const failures: WriteFailure[] = [];
  for (const { id, rev, status, error, reason } of rows) {
    const revisions = sent.get(id);
    if (revisions === undefined) return undefined;
    // A row without a revision may mean any that was sent of the document: none of them counts as written.
    const meant = typeof rev === "string" && revisions.includes(rev) ? [rev] : revisions;
    for (const revision of meant) {
      failures.push({
        id: String(id),
        revision,
        status: typeof status === "number" ? status : refusalStatus(String(error)),
        error: String(error),
        reason: typeof reason === "string" ? reason : JSON.stringify(reason ?? ""),
      });
    }
  }
  return failures;
}

function parseArray(text: string): Partial<Record<string, unknown>>[] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function bulkGetRow(row: JsonText): BulkReadResult {
  const docs = splitObject(row).find(({ name }) => name === "docs")?.value ?? "[]";
  const documents: PlainDocument[] = [];
  for (const item of splitArray(docs)) {
    const ok = splitObject(item).find(({ name }) => name === "ok");
    if (ok === undefined) return { kind: "separately" };
    const { id, attachments } = parseWireDocument(ok.value);
    if (id === undefined || attachments.length > 0) return { kind: "separately" };
    documents.push({ id, text: ok.value });
  }
  return documents.length === 0 ? { kind: "separately" } : { kind: "documents", documents };
}

function splitAnswer(text: string): { name: string; value: JsonText }[] | undefined {
  try {
    return splitObject(text);
  } catch {
    return undefined;
  }
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

function sequenceText(sequence: SourceSequence): string {
  return typeof sequence === "string" ? sequence : JSON.stringify(sequence);
}

function sameSequence(left: SourceSequence, right: SourceSequence): boolean {
  return sequenceText(left) === sequenceText(right);
}

function query(parameters: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(parameters).map(
    ([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`,
  );
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}
