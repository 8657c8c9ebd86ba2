/** `_bulk_docs`: many documents in one request, users' edits or revisions that were made elsewhere. */
import { type JsonText, jsonKind, randomHex, splitArray } from "../base/index.ts";
import type { DocumentEdit } from "../databases/index.ts";
import { badRequest, formatRevision, parseWireDocument } from "../protocol/index.ts";
import type { ApiParts } from "./api.ts";
import type { Call } from "./call.ts";
import { readDatabase } from "./database-access.ts";
import { type EditResult, writeAll } from "./document-writes.ts";
import { checkWire, type EditMode, type NamedDocument, wireEdit } from "./edits.ts";
import type { ApiResponse } from "./exchange.ts";
import { readJsonMembers } from "./request-body.ts";
import { jsonText } from "./responses.ts";
import { defineRoute, type Route } from "./router.ts";

export function bulkDocumentsRoutes(parts: ApiParts): Route[] {
  return [defineRoute("POST", "/{database}/_bulk_docs", (call) => writeBulk(parts, call))];
}

async function writeBulk(parts: ApiParts, call: Call): Promise<ApiResponse> {
  const members = await readJsonMembers(call);
  const mode = modeOf(members.get("new_edits"));
  const wires = documentsOf(members.get("docs")).map((text): NamedDocument => {
    const wire = parseWireDocument(text);
    return { ...wire, id: wire.id ?? randomHex(parts.runtime.random) };
  });
  // Nothing is written before all is known to be well-formed, as in CouchDB.
  for (const wire of wires) checkWire(wire);
  await readDatabase(parts, call, async () => undefined);
  const edits: DocumentEdit[] = [];
  for (const wire of wires) edits.push(await wireEdit(parts, call, wire, mode));
  const results = await writeAll(parts, call, edits);
  const rows = results.flatMap((result, index) =>
    rowOf(result, edits[index] as DocumentEdit, mode),
  );
  return jsonText(201, `[${rows.join(",")}]`);
}

function modeOf(text: JsonText | undefined): EditMode {
  if (text === undefined || text === "true") return "interactive";
  if (text === "false") return "replicated";
  throw badRequest("`new_edits` parameter must be a boolean.");
}

function documentsOf(text: JsonText | undefined): JsonText[] {
  if (text === undefined) throw badRequest("POST body must include `docs` parameter.");
  if (jsonKind(text) !== "array") throw badRequest("`docs` parameter must be an array.");
  return splitArray(text);
}

/** CouchDB: of revisions that were made elsewhere only failures are told. */
function rowOf(result: EditResult, edit: DocumentEdit, mode: EditMode): string[] {
  const { id } = result;
  if (result.kind === "written") {
    if (mode === "replicated") return [];
    return [JSON.stringify({ ok: true, id, rev: result.revision })];
  }
  const { error, reason } = result.answer;
  const revision =
    edit.mode === "replicated"
      ? { rev: formatRevision(edit.revisions.start, edit.revisions.hashes[0] ?? "") }
      : {};
  return [JSON.stringify({ id, ...revision, error, reason })];
}
