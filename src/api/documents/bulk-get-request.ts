/** The body of a `_bulk_get`. */
import { type JsonText, jsonKind } from "../../base/index.ts";
import { checkDocumentId } from "../../databases/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import type { Call } from "../http/call.ts";
import { errorAnswer } from "../http/error-responses.ts";
import { booleanParameter, isTextList } from "../http/query.ts";
import { checkRevision, type DocumentOptions, documentOptions } from "./document-options.ts";

/** Revisions of one document that are asked for. */
export interface BulkGetRequest {
  readonly id: string;
  readonly revision: string | undefined;
  readonly attachmentsSince: readonly string[] | undefined;
}

/** CouchDB: takes the options from the query; its replicator says them in the body, too. */
export function bulkGetOptions(
  call: Call,
  members: ReadonlyMap<string, JsonText>,
): DocumentOptions {
  const flag = (name: string): boolean =>
    booleanParameter(call, name, members.get(name) === "true");
  return {
    ...documentOptions(call),
    revisions: flag("revs"),
    latest: flag("latest"),
    attachments: flag("attachments"),
    encodingInfo: flag("att_encoding_info"),
    // Each document says its own.
    attachmentsSince: undefined,
  };
}

/** The list `docs`. Throws a ProtocolError that says what is wrong with it. */
export function bulkGetRequests(text: JsonText | undefined): BulkGetRequest[] {
  if (text === undefined) throw badRequest("Missing JSON list of 'docs'.");
  if (jsonKind(text) !== "array") throw badRequest("`docs` parameter must be an array.");
  return JSON.parse(text).map((row: unknown): BulkGetRequest => {
    if (typeof row !== "object" || row === null || Array.isArray(row)) {
      throw badRequest("Each of `docs` must be a JSON object");
    }
    const { id, rev, atts_since: since } = row as Record<string, unknown>;
    if (typeof id !== "string") throw badRequest("Each of `docs` must have an `id`, a string");
    if (rev !== undefined && rev !== null && typeof rev !== "string") {
      throw badRequest(`The \`rev\` of ${JSON.stringify(id)} must be a string`);
    }
    if (since !== undefined && since !== null && !isTextList(since)) {
      throw badRequest(`The \`atts_since\` of ${JSON.stringify(id)} must be an array of strings`);
    }
    return { id, revision: rev ?? undefined, attachmentsSince: since ?? undefined };
  });
}

/** What is wrong with one of the requests is told in its place. */
export function requestFault({ id, revision }: BulkGetRequest): ProtocolError | undefined {
  try {
    checkDocumentId(id);
    if (revision !== undefined) checkRevision(revision);
    return undefined;
  } catch (error) {
    const { status, error: name, reason } = errorAnswer(error);
    return new ProtocolError(status, name, reason);
  }
}
