/**
 * `POST /{db}/{id}` of an HTML form, `multipart/form-data`. Either the field `_doc` contains the
 * document, or the field `_rev` contains the revision of an existing document. The fields
 * `_attachments` contain files.
 */
import type { AttachmentEdit, Database, Document } from "../../databases/index.ts";
import {
  badRequest,
  type MultipartPart,
  ProtocolError,
  parseMediaType,
  parseWireDocument,
} from "../../protocol/index.ts";
import { openDatabase, readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { checkJson, readBytes } from "../http/request-body.ts";
import { json } from "../http/responses.ts";
import { DOCUMENT } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { checkRevision } from "./document-options.ts";
import { documentId } from "./document-request.ts";
import { writeOne } from "./document-writes.ts";
import { editOf, storeUpload, wireEdit } from "./edits.ts";

/** Maximum size of a form field other than a file. */
const FIELD_BYTES_MAX = 8 * 1024 * 1024;

export function formUploadRoutes(parts: DatabaseParts): Route[] {
  return ["/{database}/{id}", "/{database}/_design/{name}"].map((path) =>
    defineRoute("POST", path, { ...DOCUMENT, acceptsForms: true }, (call) => upload(parts, call)),
  );
}

/** The fields of a form. */
interface Form {
  readonly document: string | undefined;
  readonly revision: string | undefined;
  readonly files: readonly AttachmentEdit[];
}

async function upload(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  requireOwnReferer(call);
  const id = documentId(call);
  const database = await openDatabase(parts, call);
  const form = await readForm(parts, call, database, boundaryOf(call));
  const { attachments, ...rest } = await formEdit(parts, call, id, form);
  const uploaded = new Set(form.files.map(({ name }) => name));
  const kept = attachments.filter(({ name }) => !uploaded.has(name));
  const edit = { ...rest, attachments: [...form.files, ...kept] };
  const { revision } = await writeOne(parts, call, edit);
  return json(201, { ok: true, id, rev: revision }, { ETag: `"${revision}"` });
}

/**
 * As in CouchDB, a form on another site's page must not write with the credentials of the page's
 * visitor.
 */
function requireOwnReferer({ request: { headers } }: Call): void {
  const referer = headers.get("referer");
  if (referer === undefined) throw badRequest("Referer header required.");
  if (hostOf(referer) !== headers.get("host")) throw badRequest("Referer header must match host.");
}

function hostOf(url: string): string | undefined {
  try {
    return new URL(url).host;
  } catch {
    return undefined;
  }
}

function boundaryOf({ request: { headers } }: Call): string {
  const { type, parameters } = parseMediaType(headers.get("content-type") ?? "");
  if (type !== "multipart/form-data") {
    const reason = "Content-Type must be multipart/form-data";
    throw new ProtocolError(415, "bad_content_type", reason);
  }
  const boundary = parameters.get("boundary");
  if (boundary) return boundary;
  throw badRequest("The Content-Type multipart/form-data has no boundary");
}

/**
 * Reads the form and stores its files while they are received. As in CouchDB, unknown fields are
 * ignored.
 */
async function readForm(
  parts: DatabaseParts,
  call: Call,
  database: Database,
  boundary: string,
): Promise<Form> {
  let document: string | undefined;
  let revision: string | undefined;
  const files: AttachmentEdit[] = [];
  for await (const part of parts.parseMultipart(call.request.body, boundary)) {
    const { parameters } = parseMediaType(part.headers.get("content-disposition") ?? "");
    const field = parameters.get("name");
    const fileName = parameters.get("filename");
    if (field === "_attachments" && fileName) {
      files.push(await storeFile(parts, call, database, part, fileName));
      continue;
    }
    const bytes = await readBytes(call, part.body, FIELD_BYTES_MAX);
    if (field === "_doc") document = checkJson(bytes, "unique");
    if (field === "_rev") revision = new TextDecoder().decode(bytes).trim();
  }
  return { document, revision, files };
}

function storeFile(
  parts: DatabaseParts,
  call: Call,
  database: Database,
  { headers, body }: MultipartPart,
  name: string,
): Promise<AttachmentEdit> {
  const attachment = { name, contentType: headers.get("content-type") };
  const file = { attachment, mode: "interactive", chunks: body } as const;
  return storeUpload(parts, database, file, call.request.signal);
}

/** The edit described by the fields, without the files. */
async function formEdit(
  parts: DatabaseParts,
  call: Call,
  id: string,
  { document, revision }: Form,
): ReturnType<typeof wireEdit> {
  if (document !== undefined) {
    return wireEdit(parts, call, { ...parseWireDocument(document), id }, "interactive");
  }
  if (revision === undefined) throw badRequest("The form has neither a field `_doc` nor `_rev`");
  checkRevision(revision);
  const found = await findLeaf(parts, call, id, revision);
  const stubs = found.attachments.map(({ name, digest }) => {
    return { kind: "stub", name, digest } as const;
  });
  return editOf({ ...found, revisions: undefined, attachments: [] }, stubs, "interactive");
}

async function findLeaf(
  parts: DatabaseParts,
  call: Call,
  id: string,
  revision: string,
): Promise<Document> {
  const [document] = await readDatabase(parts, call, (tx, database) =>
    database.documents.readRevision(tx, id, revision),
  );
  if (document !== undefined) return document;
  throw new ProtocolError(409, "conflict", "Document update conflict.");
}
