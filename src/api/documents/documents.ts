import { Utf8Text, utf8Decode } from "../../base/index.ts";
import {
  acceptsExplicitly,
  badRequest,
  parseMediaType,
  percentDecode,
} from "../../protocol/index.ts";
import { locationOf, readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call, Handler } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { json, jsonAsIs, matchesEntityTag, notModified } from "../http/responses.ts";
import { DOCUMENT } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { checkRevision, documentOptions } from "./document-options.ts";
import { documentId, findDocument, requestRevision, withRevision } from "./document-request.ts";
import { type DocumentView, sentAttachments, viewJson, viewOf } from "./document-view.ts";
import { isBatch, writeInBatch, writeOne } from "./document-writes.ts";
import { editMode, readDocument, wireEdit } from "./edits.ts";
import { deleteLocal, readLocal, writeLocal } from "./local-documents.ts";
import { documentMultipart, readMultipartEdit } from "./multipart-documents.ts";
import { openRevisions } from "./open-revisions.ts";

export function documentRoutes(parts: DatabaseParts): Route[] {
  const operations: Readonly<Record<string, Handler>> = {
    GET: (call) => read(parts, call),
    PUT: (call) => write(parts, call),
    DELETE: (call) => remove(parts, call),
    COPY: (call) => copy(parts, call),
  };
  return ["/{database}/{id}", "/{database}/_design/{name}"].flatMap((path) =>
    Object.entries(operations).map(([method, handle]) =>
      defineRoute(method, path, DOCUMENT, handle),
    ),
  );
}

async function read(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const id = documentId(call);
  if (id.startsWith("_local/")) return readLocal(parts, call, id);
  const options = documentOptions(call);
  if (options.openRevisions !== undefined) {
    return openRevisions(parts, call, { id, revisions: options.openRevisions, options });
  }
  const { database, view } = await readDatabase(parts, call, async (tx, opened) => {
    const document = await findDocument(tx, opened, id, options);
    return { database: opened, view: await viewOf(tx, opened, document, options) };
  });
  const headers = entityTag(view);
  const tag = headers.ETag;
  if (matchesEntityTag(call.request.headers.get("if-none-match"), tag)) {
    return notModified(headers);
  }
  const sent = sentAttachments(view.document, options);
  if (
    sent.length > 0 &&
    acceptsExplicitly(call.request.headers.get("accept"), "multipart/related")
  ) {
    return documentMultipart(parts, call, { database, view, sent, options, headers });
  }
  const document = await viewJson(parts, database, view, options, call.request.signal);
  return jsonAsIs(document, headers);
}

/**
 * As in CouchDB, a response with additional members, such as `_conflicts`, has no entity tag. The
 * additional members can change while the revision stays the same.
 */
function entityTag({ document, extras }: DocumentView): Readonly<Record<string, string>> {
  return extras.length > 0 ? {} : { ETag: `"${document.revision}"` };
}

async function write(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const id = documentId(call);
  if (id.startsWith("_local/")) return writeLocal(parts, call, id);
  const type = parseMediaType(call.request.headers.get("content-type") ?? "");
  const mode = editMode(call);
  const edit =
    type.type === "multipart/related"
      ? await readMultipartEdit(parts, call, {
          id,
          boundary: type.parameters.get("boundary"),
          mode,
        })
      : await wireEdit(parts, call, withRevision(call, id, await readDocument(call, mode)), mode);
  if (isBatch(call)) return writeInBatch(id, () => writeOne(parts, call, edit));
  const { revision } = await writeOne(parts, call, edit);
  // As in CouchDB, the status is 201 for a new revision and 200 for a deletion.
  return written(call, { id, revision, status: edit.deleted ? 200 : 201 });
}

async function remove(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const id = documentId(call);
  if (id.startsWith("_local/")) return deleteLocal(parts, call, id);
  // As in CouchDB, the document is looked up before the revision is parsed.
  await readDatabase(parts, call, (tx, database) => findDocument(tx, database, id));
  const parent = requestRevision(call);
  const { revision } = await writeOne(parts, call, {
    mode: "interactive",
    id,
    deleted: true,
    body: Utf8Text.of("{}"),
    attachments: [],
    parent,
  });
  return json(200, { ok: true, id, rev: revision }, { ETag: `"${revision}"` });
}

async function copy(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const id = documentId(call);
  const target = copyTarget(call);
  const options = documentOptions(call);
  const source = await readDatabase(parts, call, (tx, database) =>
    findDocument(tx, database, id, options),
  );
  const { revision } = await writeOne(parts, call, {
    mode: "interactive",
    id: target.id,
    deleted: false,
    body: source.body,
    // The attachments are already stored in this database; the copy refers to the same bytes.
    attachments: source.attachments.map(({ name, contentType, ...content }) => ({
      kind: "staged",
      name,
      contentType,
      content,
    })),
    parent: target.parent,
  });
  return written(call, { id: target.id, revision, status: 201 });
}

/** `Destination: newid?rev=…`, with an id in URL encoding or in plain UTF-8. */
function copyTarget(call: Call): { readonly id: string; readonly parent: string | undefined } {
  const received = call.request.headers.get("destination");
  if (received === undefined) throw badRequest("Destination header is mandatory for COPY.");
  const header = textOfBytes(received);
  if (/^https?:/i.test(header)) throw badRequest("Destination URL must be relative.");
  const [path = "", query = ""] = header.split("?", 2);
  const parent = new URLSearchParams(query).get("rev") ?? undefined;
  if (parent !== undefined) checkRevision(parent);
  return { id: decodeDestination(path), parent };
}

/** Decodes UTF-8 in a header, where each character stands for one byte. */
function textOfBytes(header: string): string {
  const codes = Array.from(header, (character) => character.charCodeAt(0));
  if (codes.some((code) => code > 0xff)) return header;
  try {
    return utf8Decode(Uint8Array.from(codes));
  } catch {
    return header;
  }
}

function decodeDestination(path: string): string {
  const id = percentDecode(path);
  if (id !== undefined) return id;
  throw badRequest("The Destination header is not a URL-encoded document id");
}

interface Written {
  readonly id: string;
  readonly revision: string;
  readonly status: number;
}

export function written(call: Call, { id, revision, status }: Written): ApiResponse {
  const headers = { ETag: `"${revision}"`, Location: locationOf(call, id) };
  return json(status, { ok: true, id, rev: revision }, headers);
}
