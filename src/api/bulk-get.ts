/** `_bulk_get`: revisions of many documents in one answer. */
import { type JsonText, jsonKind, splitArray } from "../base/index.ts";
import { checkDocumentId, type Database } from "../databases/index.ts";
import { badRequest, ProtocolError } from "../protocol/index.ts";
import type { ApiParts } from "./api.ts";
import type { Call } from "./call.ts";
import { readDatabase } from "./database-access.ts";
import { checkRevision, type DocumentOptions, documentOptions } from "./document-options.ts";
import { viewText } from "./document-view.ts";
import { errorAnswer } from "./error-responses.ts";
import type { ApiResponse } from "./exchange.ts";
import { type OpenRevision, readOpenRevisions } from "./open-revisions.ts";
import { PageSize } from "./page-size.ts";
import { booleanParameter, isTextList } from "./query.ts";
import { readJsonMembers } from "./request-body.ts";
import { inPieces, streamedJson } from "./responses.ts";
import { defineRoute, type Route } from "./router.ts";

interface Request {
  readonly id: string;
  readonly revision: string | undefined;
  readonly attachmentsSince: readonly string[] | undefined;
}

export function bulkGetRoutes(parts: ApiParts): Route[] {
  return [defineRoute("POST", "/{database}/_bulk_get", (call) => readBulk(parts, call))];
}

async function readBulk(parts: ApiParts, call: Call): Promise<ApiResponse> {
  const members = await readJsonMembers(call);
  const requests = requestsOf(members.get("docs"));
  const options = bulkOptions(call, members);
  return streamedJson(200, inPieces(texts(parts, call, requests, options)));
}

/** CouchDB: takes the options from the query; its replicator says them in the body, too. */
function bulkOptions(call: Call, members: ReadonlyMap<string, JsonText>): DocumentOptions {
  const flag = (name: string): boolean =>
    booleanParameter(call, name, members.get(name) === "true");
  return {
    ...documentOptions(call),
    revisions: flag("revs"),
    latest: flag("latest"),
    attachments: flag("attachments"),
    encodingInfo: flag("att_encoding_info"),
  };
}

function requestsOf(text: JsonText | undefined): Request[] {
  if (text === undefined) throw badRequest("Missing JSON list of 'docs'.");
  if (jsonKind(text) !== "array") throw badRequest("`docs` parameter must be an array.");
  return splitArray(text).map((row) => {
    if (jsonKind(row) !== "object") throw badRequest("Each of `docs` must be a JSON object");
    const { id, rev, atts_since: since }: Record<string, unknown> = JSON.parse(row);
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

async function* texts(
  parts: ApiParts,
  call: Call,
  requests: readonly Request[],
  options: DocumentOptions,
): AsyncGenerator<string, void, undefined> {
  const size = new PageSize();
  let start = 0;
  do {
    const page = requests.slice(start, start + size.count);
    const { database, rows } = await readDatabase(parts, call, async (tx, opened) => ({
      database: opened,
      rows: await Promise.all(
        page.map(({ id, revision }) => {
          const fault = requestFault(id, revision);
          if (fault !== undefined) return fault;
          const revisions = revision === undefined ? "all" : [revision];
          return readOpenRevisions(tx, opened, { id, revisions, options });
        }),
      ),
    }));
    if (start === 0) yield '{"results":[';
    let length = 0;
    for (const [index, row] of rows.entries()) {
      if (start + index > 0) yield ",";
      const text = await resultText(parts, call, database, page[index] as Request, row, options);
      length += text.length;
      yield text;
    }
    size.learn(page.length, length);
    start += page.length;
  } while (start < requests.length);
  yield "]}\n";
}

/** What is wrong with one of the requests is told in its place. */
function requestFault(id: string, revision: string | undefined): ProtocolError | undefined {
  try {
    checkDocumentId(id);
    if (revision !== undefined) checkRevision(revision);
    return undefined;
  } catch (error) {
    const { status, error: name, reason } = errorAnswer(error);
    return new ProtocolError(status, name, reason);
  }
}

async function resultText(
  parts: ApiParts,
  call: Call,
  database: Database,
  { id, revision, attachmentsSince }: Request,
  row: readonly OpenRevision[] | ProtocolError,
  options: DocumentOptions,
): Promise<string> {
  const documents: string[] = [];
  const fail = (error: string, reason: string): void => {
    documents.push(JSON.stringify({ error: { id, rev: revision ?? "undefined", error, reason } }));
  };
  if (row instanceof ProtocolError) fail(row.error, row.reason);
  else {
    if (row.length === 0) fail("not_found", "missing");
    for (const entry of row) {
      if (entry.kind === "missing") fail("not_found", "missing");
      else {
        const view = { ...options, attachmentsSince };
        const text = await viewText(parts, database, entry.view, view, call.request.signal);
        documents.push(`{"ok":${text}}`);
      }
    }
  }
  return `{"id":${JSON.stringify(id)},"docs":[${documents.join(",")}]}`;
}
