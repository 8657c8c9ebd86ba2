/** `open_revs`: several revisions of one document, as multipart/mixed or as a JSON array. */
import { append, mapAtOnce, randomHex } from "../../base/index.ts";
import type { Database, WantedRevision } from "../../databases/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import { accepts, writeMultipart } from "../../protocol/index.ts";
import { readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { inPieces, type Piece, streamedJson } from "../http/responses.ts";
import type { DocumentOptions } from "./document-options.ts";
import { notFound } from "./document-request.ts";
import { type DocumentView, sentAttachments, viewJson, viewOf } from "./document-view.ts";
import { errorPart, nestedPart } from "./multipart-documents.ts";

export type OpenRevision =
  | { readonly kind: "found"; readonly view: DocumentView }
  | { readonly kind: "missing"; readonly revision: string };

interface Wanted {
  readonly id: string;
  readonly revisions: "all" | readonly string[];
  readonly options: DocumentOptions;
}

export async function openRevisions(
  parts: DatabaseParts,
  call: Call,
  wanted: Wanted,
): Promise<ApiResponse> {
  const { database, found } = await readDatabase(parts, call, async (tx, opened) => ({
    database: opened,
    found: await readOpenRevisions(tx, opened, wanted),
  }));
  if (wanted.revisions === "all" && found.length === 0) throw notFound("missing");
  if (accepts(call.request.headers.get("accept"), "multipart/mixed")) {
    return mixed(parts, call, database, found, wanted.options);
  }
  const texts = jsonTexts(parts, call, database, found, wanted.options);
  return streamedJson(inPieces(texts));
}

/**
 * The existing revisions, in the requested order; with `latest`, the leaves that descend from them.
 */
export async function readOpenRevisions(
  tx: ReadTransaction,
  database: Database,
  { id, revisions, options }: Wanted,
): Promise<OpenRevision[]> {
  if (revisions !== "all") {
    const asked = revisions.map((revision) => ({ id, revision }));
    const rows: OpenRevision[][] = [];
    while (rows.length < asked.length) {
      append(rows, await readRevisionsAsked(tx, database, asked.slice(rows.length), options));
    }
    return withoutRepetition(rows.flat());
  }
  const leaves = await database.documents.readLeaves(tx, id);
  const views = await mapAtOnce(leaves, (document) => viewOf(tx, database, document, options));
  return views.map((view) => ({ kind: "found", view }));
}

/**
 * The results for revisions of several documents, or for all leaves of a document if its revision
 * is undefined. Like `readRevisions`, returns only results that fit into a page.
 */
export async function readRevisionsAsked(
  tx: ReadTransaction,
  database: Database,
  asked: readonly WantedRevision[],
  options: DocumentOptions,
): Promise<OpenRevision[][]> {
  const { latest } = options;
  const found = await database.documents.readRevisions(tx, asked, { latest, superseded: true });
  const views = await mapAtOnce(found.flat(), (document) =>
    viewOf(tx, database, document, options),
  );
  let next = 0;
  return found.map((documents, index) => {
    const revision = asked[index]?.revision ?? "";
    if (documents.length === 0) return [{ kind: "missing", revision }];
    return documents.map(() => ({ kind: "found", view: views[next++] as DocumentView }));
  });
}

/** Removes duplicates, because several revisions can have the same latest leaf. */
function withoutRepetition(rows: readonly OpenRevision[]): OpenRevision[] {
  const seen = new Set<string>();
  return rows.filter((row) => {
    if (row.kind === "missing") return true;
    const { revision } = row.view.document;
    if (seen.has(revision)) return false;
    seen.add(revision);
    return true;
  });
}

async function* jsonTexts(
  parts: DatabaseParts,
  call: Call,
  database: Database,
  found: readonly OpenRevision[],
  options: DocumentOptions,
): AsyncGenerator<Piece, void, undefined> {
  yield "[";
  for (const [index, row] of found.entries()) {
    if (index > 0) yield ",";
    if (row.kind === "missing") yield JSON.stringify({ missing: row.revision });
    else {
      const document = await viewJson(parts, database, row.view, options, call.request.signal);
      yield '{"ok":';
      if (typeof document === "string") yield document;
      else yield* document;
      yield "}";
    }
  }
  yield "]\n";
}

/** As in CouchDB, a multipart response always includes attachments; `atts_since` selects which. */
function mixed(
  parts: DatabaseParts,
  call: Call,
  database: Database,
  found: readonly OpenRevision[],
  asked: DocumentOptions,
): ApiResponse {
  const options = { ...asked, attachments: true };
  const boundary = randomHex(parts.runtime.random);
  const written = found.map((row) => {
    if (row.kind === "missing") return errorPart({ missing: row.revision });
    const { view } = row;
    const sent = sentAttachments(view.document, options);
    return nestedPart(parts, { database, view, sent, options }, call.request.signal);
  });
  return {
    status: 200,
    headers: { "Content-Type": `multipart/mixed; boundary="${boundary}"` },
    body: writeMultipart(written, boundary),
  };
}
