/**
 * Writes documents to a server: many with `_bulk_docs`, or one with its attachments. Interprets the
 * errors of the server for documents that it rejects.
 */
import { append, type Runtime, Utf8Writer } from "../../../base/index.ts";
import { writeInHalves } from "../../../documents/index.ts";
import { type EndpointSpending, readText } from "../../../http-client/index.ts";
import { encodeDocumentId, ProtocolError, type WireDocument } from "../../../protocol/index.ts";
import { digestFailure } from "../attachment-digests.ts";
import type {
  EndpointWriter,
  PlainDocument,
  StreamedDocument,
  WriteFailure,
  WriteResult,
} from "../endpoint.ts";
import { namedRevision } from "../named-revision.ts";
import { mayConcernDocument, refusalStatus } from "../refusal-status.ts";
import { writtenAnswer } from "./answer-budget.ts";
import { documentUpload } from "./document-upload.ts";
import { asObject, isBroken, parseJson, parseObject } from "./json-answer.ts";
import type { Answer, HttpRequests } from "./requests.ts";
import type { ServerWords } from "./server-words.ts";

/**
 * Error names by status code, for a `_bulk_docs` response without an error name. With these
 * statuses, a server rejects the whole request, although a single document might be the cause.
 */
const BATCH_REFUSALS: ReadonlyMap<number, string> = new Map([
  [400, "bad_request"],
  [413, "too_large"],
  [415, "bad_content_type"],
]);

/**
 * Status codes of responses with a row per document. A cluster responds with 202 while some of its
 * nodes are down.
 */
const BATCH_TAKEN: ReadonlySet<number> = new Set([201, 202, 417]);

export interface HttpDocumentWriterParts {
  readonly runtime: Runtime;
  readonly spending?: EndpointSpending | undefined;
}

export class HttpDocumentWriter implements EndpointWriter {
  readonly #parts: HttpDocumentWriterParts;
  readonly #requests: HttpRequests;

  constructor(parts: HttpDocumentWriterParts, requests: HttpRequests) {
    this.#parts = parts;
    this.#requests = requests;
  }

  async writeDocuments(
    documents: readonly PlainDocument[],
    signal: AbortSignal,
    { once = false }: { readonly once?: boolean } = {},
  ): Promise<readonly WriteFailure[]> {
    await this.#parts.spending?.write.spend("documents", documents.length, signal);
    const failures: WriteFailure[] = [];
    await writeInHalves(this.#sound(documents, failures), {
      write: async (batch) => {
        const answer = await this.#requests.ask("POST", "_bulk_docs", {
          body: bulkBody(batch),
          headers: { "x-couch-full-commit": "false" },
          budget: writtenAnswer(batch.length),
          once,
          isShort: true,
          signal,
        });
        // The target rejected the whole batch because of some of its documents: find them by
        // splitting the batch.
        if (BATCH_REFUSALS.has(answer.status)) return [{ items: batch, cause: answer }];
        append(failures, this.#rowFailures(batch, answer));
        return [];
      },
      refuse: (document, answer) => {
        failures.push(batchRefusal(document, answer, this.#requests.words));
      },
    });
    return failures;
  }

  async writeDocument(document: StreamedDocument, signal: AbortSignal): Promise<WriteResult> {
    await this.#parts.spending?.write.spend("documents", 1, signal);
    const upload = documentUpload(document, this.#parts.runtime.random);
    const { id } = document;
    const revision = namedRevision(document.text);
    const path = `${encodeDocumentId(id)}?new_edits=false`;
    const response = await this.#requests.sendOnce("PUT", path, {
      headers: { "content-type": upload.contentType, "x-couch-full-commit": "false" },
      body: upload.body,
      signal,
    });
    const text = await readText(response);
    if (response.status >= 200 && response.status < 300) {
      const written = parseJson(text);
      if (isWritten(asObject(written), id, revision)) return { kind: "written" };
      if (written === undefined && isBroken(text)) throw this.#requests.brokenOff("PUT", path);
      const wanted = `the id and revision ${revision} that were sent`;
      throw this.#requests.misread("doc_write_failed", path, response, { text, wanted });
    }
    const answer = this.#requests.words.answer(response.status, text);
    if (answer.status === 412 && answer.error === "missing_stub") return { kind: "missing-stub" };
    if (answer.status >= 500 || !mayConcernDocument(answer.status)) {
      throw this.#requests.unexpected("doc_write_failed", path, response, text);
    }
    return { kind: "refused", failure: { id, revision, ...answer } };
  }

  /**
   * Returns the documents whose attachments match their digests, and adds the others to `failures`.
   * The server cannot detect a mismatch, because it computes new digests for inlined bytes.
   */
  #sound(documents: readonly PlainDocument[], failures: WriteFailure[]): readonly PlainDocument[] {
    const { digests } = this.#parts.runtime;
    return documents.filter((document) => {
      const wire = document.holdsAttachments === true ? readWire(document) : undefined;
      if (wire === undefined) return true;
      const { revision = "" } = wire;
      const failure = digestFailure(wire, { id: document.id, revision }, digests);
      if (failure !== undefined) failures.push(failure);
      return failure === undefined;
    });
  }

  #rowFailures(documents: readonly PlainDocument[], answer: Answer): readonly WriteFailure[] {
    const failures = BATCH_TAKEN.has(answer.status)
      ? bulkFailures(documents, answer.json, this.#requests.words)
      : undefined;
    if (failures !== undefined) return failures;
    throw this.#requests.unexpected("bulk_docs_failed", "_bulk_docs", answer, answer.text);
  }
}

/**
 * Parses a document. Returns `undefined` for an invalid document, which is left for the target to
 * reject.
 */
function readWire(document: PlainDocument): WireDocument | undefined {
  try {
    return document.wire;
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

/**
 * Whether a response confirms this revision of this document. Letter case is ignored, because
 * CouchDB changes hashes to lower case.
 */
function isWritten(
  answer: Record<string, unknown> | undefined,
  id: string,
  revision: string,
): boolean {
  const { id: named, rev } = answer ?? {};
  return named === id && typeof rev === "string" && rev.toLowerCase() === revision.toLowerCase();
}

/** Returns the failure of a document that the target rejects even when it is written alone. */
function batchRefusal(
  { id, text: sent }: PlainDocument,
  { status, text }: Answer,
  words: ServerWords,
): WriteFailure {
  const { error, reason } = parseObject(text) ?? {};
  return {
    id,
    revision: namedRevision(sent),
    status,
    error:
      typeof error === "string"
        ? words.shown(error)
        : (BATCH_REFUSALS.get(status) ?? "bad_request"),
    reason: typeof reason === "string" ? words.shown(reason) : "",
  };
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

/**
 * Characters reserved per document in addition to its approximate length: for parts that the length
 * does not include, and for a few multi-byte characters.
 */
const MARGIN_CHARACTERS = 256;

/**
 * Returns the failures reported in a `_bulk_docs` response, or `undefined` if an element is not a
 * row or does not match the request. CouchDB returns rows only for rejected documents. A server
 * that also returns rows for accepted documents must return a row for each document.
 */
function bulkFailures(
  documents: readonly PlainDocument[],
  answer: unknown,
  words: ServerWords,
): WriteFailure[] | undefined {
  if (!Array.isArray(answer) || !answer.every(isRow)) return undefined;
  if (answer.length === 0) return [];
  const sent = new Map<unknown, string[]>();
  for (const { id, text } of documents) {
    sent.set(id, [...(sent.get(id) ?? []), namedRevision(text)]);
  }
  const failures: WriteFailure[] = [];
  const confirmed = new Set<string>();
  for (const row of answer) {
    const { id, rev, status, error, reason } = row;
    const revisions = sent.get(id);
    if (revisions === undefined) return undefined;
    if (error === undefined) {
      // A row confirms a document only if it names the revision that was sent: the server might
      // have assigned a different revision.
      const written = revisions.filter((revision) => isWritten(row, String(id), revision));
      if (written.length === 0) return undefined;
      for (const revision of written) confirmed.add(keyOf(id, revision));
      continue;
    }
    // A row without a revision can refer to any revision sent for the document. If the row is an
    // error, all of these revisions count as not written.
    const meant = typeof rev === "string" && revisions.includes(rev) ? [rev] : revisions;
    for (const revision of meant) {
      failures.push({
        id: String(id),
        revision,
        status: isStatus(status) ? status : refusalStatus(words.shown(error)),
        error: words.shown(error),
        reason: words.shown(reason ?? ""),
      });
    }
  }
  if (confirmed.size === 0) return failures;
  for (const { id, revision } of failures) confirmed.add(keyOf(id, revision));
  const isComplete = documents.every(({ id, text }) =>
    confirmed.has(keyOf(id, namedRevision(text))),
  );
  return isComplete ? failures : undefined;
}

const keyOf = (id: unknown, revision: string): string => JSON.stringify([id, revision]);

/** Whether an element of the response describes a document. Its members depend on the server. */
function isRow(element: unknown): element is Partial<Record<string, unknown>> {
  const row = asObject(element);
  return row !== undefined && ROW_MEMBERS.some((name) => row[name] !== undefined);
}

/** Every row has at least one of these members. */
const ROW_MEMBERS = ["id", "rev", "ok", "error"];

/** Whether a member of a row is an HTTP status. */
function isStatus(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 100 && (value as number) <= 599;
}
