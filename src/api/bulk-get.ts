/** `_bulk_get`: revisions of many documents in one answer, as JSON or, with the bytes of their attachments, as multipart. */
import { randomHex } from "../base/index.ts";
import type { Database } from "../databases/index.ts";
import {
  acceptsExplicitly,
  ProtocolError,
  type WrittenPart,
  writeMultipart,
} from "../protocol/index.ts";
import type { ApiParts } from "./api.ts";
import {
  type BulkGetRequest,
  bulkGetOptions,
  bulkGetRequests,
  requestFault,
} from "./bulk-get-request.ts";
import type { Call } from "./call.ts";
import { readDatabase } from "./database-access.ts";
import type { DocumentOptions } from "./document-options.ts";
import { type DocumentView, sentAttachments, viewText } from "./document-view.ts";
import type { ApiResponse } from "./exchange.ts";
import { errorPart, headerText, nestedPart } from "./multipart-documents.ts";
import { type OpenRevision, readOpenRevisions } from "./open-revisions.ts";
import { PageSize } from "./page-size.ts";
import { readJsonMembers } from "./request-body.ts";
import { begun, inPieces, streamedJson } from "./responses.ts";
import { defineRoute, type Route } from "./router.ts";

/** A document that was found, or why it was not. */
type Result =
  | { readonly kind: "found"; readonly view: DocumentView }
  | { readonly kind: "failed"; readonly error: object };

/** What came of one request, and its own options. */
interface Answer {
  readonly database: Database;
  readonly request: BulkGetRequest;
  readonly options: DocumentOptions;
  readonly results: readonly Result[];
}

export function bulkGetRoutes(parts: ApiParts): Route[] {
  return [defineRoute("POST", "/{database}/_bulk_get", (call) => readBulk(parts, call))];
}

async function readBulk(parts: ApiParts, call: Call): Promise<ApiResponse> {
  const members = await readJsonMembers(call);
  const requests = bulkGetRequests(members.get("docs"));
  const options = bulkGetOptions(call, members);
  const accept = call.request.headers.get("accept");
  const type = ["multipart/mixed", "multipart/related"].find((one) => {
    return acceptsExplicitly(accept, one);
  });
  if (type === undefined) {
    return streamedJson(200, inPieces(jsonTexts(parts, call, requests, options)));
  }
  // CouchDB: in this form the attachments always go with the document; `atts_since` says which.
  const written = multipartParts(parts, call, requests, { ...options, attachments: true });
  const boundary = randomHex(parts.runtime.random);
  return {
    status: 200,
    headers: { "Content-Type": `${type}; boundary="${boundary}"` },
    body: await begun(writeMultipart(written, boundary)),
  };
}

/** The answers in the order of the requests, a page in each read. */
async function* answerPages(
  parts: ApiParts,
  call: Call,
  requests: readonly BulkGetRequest[],
  options: DocumentOptions,
): AsyncGenerator<readonly Answer[], void, undefined> {
  const size = new PageSize();
  let start = 0;
  do {
    const page = requests.slice(start, start + size.count);
    const answers = await readDatabase(parts, call, (tx, database) =>
      Promise.all(
        page.map(async (request): Promise<Answer> => {
          const own = { ...options, attachmentsSince: request.attachmentsSince };
          const { id, revision } = request;
          const fault = requestFault(request);
          const revisions = revision === undefined ? "all" : [revision];
          const found =
            fault ?? (await readOpenRevisions(tx, database, { id, revisions, options }));
          return { database, request, options: own, results: resultsOf(request, found) };
        }),
      ),
    );
    yield answers;
    size.learn(page.length, lengthOf(answers));
    start += page.length;
  } while (start < requests.length);
}

function resultsOf(
  { id, revision: rev = "undefined" }: BulkGetRequest,
  found: readonly OpenRevision[] | ProtocolError,
): Result[] {
  const failed = (error: string, reason: string): Result => ({
    kind: "failed",
    error: { id, rev, error, reason },
  });
  if (found instanceof ProtocolError) return [failed(found.error, found.reason)];
  if (found.length === 0) return [failed("not_found", "missing")];
  return found.map((entry) => (entry.kind === "found" ? entry : failed("not_found", "missing")));
}

/** Of the documents' bodies. */
function lengthOf(answers: readonly Answer[]): number {
  let length = 0;
  for (const { results } of answers) {
    for (const result of results) {
      if (result.kind === "found") length += result.view.document.body.length;
    }
  }
  return length;
}

async function* jsonTexts(
  parts: ApiParts,
  call: Call,
  requests: readonly BulkGetRequest[],
  options: DocumentOptions,
): AsyncGenerator<string, void, undefined> {
  let opening = '{"results":[';
  for await (const answers of answerPages(parts, call, requests, options)) {
    yield opening;
    for (const [index, answer] of answers.entries()) {
      if (index > 0) yield ",";
      yield await answerText(parts, call, answer);
    }
    opening = ",";
  }
  yield "]}\n";
}

async function answerText(
  parts: ApiParts,
  call: Call,
  { database, request, options, results }: Answer,
): Promise<string> {
  const texts: string[] = [];
  for (const result of results) {
    if (result.kind === "failed") texts.push(JSON.stringify({ error: result.error }));
    else {
      const text = await viewText(parts, database, result.view, options, call.request.signal);
      texts.push(`{"ok":${text}}`);
    }
  }
  return `{"id":${JSON.stringify(request.id)},"docs":[${texts.join(",")}]}`;
}

async function* multipartParts(
  parts: ApiParts,
  call: Call,
  requests: readonly BulkGetRequest[],
  asked: DocumentOptions,
): AsyncGenerator<WrittenPart, void, undefined> {
  for await (const answers of answerPages(parts, call, requests, asked)) {
    for (const { database, options, results } of answers) {
      for (const result of results) {
        if (result.kind === "failed") {
          yield errorPart(result.error);
          continue;
        }
        const { view } = result;
        const { id, revision } = view.document;
        const sent = sentAttachments(view.document, options);
        yield nestedPart(parts, { database, view, sent, options }, call.request.signal, [
          ["X-Doc-Id", headerText(id)],
          ["X-Rev-Id", headerText(revision)],
        ]);
      }
    }
  }
}
