/** Documents to a server: many at once by `_bulk_docs`, or one with its attachments; and what it says of those it does not take. */
import { type Random, Utf8Writer } from "../base/index.ts";
import { readText } from "../http-client/index.ts";
import { encodeDocumentId } from "../protocol/index.ts";
import type { PlainDocument, StreamedDocument, WriteFailure, WriteResult } from "./endpoint.ts";
import { documentUpload } from "./http-document-upload.ts";
import type { Answer, HttpRequests } from "./http-requests.ts";
import { parseObject, serverAnswer } from "./json-answer.ts";
import { namedRevision } from "./named-revision.ts";
import { mayConcernDocument, refusalStatus } from "./refusal-status.ts";

/** Answers to a whole `_bulk_docs` that may concern one document of it, and what is said of that when the server says nothing. */
const BATCH_REFUSALS: ReadonlyMap<number, string> = new Map([
  [400, "bad_request"],
  [413, "too_large"],
  [415, "bad_content_type"],
]);

/** Answers with a row for each document. A cluster says 202 while some of its nodes are away. */
const BATCH_TAKEN: ReadonlySet<number> = new Set([201, 202, 417]);

export class HttpDocumentWriter {
  readonly #requests: HttpRequests;
  readonly #random: Random;

  constructor(requests: HttpRequests, random: Random) {
    this.#requests = requests;
    this.#random = random;
  }

  async writeDocuments(
    documents: readonly PlainDocument[],
    signal: AbortSignal,
    { once = false }: { readonly once?: boolean } = {},
  ): Promise<readonly WriteFailure[]> {
    if (documents.length === 0) return [];
    const body = bulkBody(documents);
    const response = await this.#requests.ask("POST", "_bulk_docs", {
      body,
      headers: { "x-couch-full-commit": "false" },
      once,
      signal,
    });
    const { text } = response;
    if (BATCH_REFUSALS.has(response.status)) {
      return this.#writeHalves(documents, response, signal, { once });
    }
    if (!BATCH_TAKEN.has(response.status)) {
      throw this.#requests.unexpected("bulk_docs_failed", "_bulk_docs", response, text);
    }
    const failures = bulkFailures(documents, response.json);
    if (failures !== undefined) return failures;
    throw this.#requests.unexpected("bulk_docs_failed", "_bulk_docs", response, text);
  }

  async writeDocument(document: StreamedDocument, signal: AbortSignal): Promise<WriteResult> {
    const upload = documentUpload(document, this.#random);
    const path = `${encodeDocumentId(document.id)}?new_edits=false`;
    const response = await this.#requests.sendOnce("PUT", path, {
      headers: { "content-type": upload.contentType, "x-couch-full-commit": "false" },
      body: upload.body,
      signal,
    });
    const text = await readText(response);
    if (response.status >= 200 && response.status < 300) return { kind: "written" };
    const answer = serverAnswer(response.status, text);
    if (answer.status === 412 && answer.error === "missing_stub") return { kind: "missing-stub" };
    if (answer.status >= 500 || !mayConcernDocument(answer.status)) {
      throw this.#requests.unexpected(
        "doc_write_failed",
        encodeDocumentId(document.id),
        response,
        text,
      );
    }
    return {
      kind: "refused",
      failure: { id: document.id, revision: namedRevision(document.text), ...answer },
    };
  }

  /** The target took none of them, because of some: sends halves, down to those that it does not take by themselves. */
  async #writeHalves(
    documents: readonly PlainDocument[],
    { status, text }: Answer,
    signal: AbortSignal,
    options: { readonly once: boolean },
  ): Promise<readonly WriteFailure[]> {
    const [only] = documents;
    if (documents.length === 1 && only !== undefined) {
      const { error, reason } = parseObject(text) ?? {};
      return [
        {
          id: only.id,
          revision: namedRevision(only.text),
          status,
          error: typeof error === "string" ? error : (BATCH_REFUSALS.get(status) ?? "bad_request"),
          reason: typeof reason === "string" ? reason : "",
        },
      ];
    }
    const middle = Math.floor(documents.length / 2);
    return [
      ...(await this.writeDocuments(documents.slice(0, middle), signal, options)),
      ...(await this.writeDocuments(documents.slice(middle), signal, options)),
    ];
  }
}

function bulkBody(documents: readonly PlainDocument[]): Uint8Array {
  let length = 0;
  for (const document of documents) length += document.length + MARGIN_CHARACTERS;
  const writer = new Utf8Writer(length);
  let before = '{"new_edits":false,"docs":[';
  for (const document of documents) {
    writer.text(before);
    document.writeTo(writer);
    before = ",";
  }
  writer.text("]}");
  return writer.finish();
}

/** For what a document's length leaves out, and for a few characters that take more than a byte. */
const MARGIN_CHARACTERS = 256;

/** The rows of a `_bulk_docs` answer that name an error; undefined when they do not fit what was sent. */
function bulkFailures(
  documents: readonly PlainDocument[],
  answer: unknown,
): WriteFailure[] | undefined {
  if (!Array.isArray(answer)) return undefined;
  const rows = (answer as (Partial<Record<string, unknown>> | null)[]).filter(
    (row) => row?.error !== undefined,
  );
  if (rows.length === 0) return [];
  const sent = new Map<unknown, string[]>();
  for (const { id, text } of documents) {
    sent.set(id, [...(sent.get(id) ?? []), namedRevision(text)]);
  }
  const failures: WriteFailure[] = [];
  for (const row of rows) {
    const { id, rev, status, error, reason } = row as Partial<Record<string, unknown>>;
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
