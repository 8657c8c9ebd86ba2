/** The body of a `_bulk_get`. */
import { type JsonText, jsonKind, parseElements, type Yielder } from "../../base/index.ts";
import { checkDocumentId } from "../../databases/index.ts";
import { badRequest } from "../../protocol/index.ts";
import type { Call } from "../http/call.ts";
import { errorAnswer } from "../http/error-responses.ts";
import { flagParameter, isTextList } from "../http/query.ts";
import { checkRevision, type DocumentOptions, documentOptions } from "./document-options.ts";

/** Requested revisions of one document. */
export interface BulkGetRequest {
  readonly kind: "asked";
  readonly id: string;
  readonly revision: string | undefined;
  readonly attachmentsSince: readonly string[] | undefined;
}

/** An entry that cannot be looked up. Its error becomes its result. */
export interface BadRequest {
  readonly kind: "bad";
  readonly id: string | null;
  readonly rev: string | null;
  readonly error: string;
  readonly reason: string;
}

/**
 * The options in the query or, if they are missing there, in the body. CouchDB reads only the
 * query, but its replicator also sends them in the body.
 */
export function bulkGetOptions(
  call: Call,
  members: ReadonlyMap<string, JsonText>,
): DocumentOptions {
  const flag = (name: string): boolean => flagParameter(call, name, members.get(name) === "true");
  return {
    ...documentOptions(call),
    revisions: flag("revs"),
    latest: flag("latest"),
    attachments: flag("attachments"),
    encodingInfo: flag("att_encoding_info"),
    // Each entry has its own `atts_since`.
    attachmentsSince: undefined,
  };
}

/** The list `docs`. Throws a ProtocolError if the list as a whole is invalid. */
export async function bulkGetRequests(
  text: JsonText | undefined,
  yielder: Yielder,
): Promise<(BulkGetRequest | BadRequest)[]> {
  if (text === undefined) throw badRequest("Missing JSON list of 'docs'.");
  if (jsonKind(text) !== "array") throw badRequest("`docs` parameter must be an array.");
  const requests: (BulkGetRequest | BadRequest)[] = [];
  for await (const rows of parseElements(text, yielder)) {
    for (const row of rows) {
      if (typeof row !== "object" || row === null || Array.isArray(row)) {
        throw badRequest("Each of `docs` must be a JSON object");
      }
      requests.push(parseRequest({ ...row }));
    }
  }
  return requests;
}

function parseRequest({
  id,
  rev,
  atts_since: since,
}: Readonly<Record<string, unknown>>): BulkGetRequest | BadRequest {
  const bad = (reason: string, error = "bad_request"): BadRequest => {
    const isNamed = typeof id === "string";
    const asked = isNamed && typeof rev === "string" ? rev : null;
    return { kind: "bad", id: isNamed ? id : null, rev: asked, error, reason };
  };
  if (id === undefined || id === null) return bad("document id missed");
  if (typeof id !== "string") return bad("Document id must be a string");
  const revision = rev ?? undefined;
  if (revision !== undefined && typeof revision !== "string") return bad("Invalid rev format");
  const attachmentsSince = since ?? undefined;
  if (attachmentsSince !== undefined && !isTextList(attachmentsSince)) {
    return bad("`atts_since` must be an array of strings");
  }
  try {
    checkDocumentId(id);
    if (revision !== undefined) checkRevision(revision);
  } catch (error) {
    const { error: name, reason } = errorAnswer(error);
    return bad(reason, name);
  }
  return { kind: "asked", id, revision, attachmentsSince };
}
