/** `_bulk_docs`: many documents in one request, as edits of a user or as revisions that were made elsewhere. */
import { forEachConcurrent, type JsonValue, randomHex } from "../../base/index.ts";
import type { DocumentEdit } from "../../databases/index.ts";
import { replicatedRevision } from "../../documents/index.ts";
import { badRequest, ProtocolError, wireDocumentOf } from "../../protocol/index.ts";
import { readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import { errorAnswer, isInvalidRequest } from "../http/error-responses.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readJsonValues, refuseRepeatedNames } from "../http/request-body.ts";
import { json, jsonText } from "../http/responses.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { type EditResult, writeAll } from "./document-writes.ts";
import { checkWire, type EditMode, editOf, type NamedDocument, wireEdit } from "./edits.ts";

/** Documents whose inline attachments are stored at once. */
const PREPARED_COUNT_MAX = 8;

/** Each of them takes kilobytes until all are written, however short it is. */
const DOCUMENTS_MAX = 100_000;

/** The members of a document are in a list of documents, in the body. */
const MEMBERS_DEPTH = 3;

export function bulkDocumentsRoutes(parts: DatabaseParts): Route[] {
  return [defineRoute("POST", "/{database}/_bulk_docs", (call) => writeBulk(parts, call))];
}

/** A document that can be written, or why it cannot. */
type Prepared =
  | { readonly kind: "edit"; readonly edit: DocumentEdit }
  | { readonly kind: "refused"; readonly document: JsonValue; readonly error: unknown };

async function writeBulk(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const members = await readJsonValues(call, MEMBERS_DEPTH, "documents");
  const mode = modeOf(members.get("new_edits")?.text);
  const documents = documentsOf(members.get("docs"));
  if (mode === "interactive") {
    for (const document of documents) {
      if (call.turns.areDue) await call.turns.give();
      refuseRepeatedNames(document);
    }
  }
  await readDatabase(parts, call, async () => undefined);
  if (members.get("all_or_nothing")?.text === "true") return refuseAll(documents);
  const prepared =
    mode === "interactive"
      ? await prepareAll(parts, call, documents)
      : await prepareEach(parts, call, documents);
  const edits = prepared.flatMap((entry) => (entry.kind === "edit" ? [entry.edit] : []));
  const results = await writeAll(parts, call, edits);
  let next = 0;
  const rows = prepared.flatMap((entry) =>
    entry.kind === "edit"
      ? rowOf(results[next++] as EditResult, entry.edit)
      : refusedRow(entry.document, entry.error),
  );
  return jsonText(201, `[${rows.join(",")}]`);
}

/** CouchDB: each of them is told, and nothing is written. */
function refuseAll(documents: readonly JsonValue[]): ApiResponse {
  const rows = documents.map((document) => {
    const { id, revision } = wireDocumentOf(document);
    const error = "not_implemented";
    return { id, rev: revision ?? "0-", error, reason: "all_or_nothing is not supported" };
  });
  return json(417, rows);
}

/** A user's edits: nothing is written before all is known to be well-formed, as in CouchDB. */
async function prepareAll(
  parts: DatabaseParts,
  call: Call,
  documents: readonly JsonValue[],
): Promise<Prepared[]> {
  const wires: NamedDocument[] = [];
  for (const document of documents) {
    if (call.turns.areDue) await call.turns.give();
    const wire = wireDocumentOf(document);
    wires.push({ ...wire, id: wire.id ?? randomHex(parts.runtime.random) });
  }
  for (const wire of wires) checkWire(parts, wire);
  return mapConcurrent(call, wires, (wire) => prepared(parts, call, wire, "interactive"));
}

/**
 * Revisions that were made elsewhere. CouchDB: refuses the whole request for one bad document, and so the replication that
 * sent it; here the others are written, and the sender is told which one was not.
 */
async function prepareEach(
  parts: DatabaseParts,
  call: Call,
  documents: readonly JsonValue[],
): Promise<Prepared[]> {
  return mapConcurrent(call, documents, async (document) => {
    if (!document.isObject) throw badRequest("Document must be a JSON object");
    try {
      const wire = wireDocumentOf(document);
      const named = { ...wire, id: wire.id ?? randomHex(parts.runtime.random) };
      checkWire(parts, named);
      return await prepared(parts, call, named, "replicated");
    } catch (error) {
      if (!isInvalidRequest(error)) throw error;
      return { kind: "refused", document, error };
    }
  });
}

async function prepared(
  parts: DatabaseParts,
  call: Call,
  wire: NamedDocument,
  mode: EditMode,
): Promise<Prepared> {
  if (wire.attachments.length === 0) return { kind: "edit", edit: editOf(wire, [], mode) };
  return { kind: "edit", edit: await wireEdit(parts, call, wire, mode) };
}

/** Side by side, since inline attachments are stored on the way and each waits for its commit. */
async function mapConcurrent<Item>(
  { turns }: Call,
  items: readonly Item[],
  prepare: (item: Item) => Promise<Prepared>,
): Promise<Prepared[]> {
  const results: Prepared[] = new Array(items.length);
  await forEachConcurrent([...items.keys()], PREPARED_COUNT_MAX, async (index) => {
    if (turns.areDue) await turns.give();
    results[index] = await prepare(items[index] as Item);
  });
  return results;
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
    const reason = `There are at most ${DOCUMENTS_MAX} documents in one request`;
    throw new ProtocolError(413, "too_large", reason);
  }
  return documents;
}

/** CouchDB: of revisions that were made elsewhere only failures are told. */
function rowOf(result: EditResult, edit: DocumentEdit): string[] {
  const { id } = result;
  if (result.kind === "written") {
    if (edit.mode === "replicated") return [];
    return [`{"ok":true,"id":${JSON.stringify(id)},"rev":${JSON.stringify(result.revision)}}`];
  }
  const { error, reason } = result.answer;
  return [JSON.stringify({ id, rev: replicatedRevision(edit), error, reason })];
}

function refusedRow(document: JsonValue, cause: unknown): string[] {
  const { _id: id, _rev: rev }: Record<string, unknown> = JSON.parse(document.text);
  const { error, reason } = errorAnswer(cause);
  return [JSON.stringify({ id, rev, error, reason })];
}
