/**
 * `_bulk_docs`: writes many documents in one request, as edits of a user or as replicated
 * revisions.
 */
import { chunksOf, forEachConcurrent, type JsonValue, Utf8Writer } from "../../base/index.ts";
import type { DocumentEdit } from "../../databases/index.ts";
import { replicatedRevision } from "../../documents/index.ts";
import { badRequest, ProtocolError, wireDocumentOf } from "../../protocol/index.ts";
import { readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import { errorAnswer, isInvalidRequest } from "../http/error-responses.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { membersByName, readJsonObject, refuseRepeatedNames } from "../http/request-body.ts";
import { json, jsonBytes } from "../http/responses.ts";
import { MEMBER } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { type EditResult, writeAll } from "./document-writes.ts";
import {
  checkEdit,
  checkWire,
  type EditMode,
  editOf,
  type NamedDocument,
  wireEdit,
} from "./edits.ts";

/** Number of documents whose inline attachments are stored concurrently. */
const PREPARED_COUNT_MAX = 8;

/** Maximum number of documents per request. CouchDB has no limit. */
const DOCUMENTS_MAX = 100_000;
/**
 * Number of documents that are parsed and written at a time. Even a short document takes kilobytes
 * while it is processed.
 */
const SLICE_COUNT_MAX = 1_000;
const ANSWER_BYTES_EXPECTED = 4_096;

/** Nesting level of document members in the body: `docs` is at level 1, its documents at 2. */
const MEMBERS_DEPTH = 3;

export function bulkDocumentsRoutes(parts: DatabaseParts): Route[] {
  return [
    defineRoute("POST", "/{database}/_bulk_docs", { ...MEMBER, isBatched: true }, (call) =>
      writeBulk(parts, call),
    ),
  ];
}

/** A document that can be written, or the reason why it cannot be. */
type Prepared = { readonly kind: "edit"; readonly edit: DocumentEdit } | Refused;

interface Refused {
  readonly kind: "refused";
  readonly document: JsonValue;
  readonly error: unknown;
}

/** A well-formed document, to be converted to an edit once its inline attachments are stored. */
interface Draft {
  readonly kind: "draft";
  readonly document: JsonValue;
  readonly wire: NamedDocument;
}

async function writeBulk(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const body = await readJsonObject(call, MEMBERS_DEPTH, "documents");
  const members = membersByName(body);
  const mode = modeOf(members.get("new_edits")?.text);
  const documents = documentsOf(members.get("docs"));
  if (mode === "interactive") refuseRepeatedNames(body);
  await readDatabase(parts, call, async () => undefined);
  if (members.get("all_or_nothing")?.text === "true") return refuseAll(documents);
  if (documents.length > SLICE_COUNT_MAX) await checkAll(parts, call, documents, mode);
  const answer = new Utf8Writer(ANSWER_BYTES_EXPECTED);
  let separator = "[";
  for (const slice of chunksOf(documents, SLICE_COUNT_MAX)) {
    for (const row of await writeSlice(parts, call, slice, mode)) {
      answer.text(separator + row);
      separator = ",";
    }
  }
  answer.text(separator === "[" ? "[]" : "]");
  return jsonBytes(201, answer);
}

/** Writes a slice of the documents and returns their result rows. */
async function writeSlice(
  parts: DatabaseParts,
  call: Call,
  documents: readonly JsonValue[],
  mode: EditMode,
): Promise<string[]> {
  const drafts =
    mode === "interactive"
      ? await draftAll(parts, call, documents)
      : await draftEach(parts, call, documents);
  const prepared = await prepareAll(parts, call, drafts, mode);
  const edits = prepared.flatMap((entry) => (entry.kind === "edit" ? [entry.edit] : []));
  const results = await writeAll(parts, call, edits);
  const rows: string[] = [];
  let next = 0;
  for (const entry of prepared) {
    if (call.yielder.isDue) await call.yielder.yield();
    const row =
      entry.kind === "edit"
        ? rowOf(results[next++] as EditResult, entry.edit)
        : refusedRow(entry.document, entry.error);
    if (row !== undefined) rows.push(row);
  }
  return rows;
}

/** Checks for all errors that reject the whole request, before the first slice is written. */
async function checkAll(
  parts: DatabaseParts,
  call: Call,
  documents: readonly JsonValue[],
  mode: EditMode,
): Promise<void> {
  for (const document of documents) {
    if (call.yielder.isDue) await call.yielder.yield();
    if (mode === "interactive") checkEdit(parts, namedDocument(parts, document), mode);
    else requireObject(document);
  }
}

function requireObject(document: JsonValue): void {
  if (!document.isObject) throw badRequest("Document must be a JSON object");
}

/** Rejects every document of the request, as CouchDB does; nothing is written. */
function refuseAll(documents: readonly JsonValue[]): ApiResponse {
  const rows = documents.map((document) => {
    const { id, revision } = wireDocumentOf(document);
    const error = "not_implemented";
    return { id, rev: revision ?? "0-", error, reason: "all_or_nothing is not supported" };
  });
  return json(417, rows);
}

/**
 * Drafts of a user's edits. As in CouchDB, nothing is written unless all of them are well-formed.
 */
async function draftAll(
  parts: DatabaseParts,
  call: Call,
  documents: readonly JsonValue[],
): Promise<Draft[]> {
  const drafts: Draft[] = [];
  for (const document of documents) {
    if (call.yielder.isDue) await call.yielder.yield();
    drafts.push({ kind: "draft", document, wire: namedDocument(parts, document) });
  }
  for (const { wire } of drafts) {
    if (call.yielder.isDue) await call.yielder.yield();
    checkWire(parts, wire);
  }
  return drafts;
}

/**
 * Creates drafts of replicated revisions. For one bad document, CouchDB rejects the whole request
 * and thus stops the replication. Here the other documents are written, and the response lists the
 * rejected ones.
 */
async function draftEach(
  parts: DatabaseParts,
  call: Call,
  documents: readonly JsonValue[],
): Promise<(Draft | Refused)[]> {
  const drafts: (Draft | Refused)[] = [];
  for (const document of documents) {
    requireObject(document);
    if (call.yielder.isDue) await call.yielder.yield();
    try {
      const wire = namedDocument(parts, document);
      checkWire(parts, wire);
      drafts.push({ kind: "draft", document, wire });
    } catch (error) {
      drafts.push(refused(document, error));
    }
  }
  return drafts;
}

/** Stores inline attachments concurrently, since each waits for its own commit. */
async function prepareAll(
  parts: DatabaseParts,
  call: Call,
  drafts: readonly (Draft | Refused)[],
  mode: EditMode,
): Promise<Prepared[]> {
  const prepared: Prepared[] = new Array(drafts.length);
  const withAttachments: { readonly draft: Draft; readonly index: number }[] = [];
  for (const [index, draft] of drafts.entries()) {
    if (call.yielder.isDue) await call.yielder.yield();
    if (draft.kind === "refused") prepared[index] = draft;
    else if (draft.wire.attachments.length > 0) withAttachments.push({ draft, index });
    else prepared[index] = { kind: "edit", edit: editOf(draft.wire, [], mode) };
  }
  await forEachConcurrent(withAttachments, PREPARED_COUNT_MAX, async ({ draft, index }) => {
    const { document, wire } = draft;
    if (call.yielder.isDue) await call.yielder.yield();
    try {
      prepared[index] = { kind: "edit", edit: await wireEdit(parts, call, wire, mode) };
    } catch (error) {
      if (mode === "interactive") throw error;
      prepared[index] = refused(document, error);
    }
  });
  return prepared;
}

function namedDocument({ uuids }: DatabaseParts, document: JsonValue): NamedDocument {
  const wire = wireDocumentOf(document);
  return { ...wire, id: wire.id ?? uuids.next() };
}

/** Returns a rejected document with its error. Rethrows errors not caused by the document. */
function refused(document: JsonValue, error: unknown): Refused {
  if (!isInvalidRequest(error)) throw error;
  return { kind: "refused", document, error };
}

function modeOf(text: string | undefined): EditMode {
  if (text === undefined || text === "true") return "interactive";
  if (text === "false") return "replicated";
  throw badRequest("`new_edits` parameter must be a boolean.");
}

function documentsOf(docs: JsonValue | undefined): JsonValue[] {
  if (docs === undefined) throw badRequest("POST body must include `docs` parameter.");
  if (!docs.isArray) throw badRequest("`docs` parameter must be an array.");
  const documents = docs.elements();
  if (documents.length > DOCUMENTS_MAX) {
    const reason = `A request may have at most ${DOCUMENTS_MAX} documents`;
    throw new ProtocolError(413, "too_large", reason);
  }
  return documents;
}

/** Result row of an edit. As in CouchDB, the success of a replicated revision is not reported. */
function rowOf(result: EditResult, edit: DocumentEdit): string | undefined {
  const { id } = result;
  if (result.kind === "written") {
    if (edit.mode === "replicated") return undefined;
    return `{"ok":true,"id":${JSON.stringify(id)},"rev":${JSON.stringify(result.revision)}}`;
  }
  const { error, reason } = result.answer;
  return JSON.stringify({ id, rev: replicatedRevision(edit), error, reason });
}

function refusedRow(document: JsonValue, cause: unknown): string {
  const { _id: id, _rev: rev }: Record<string, unknown> = JSON.parse(document.text);
  const { error, reason } = errorAnswer(cause);
  return JSON.stringify({ id, rev, error, reason });
}
