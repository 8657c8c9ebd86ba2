/** Documents from a server: many at once by `_bulk_get`, or one revision with its attachments. */
import { type JsonText, splitArray, splitObject } from "../base/index.ts";
import { readText } from "../http-client/index.ts";
import {
  encodeAttachmentName,
  encodeDocumentId,
  type MultipartParser,
  parseWireDocument,
  type WireAttachment,
} from "../protocol/index.ts";
import type {
  BulkReadResult,
  PlainDocument,
  RevisionRequest,
  StreamedDocument,
} from "./endpoint.ts";
import { readOpenRevisions } from "./http-open-revisions.ts";
import type { HttpRequests } from "./http-requests.ts";
import { splitAnswer } from "./json-answer.ts";

/** CouchDB keeps request lines below this (`couch_replicator_api_wrap`); ancestors beyond it are left out. */
const URL_LENGTH_MAX = 7000;

export class HttpDocumentReader {
  readonly #requests: HttpRequests;
  readonly #parseMultipart: MultipartParser;

  constructor(requests: HttpRequests, parseMultipart: MultipartParser) {
    this.#requests = requests;
    this.#parseMultipart = parseMultipart;
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
    const response = await this.#requests.ask("POST", path, { body, signal });
    if (response.status !== 200) return undefined;
    const results = splitAnswer(response.text)?.find(({ name }) => name === "results");
    if (results === undefined) return undefined;
    const rows = splitArray(results.value);
    if (rows.length !== requests.length) return undefined;
    const read: BulkReadResult[] = [];
    for (const [index, row] of rows.entries()) {
      const result = bulkGetRow(row, (requests[index] as RevisionRequest).id);
      // In another order than asked for, a row that names an error says nothing of what is missing.
      if (result === undefined) return undefined;
      read.push(result);
    }
    return read;
  }

  async readRevision(
    request: RevisionRequest,
    consume: (document: StreamedDocument) => Promise<void>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const id = encodeDocumentId(request.id);
    let path = `${id}?revs=true&latest=true&open_revs=${encodeURIComponent(JSON.stringify([request.revision]))}`;
    const ancestors: string[] = [];
    let length = this.#requests.url.length + path.length + "&atts_since=".length + 12;
    for (const ancestor of request.ancestors) {
      length += encodeURIComponent(ancestor).length + 9;
      if (length > URL_LENGTH_MAX) break;
      ancestors.push(ancestor);
    }
    if (ancestors.length > 0) {
      path += `&atts_since=${encodeURIComponent(JSON.stringify(ancestors))}`;
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
        parseMultipart: this.#parseMultipart,
        readAttachment: (document, attachment) =>
          this.#readAttachment(request.id, document, attachment, signal),
      },
      consume,
    );
  }

  /** For servers that answer `open_revs` without the attachments' bytes: one request for each. */
  async *#readAttachment(
    id: string,
    revision: string,
    { name }: WireAttachment,
    signal: AbortSignal,
  ): AsyncIterable<Uint8Array> {
    const path = `${encodeDocumentId(id)}/${encodeAttachmentName(name)}?rev=${revision}`;
    const response = await this.#requests.send("GET", path, { headers: { accept: "*/*" }, signal });
    if (response.status !== 200) {
      throw this.#requests.unexpected(
        "attachment_read_failed",
        path,
        response,
        await readText(response),
      );
    }
    yield* response.body;
  }
}

/** What a row says of the document that was asked for; undefined when it speaks of another one. */
function bulkGetRow(row: JsonText, asked: string): BulkReadResult | undefined {
  const members = splitObject(row);
  const named = members.find(({ name }) => name === "id")?.value;
  if (named !== undefined && JSON.parse(named) !== asked) return undefined;
  const docs = members.find(({ name }) => name === "docs")?.value ?? "[]";
  const documents: PlainDocument[] = [];
  for (const item of splitArray(docs)) {
    const ok = splitObject(item).find(({ name }) => name === "ok");
    if (ok === undefined) return { kind: "separately" };
    const { id, attachments } = parseWireDocument(ok.value);
    if (id !== asked || attachments.length > 0) return { kind: "separately" };
    documents.push({ id, text: ok.value });
  }
  return documents.length === 0 ? { kind: "separately" } : { kind: "documents", documents };
}
