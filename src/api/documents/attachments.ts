/** Attachments as resources, read and written as streams of bytes. */

import { EMPTY_BYTES, Utf8Text } from "../../base/index.ts";
import type { Attachment, AttachmentEdit, Database, Document } from "../../databases/index.ts";
import { ProtocolError, percentEncode } from "../../protocol/index.ts";
import { locationOf, readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import { byteRange } from "../http/byte-range.ts";
import { type Call, parameter } from "../http/call.ts";
import { acceptsGzip } from "../http/compressed-responses.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { begun, type Headers, json, matchesEntityTag, notModified } from "../http/responses.ts";
import { DOCUMENT } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { documentOptions } from "./document-options.ts";
import { documentId, findDocument, requestRevision } from "./document-request.ts";
import { writeOne } from "./document-writes.ts";
import { storeUpload } from "./edits.ts";

export function attachmentRoutes(parts: DatabaseParts): Route[] {
  const paths = ["/{database}/{id}/{attachment...}", "/{database}/_design/{name}/{attachment...}"];
  return paths.flatMap((path) => [
    defineRoute("GET", path, DOCUMENT, (call) => read(parts, call)),
    defineRoute("PUT", path, DOCUMENT, (call) => write(parts, call)),
    defineRoute("DELETE", path, DOCUMENT, (call) => remove(parts, call)),
  ]);
}

async function read(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const id = documentId(call);
  const { request } = call;
  const options = documentOptions(call);
  const { database, document } = await readDatabase(parts, call, async (tx, opened) => ({
    database: opened,
    document: await findDocument(tx, opened, id, options),
  }));
  const attachment = attachmentOf(document, parameter(call, "attachment"));
  const tag = `"${attachment.digest.replace(/^md5-/, "")}"`;
  if (matchesEntityTag(request.headers.get("if-none-match"), tag)) {
    return notModified({ ETag: tag });
  }
  const decoded =
    attachment.encoding === undefined || !acceptsGzip(request.headers.get("accept-encoding"));
  return send(parts, call, { database, attachment, decoded }, { ETag: tag });
}

interface Sending {
  readonly database: Database;
  readonly attachment: Attachment;
  /** Whether the bytes are decompressed before they are sent. */
  readonly decoded: boolean;
}

async function send(
  { attachments: store }: DatabaseParts,
  { request: { headers: asked, signal } }: Call,
  { database, attachment, decoded }: Sending,
  tag: Headers,
): Promise<ApiResponse> {
  const isStoredPlain = attachment.encoding === undefined;
  const length = decoded ? attachment.length : attachment.encodedLength;
  // As in CouchDB, `Range` is ignored if the attachment is stored compressed. `Range` is also
  // ignored if `If-Range` has another entity tag.
  const isSame = (asked.get("if-range") ?? tag.ETag) === tag.ETag;
  const range = isStoredPlain && isSame ? byteRange(asked.get("range"), length) : undefined;
  const headers = {
    ...tag,
    "Accept-Ranges": isStoredPlain ? "bytes" : "none",
    "Content-Security-Policy": "sandbox",
    "Content-Type": attachment.contentType,
    ...(isStoredPlain || decoded ? {} : { "Content-Encoding": "gzip" }),
  };
  if (range !== undefined) {
    const { start, end } = range;
    const bytes = store.read(database, attachment, { decoded: false, start, end }, signal);
    return {
      status: 206,
      headers: {
        ...headers,
        "Content-Range": `bytes ${start}-${end - 1}/${length}`,
        "Content-Length": String(end - start),
      },
      body: await begun(bytes),
    };
  }
  const isWholeAsStored = isStoredPlain || !decoded;
  return {
    status: 200,
    headers: {
      ...headers,
      ...(isWholeAsStored ? { "Content-MD5": attachment.digest.replace(/^md5-/, "") } : {}),
      "Content-Length": String(length),
    },
    body:
      length === 0
        ? EMPTY_BYTES
        : await begun(store.read(database, attachment, { decoded }, signal)),
  };
}

async function write(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const id = documentId(call);
  const name = parameter(call, "attachment");
  const { headers, body, signal } = call.request;
  const parent = requestRevision(call);
  // Checked before the upload, so that no bytes are received for an outdated revision.
  const { database, document } = await openParent(parts, call, id, parent);
  const encoding = headers.get("content-encoding")?.toLowerCase();
  if (encoding !== undefined && encoding !== "gzip" && encoding !== "identity") {
    const reason = "Only gzip and identity content-encodings are supported";
    throw new ProtocolError(415, "bad_content_type", reason);
  }
  const announced = headers.get("content-length");
  const length = announced === undefined ? undefined : Number(announced);
  const md5 = headers.get("content-md5");
  const staged = await storeUpload(
    parts,
    database,
    {
      attachment: {
        name,
        contentType: headers.get("content-type"),
        digest: md5 === undefined ? undefined : `md5-${md5}`,
        length,
        encoding,
        encodedLength: length,
      },
      mode: "interactive",
      chunks: body,
    },
    signal,
  );
  const attachments = [...othersThan(name, document), staged];
  const { revision } = await writeOne(parts, call, {
    mode: "interactive",
    id,
    deleted: false,
    body: document?.body ?? Utf8Text.of("{}"),
    attachments,
    parent,
  });
  const location = `${locationOf(call, id)}/${percentEncode(name)}`;
  const answer = { ok: true, id, rev: revision };
  return json(201, answer, { ETag: `"${revision}"`, Location: location });
}

async function remove(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const id = documentId(call);
  const name = parameter(call, "attachment");
  const parent = requestRevision(call);
  const { document } =
    parent === undefined
      ? await readDatabase(parts, call, async (tx, database) => ({
          document: await findDocument(tx, database, id),
        }))
      : await openParent(parts, call, id, parent);
  // As in CouchDB, a missing document or attachment is reported before a conflict.
  if (document !== undefined) attachmentOf(document, name);
  if (document === undefined || parent === undefined) throw conflict();
  const { revision } = await writeOne(parts, call, {
    mode: "interactive",
    id,
    deleted: false,
    body: document.body,
    attachments: othersThan(name, document),
    parent,
  });
  return json(200, { ok: true, id, rev: revision }, { ETag: `"${revision}"` });
}

/**
 * Returns the leaf to edit. `document` is undefined if the document does not exist or is deleted.
 * Throws a ProtocolError for a conflict.
 */
async function openParent(
  parts: DatabaseParts,
  call: Call,
  id: string,
  parent: string | undefined,
): Promise<{ readonly database: Database; readonly document: Document | undefined }> {
  return readDatabase(parts, call, async (tx, database) => {
    if (parent === undefined) {
      const winner = await database.documents.read(tx, id);
      if (winner !== undefined && !winner.deleted) throw conflict();
      return { database, document: undefined };
    }
    const [document] = await database.documents.readRevision(tx, id, parent);
    if (document !== undefined) return { database, document };
    const [superseded] = await database.documents.readRevision(tx, id, parent, {
      superseded: true,
    });
    throw superseded === undefined ? missingRevision() : conflict();
  });
}

function conflict(): ProtocolError {
  return new ProtocolError(409, "conflict", "Document update conflict.");
}

/** CouchDB's error for adding or removing an attachment without a valid revision. */
function missingRevision(): ProtocolError {
  return new ProtocolError(409, "not_found", "missing_rev");
}

function attachmentOf({ attachments }: Document, name: string): Attachment {
  const found = attachments.find((attachment) => attachment.name === name);
  if (found !== undefined) return found;
  throw new ProtocolError(404, "not_found", "Document is missing attachment");
}

function othersThan(name: string, document: Document | undefined): AttachmentEdit[] {
  return (document?.attachments ?? [])
    .filter((attachment) => attachment.name !== name)
    .map((attachment) => ({ kind: "stub", name: attachment.name, digest: attachment.digest }));
}
