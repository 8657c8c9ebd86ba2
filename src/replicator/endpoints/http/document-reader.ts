/** Reads documents from a server: many with `_bulk_get`, or one revision with its attachments. */
import type { JsonValue, Runtime } from "../../../base/index.ts";
import { type EndpointSpending, type FetchResponse, readText } from "../../../http-client/index.ts";
import {
  encodeAttachmentName,
  encodeDocumentId,
  type MultipartParser,
  percentEncode,
  type WireAttachment,
} from "../../../protocol/index.ts";
import { attachmentMd5 } from "../attachment-md5.ts";
import {
  type BulkReadResult,
  EndpointError,
  type EndpointReader,
  InvalidDocumentError,
  type ReadRevisionsOptions,
  type RevisionRequest,
  type StreamedDocument,
} from "../endpoint.ts";
import { suspicionOf } from "../suspicion.ts";
import { BULK_GET_ANSWER, SHORT_ANSWER } from "./answer-budget.ts";
import { BULK_GET, BULK_GET_WITH_ATTACHMENTS, parseBulkGet } from "./bulk-get-answer.ts";
import { readOpenRevisions } from "./open-revisions.ts";
import { ANSWER_TOO_LONG, type Answer, type HttpRequests } from "./requests.ts";

/**
 * Maximum length of a request line, as in CouchDB (`couch_replicator_api_wrap`). Ancestors that do
 * not fit are omitted.
 */
const URL_LENGTH_MAX = 7000;

/** Maximum number of documents in a request whose response is expected to be short. */
const FEW_DOCUMENTS = 20;

export interface HttpDocumentReaderParts {
  readonly runtime: Runtime;
  readonly parseMultipart: MultipartParser;
  /**
   * Budgets of the endpoint, to which read documents are charged. Requests and bytes are charged by
   * `fetch`.
   */
  readonly spending?: EndpointSpending | undefined;
}

export class HttpDocumentReader implements EndpointReader {
  readonly #parts: HttpDocumentReaderParts;
  readonly #requests: HttpRequests;

  constructor(parts: HttpDocumentReaderParts, requests: HttpRequests) {
    this.#parts = parts;
    this.#requests = requests;
  }

  async readRevisions(
    requests: readonly RevisionRequest[],
    signal: AbortSignal,
    { once = false, attachments = false }: ReadRevisionsOptions = {},
  ): Promise<readonly BulkReadResult[] | undefined> {
    await this.#parts.spending?.read.spend("documents", requests.length, signal);
    const docs = requests.map(({ id, revision, ancestors }) =>
      ancestors.length === 0 ? { id, rev: revision } : { id, rev: revision, atts_since: ancestors },
    );
    const path = `_bulk_get?latest=true&revs=true&attachments=${attachments}&att_encoding_info=true`;
    const body = JSON.stringify({ docs });
    const isShort = !attachments && requests.length <= FEW_DOCUMENTS;
    let answer: Answer<JsonValue>;
    try {
      answer = await this.#requests.ask("POST", path, {
        body,
        budget: BULK_GET_ANSWER,
        outline: attachments ? BULK_GET_WITH_ATTACHMENTS : BULK_GET,
        once,
        isShort,
        signal,
      });
    } catch (error) {
      const isLong = error instanceof EndpointError && error.error === ANSWER_TOO_LONG;
      if (!isLong && !(await this.#isThere(error, signal))) throw error;
      // Because of one document, the response is too large, is too slow or breaks off: request each
      // document individually.
      return undefined;
    }
    return answer.status === 200 ? parseBulkGet(answer.json, requests, { attachments }) : undefined;
  }

  /** Whether the server responds at all. Called after a request got no response. */
  async #isThere(error: unknown, signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    if (suspicionOf(error) === undefined) return false;
    try {
      return (
        (await this.#requests.ask("GET", "", { budget: SHORT_ANSWER, once: true, signal }))
          .status === 200
      );
    } catch {
      signal.throwIfAborted();
      return false;
    }
  }

  async readRevision(
    request: RevisionRequest,
    consume: (document: StreamedDocument) => Promise<void>,
    signal: AbortSignal,
  ): Promise<boolean> {
    await this.#parts.spending?.read.spend("documents", 1, signal);
    const id = encodeDocumentId(request.id);
    let path = `${id}?revs=true&latest=true&open_revs=${percentEncode(JSON.stringify([request.revision]))}`;
    const ancestors: string[] = [];
    let length = this.#requests.url.length + path.length + "&atts_since=".length + 12;
    for (const ancestor of request.ancestors) {
      length += percentEncode(ancestor).length + 9;
      if (length > URL_LENGTH_MAX) break;
      ancestors.push(ancestor);
    }
    if (ancestors.length > 0) {
      path += `&atts_since=${percentEncode(JSON.stringify(ancestors))}`;
    }
    const response = await this.#requests.send("GET", path, {
      headers: { accept: "multipart/mixed" },
      signal,
    });
    if (response.status !== 200) {
      const text = await readText(response);
      if (response.status === 404) return false;
      throw this.#requests.unexpected("open_doc_revs_failed", path, response, text);
    }
    return readOpenRevisions(
      {
        response,
        compression: this.#parts.runtime.compression,
        outline: (bytes, limits) => this.#requests.outline(bytes, path, limits),
        parseMultipart: this.#parts.parseMultipart,
        readAttachment: (document, attachment) =>
          this.#readAttachment(request.id, document, attachment, signal),
      },
      (document) => {
        if (document.id === request.id) return consume(document);
        throw new InvalidDocumentError(
          "bad_request",
          "The source sent a different document than requested",
        );
      },
    );
  }

  async attachmentMd5(
    { id, revision }: Pick<RevisionRequest, "id" | "revision">,
    name: string,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { runtime } = this.#parts;
    let response: FetchResponse;
    try {
      response = await this.#attachment(id, revision, name, signal);
    } catch (error) {
      if (error instanceof EndpointError && error.answer?.status === 404) return undefined;
      throw error;
    }
    return attachmentMd5(runtime, response.body);
  }

  /**
   * Reads an attachment with a separate request, for servers that respond to `open_revs` without
   * the bytes of attachments.
   */
  async *#readAttachment(
    id: string,
    revision: string,
    { name, encoding }: WireAttachment,
    signal: AbortSignal,
  ): AsyncIterable<Uint8Array> {
    // `Accept-Encoding` lets the server send an encoded attachment as stored.
    const headers = encoding === undefined ? {} : { "accept-encoding": encoding };
    yield* (await this.#attachment(id, revision, name, signal, headers)).body;
  }

  async #attachment(
    id: string,
    revision: string,
    name: string,
    signal: AbortSignal,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<FetchResponse> {
    const path = `${encodeDocumentId(id)}/${encodeAttachmentName(name)}?rev=${percentEncode(revision)}`;
    const response = await this.#requests.send("GET", path, {
      headers: { accept: "*/*", ...headers },
      signal,
    });
    if (response.status === 200) return response;
    const text = await readText(response);
    throw this.#requests.unexpected("attachment_read_failed", path, response, text);
  }
}
