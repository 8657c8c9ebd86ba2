/** Parts of a request for one document: its id, the revision, and the document in the body. */
import { checkDocumentId, type Database, type Document } from "../../databases/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import { badRequest, ProtocolError, type WireDocument } from "../../protocol/index.ts";
import { type Call, parameter } from "../http/call.ts";
import { checkRevision, type DocumentOptions } from "./document-options.ts";
import type { NamedDocument } from "./edits.ts";

/** Replaces an invalid id in reads; no document can have this id. */
const NOBODYS_ID = "_";

/**
 * The document id in the path; `_design/x` may be one segment or two. An invalid id is treated as a
 * missing document, except in writes, which throw STORE_DOCUMENT_ID_INVALID.
 */
export function documentId(call: Call): string {
  const name = call.parameters.get("name");
  const id = name === undefined ? parameter(call, "id") : `_design/${name}`;
  if (id === "_local" || id === "_local/") throw badRequest("Invalid _local document id.");
  const isWritten = ["PUT", "POST"].includes(call.request.method);
  if (!isWritten && !isStorableId(id) && !isBeginning(id)) return NOBODYS_ID;
  checkDocumentId(id);
  return id;
}

/** Whether the id is only a prefix, such as `_design/`. */
function isBeginning(id: string): boolean {
  return id === "_design/";
}

/** Whether a document can have this id. */
export function isStorableId(id: string): boolean {
  try {
    checkDocumentId(id);
    return true;
  } catch {
    return false;
  }
}

/**
 * The 404 with the reason `missing`, or `deleted` if no revision was requested and the winner is
 * deleted.
 */
export function notFound(reason: "missing" | "deleted"): ProtocolError {
  return new ProtocolError(404, "not_found", reason);
}

/** The winner, or the requested revision. Throws CouchDB's 404. */
export async function findDocument(
  tx: ReadTransaction,
  database: Database,
  id: string,
  { revision, latest = false }: Partial<Pick<DocumentOptions, "revision" | "latest">> = {},
): Promise<Document> {
  if (revision !== undefined) {
    const [document] = await database.documents.readRevision(tx, id, revision, {
      latest,
      superseded: true,
    });
    if (document === undefined) throw notFound("missing");
    return document;
  }
  const winner = await database.documents.read(tx, id);
  if (winner === undefined) throw notFound("missing");
  if (winner.deleted) throw notFound("deleted");
  return winner;
}

/**
 * The document in the body, with the id from the path. Its revision comes from the request or, if
 * the request names none, from the body.
 */
export function withRevision(call: Call, id: string, wire: WireDocument): NamedDocument {
  const named = requestRevision(call);
  if (named !== undefined && wire.revision !== undefined && named !== wire.revision) {
    if (!call.request.query.has("rev")) throw otherTag();
    throw badRequest("Document rev from request body and query string have different values");
  }
  return { ...wire, id, revision: named ?? wire.revision };
}

/** The revision in `If-Match` or the query. */
export function requestRevision(call: Call): string | undefined {
  const { headers, query } = call.request;
  const header = headers
    .get("if-match")
    ?.trim()
    .replace(/^"(.*)"$/, "$1");
  const parameterValue = query.get("rev");
  if (header !== undefined && parameterValue !== undefined && header !== parameterValue) {
    throw otherTag();
  }
  const revision = parameterValue ?? header;
  if (revision !== undefined) checkRevision(revision);
  return revision;
}

function otherTag(): ProtocolError {
  return badRequest("Document rev and etag have different values");
}
