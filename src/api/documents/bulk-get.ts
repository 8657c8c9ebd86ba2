/**
 * `_bulk_get`: revisions of many documents in one response, as JSON or, with the bytes of their
 * attachments, as multipart.
 */
import { type LongText, randomHex, Utf8Writer } from "../../base/index.ts";
import { type Database, PageSize } from "../../databases/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import {
  acceptsExplicitly,
  isLongBody,
  type WrittenPart,
  writeMultipart,
} from "../../protocol/index.ts";
import { readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readJsonMembers } from "../http/request-body.ts";
import { begun, PIECE_LENGTH, streamedJson } from "../http/responses.ts";
import { MEMBER } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import {
  type BadRequest,
  type BulkGetRequest,
  bulkGetOptions,
  bulkGetRequests,
} from "./bulk-get-request.ts";
import type { DocumentOptions } from "./document-options.ts";
import {
  type DocumentView,
  type InlineData,
  inlineData,
  NO_INLINE_DATA,
  sentAttachments,
  viewPieces,
  writeView,
} from "./document-view.ts";
import { errorPart, headerText, nestedPart } from "./multipart-documents.ts";
import { type OpenRevision, readRevisionsAsked } from "./open-revisions.ts";

/** A document, or the reason why it was not found. */
type Result =
  | { readonly kind: "found"; readonly view: DocumentView }
  | { readonly kind: "failed"; readonly error: object };

/** The results of one entry, with the options of that entry. */
interface Answer {
  readonly database: Database;
  readonly request: BulkGetRequest | BadRequest;
  readonly options: DocumentOptions;
  readonly results: readonly Result[];
}

export function bulkGetRoutes(parts: DatabaseParts): Route[] {
  return [
    defineRoute("POST", "/{database}/_bulk_get", { ...MEMBER, isBatched: true }, (call) =>
      readBulk(parts, call),
    ),
  ];
}

async function readBulk(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const members = await readJsonMembers(call);
  const requests = await bulkGetRequests(members.get("docs"), call.yielder);
  const options = bulkGetOptions(call, members);
  const accept = call.request.headers.get("accept");
  const type = ["multipart/mixed", "multipart/related"].find((one) => {
    return acceptsExplicitly(accept, one);
  });
  if (type === undefined) {
    return streamedJson(jsonPieces(parts, call, requests, options));
  }
  // As in CouchDB, a multipart response always includes attachments; `atts_since` selects which.
  const written = multipartParts(parts, call, requests, { ...options, attachments: true });
  const boundary = randomHex(parts.runtime.random);
  return {
    status: 200,
    headers: { "Content-Type": `${type}; boundary="${boundary}"` },
    body: await begun(writeMultipart(written, boundary)),
  };
}

/** The results in the order of the entries, one page per read. */
async function* answerPages(
  parts: DatabaseParts,
  call: Call,
  requests: readonly (BulkGetRequest | BadRequest)[],
  options: DocumentOptions,
): AsyncGenerator<readonly Answer[], void, undefined> {
  const size = new PageSize(parts.runtime.clock);
  let start = 0;
  do {
    if (call.yielder.isDue) await call.yielder.yield();
    const { count, learn } = size.begin();
    const page = requests.slice(start, start + count);
    const answers = await readDatabase(parts, call, async (tx, database) => {
      const found = await readPage(tx, database, page, options);
      return found.map((revisions, index): Answer => {
        const request = page[index] as BulkGetRequest | BadRequest;
        const since = request.kind === "asked" ? request.attachmentsSince : undefined;
        const own = since === undefined ? options : { ...options, attachmentsSince: since };
        return { database, request, options: own, results: resultsOf(request, revisions) };
      });
    });
    learn(answers.length, lengthOf(answers));
    yield answers;
    start += answers.length;
  } while (start < requests.length);
}

/**
 * Reads the revisions requested by the leading entries of a page that fit; none for an invalid
 * entry.
 */
async function readPage(
  tx: ReadTransaction,
  database: Database,
  page: readonly (BulkGetRequest | BadRequest)[],
  options: DocumentOptions,
): Promise<(readonly OpenRevision[])[]> {
  const asked = page.filter((request) => request.kind === "asked");
  const found = await readRevisionsAsked(tx, database, asked, options);
  const read: (readonly OpenRevision[])[] = [];
  let next = 0;
  for (const { kind } of page) {
    const revisions = kind === "bad" ? [] : found[next++];
    if (revisions === undefined) break;
    read.push(revisions);
  }
  return read;
}

function resultsOf(
  request: BulkGetRequest | BadRequest,
  found: readonly OpenRevision[],
): readonly Result[] {
  if (request.kind === "bad") {
    const { id, rev, error, reason } = request;
    return [{ kind: "failed", error: { id, rev, error, reason } }];
  }
  const { id, revision: rev = "undefined" } = request;
  const missing: Result = {
    kind: "failed",
    error: { id, rev, error: "not_found", reason: "missing" },
  };
  if (found.length === 0) return [missing];
  return found.map((entry) => (entry.kind === "found" ? entry : missing));
}

/** Total length of the documents' bodies. */
function lengthOf(answers: readonly Answer[]): number {
  let length = 0;
  for (const { results } of answers) {
    for (const result of results) {
      if (result.kind === "found") length += result.view.document.body.length;
    }
  }
  return length;
}

async function* jsonPieces(
  parts: DatabaseParts,
  call: Call,
  requests: readonly (BulkGetRequest | BadRequest)[],
  options: DocumentOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  const pieces = new PieceWriter();
  pieces.writer.text('{"results":[');
  let separator = "";
  for await (const answers of answerPages(parts, call, requests, options)) {
    for (const answer of answers) {
      pieces.writer.text(separator);
      separator = ",";
      const data = inlineDataOf(parts, call, answer);
      writeAnswer(pieces, answer, data instanceof Promise ? await data : data);
      if (pieces.isWorthSending) yield* pieces.take();
    }
  }
  pieces.writer.text("]}\n");
  yield* pieces.take();
}

/** Initial buffer size: room for a piece and for the last document, which can end beyond it. */
const PIECE_BYTES = PIECE_LENGTH + 8_192;

/** Collects output in pieces that are large enough to send. */
class PieceWriter {
  #writer = new Utf8Writer(PIECE_BYTES);
  /** Output that precedes the content of `#writer`. */
  readonly #before: Uint8Array[] = [];

  get writer(): Utf8Writer {
    return this.#writer;
  }

  get isWorthSending(): boolean {
    return this.#before.length > 0 || this.#writer.length >= PIECE_LENGTH;
  }

  /** Adds pieces that are sent unchanged. */
  pass(pieces: LongText): void {
    this.#before.push(this.#writer.finish(), ...pieces);
    this.#writer = new Utf8Writer(PIECE_BYTES);
  }

  take(): readonly Uint8Array[] {
    const pieces = [...this.#before.splice(0), this.#writer.finish()];
    this.#writer = new Utf8Writer(PIECE_BYTES);
    return pieces;
  }
}

/** The inline data of each result; available synchronously unless attachments have to be read. */
function inlineDataOf(
  parts: DatabaseParts,
  call: Call,
  { database, options, results }: Answer,
): readonly InlineData[] | Promise<readonly InlineData[]> {
  const data = results.map((result) =>
    result.kind === "failed"
      ? NO_INLINE_DATA
      : inlineData(parts, database, result.view, options, call.request.signal),
  );
  const isThere = (each: (typeof data)[number]): each is InlineData => !(each instanceof Promise);
  return data.every(isThere) ? data : Promise.all(data);
}

function writeAnswer(
  pieces: PieceWriter,
  { request, options, results }: Answer,
  data: readonly InlineData[],
): void {
  pieces.writer.text(`{"id":${JSON.stringify(request.id)},"docs":[`);
  for (const [index, result] of results.entries()) {
    if (index > 0) pieces.writer.text(",");
    if (result.kind === "failed") {
      pieces.writer.text(JSON.stringify({ error: result.error }));
      continue;
    }
    const { view } = result;
    const attached = data[index] as InlineData;
    pieces.writer.text('{"ok":');
    if (isLongBody(view.document.body)) pieces.pass(viewPieces(view, options, attached));
    else writeView(pieces.writer, view, options, attached);
    pieces.writer.text("}");
  }
  pieces.writer.text("]}");
}

async function* multipartParts(
  parts: DatabaseParts,
  call: Call,
  requests: readonly (BulkGetRequest | BadRequest)[],
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
