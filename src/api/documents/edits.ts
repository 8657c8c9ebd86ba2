/** Makes an edit of the store from a document in a request. The bytes of its attachments are stored on the way. */
import { base64Decode } from "../../base/index.ts";
import type { AttachmentEdit, Database, DocumentEdit } from "../../databases/index.ts";
import { BODY_BYTES_MAX, checkDocumentId } from "../../databases/index.ts";
import {
  CONTENT_TYPE_DEFAULT,
  type IncomingAttachment,
  replicatedEdit,
  stageAttachment,
  stubEdit,
} from "../../documents/index.ts";
import {
  badRequest,
  formatRevision,
  ProtocolError,
  type WireAttachment,
  type WireDocument,
} from "../../protocol/index.ts";
import { openDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import { booleanParameter } from "../http/query.ts";
import { readDocumentBody } from "../http/request-body.ts";

/** Each write of a document reads and writes the list of all of them. CouchDB: has no bound. */
const ATTACHMENTS_MAX = 10_000;

export type EditMode = DocumentEdit["mode"];

/** A document that has an id. */
export type NamedDocument = WireDocument & { readonly id: string };

/** `new_edits` in the query. */
export function editMode(call: Call): EditMode {
  return booleanParameter(call, "new_edits", true) ? "interactive" : "replicated";
}

/** A request's document. */
export function readDocument(call: Call, mode: EditMode): Promise<WireDocument> {
  return readDocumentBody(call, mode === "replicated" ? "any" : "unique");
}

/** The edit that a document asks for, its inline attachments stored. Attachments that follow are the caller's to stage. */
export async function wireEdit(
  parts: DatabaseParts,
  call: Call,
  wire: NamedDocument,
  mode = editMode(call),
): Promise<DocumentEdit> {
  checkWire(parts, wire);
  const attachments = await inlineAttachments(parts, call, wire, mode);
  return editOf(wire, attachments, mode);
}

/** What the store would refuse only when all is said and done. */
export function checkWire(
  { settings }: Pick<DatabaseParts, "settings">,
  { id, body, attachments }: NamedDocument,
): void {
  checkDocumentId(id);
  checkCount(attachments);
  const byteCountMax = Math.min(settings.documentBytesMax, BODY_BYTES_MAX);
  if (body.exceedsBytes(byteCountMax)) throw new ProtocolError(413, "document_too_large", id);
}

/** Undefined for a type that is stored as it comes. */
function compressionLevelOf(
  { compressibleTypes, compressionLevel }: DatabaseParts["settings"],
  contentType: string,
): number | undefined {
  if (compressionLevel === 0) return undefined;
  const [type = ""] = contentType.split(";");
  const isCompressible = compressibleTypes.some((pattern) => {
    const escaped = pattern.split("*").map((text) => text.replace(/\W/g, "\\$&"));
    return new RegExp(`^${escaped.join(".*")}$`, "i").test(type.trim());
  });
  return isCompressible ? compressionLevel : undefined;
}

export function editOf(
  wire: NamedDocument,
  attachments: readonly AttachmentEdit[],
  mode: EditMode,
): DocumentEdit {
  checkNames(attachments);
  if (mode === "replicated") return replicatedEdit(wire, attachments);
  const { id, deleted, body } = wire;
  return { mode, id, deleted, body, attachments, parent: parentOf(wire) };
}

/** What a request says of an attachment whose bytes it brings. */
export type UploadedAttachment = Pick<WireAttachment, "name"> &
  Partial<
    Pick<
      WireAttachment,
      "contentType" | "revisionPosition" | "digest" | "length" | "encoding" | "encodedLength"
    >
  >;

export interface Upload {
  readonly attachment: UploadedAttachment;
  readonly mode: EditMode;
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** Stores bytes for an attachment. What a user uploads is compressed when it is text; what is replicated stays as it is. */
export async function storeUpload(
  { attachments: store, settings }: DatabaseParts,
  database: Database,
  { attachment, mode, chunks }: Upload,
  signal: AbortSignal,
): Promise<AttachmentEdit> {
  const { name, contentType = CONTENT_TYPE_DEFAULT, digest, encoding } = attachment;
  if (encoding !== undefined && encoding !== "gzip" && encoding !== "identity") {
    throw badRequest(`Attachment "${name}" has an encoding that is neither gzip nor identity`);
  }
  const isGzip = encoding === "gzip";
  const isReplicated = mode === "replicated";
  const incoming: IncomingAttachment = {
    name,
    contentType,
    revisionPosition: isReplicated ? attachment.revisionPosition : undefined,
    digest,
    length: isGzip ? attachment.encodedLength : attachment.length,
    encoding: isGzip ? "gzip" : undefined,
    compressionLevel: isReplicated ? undefined : compressionLevelOf(settings, contentType),
    body: chunks,
  };
  return stageAttachment(store, database, incoming, signal);
}

/** Stubs as they are, inline data stored. */
async function inlineAttachments(
  parts: DatabaseParts,
  call: Call,
  { attachments }: WireDocument,
  mode: EditMode,
): Promise<AttachmentEdit[]> {
  if (attachments.length === 0) return [];
  const database = await openDatabase(parts, call);
  const edits: AttachmentEdit[] = [];
  for (const attachment of attachments) {
    if (call.turns.areDue) await call.turns.give();
    edits.push(await inlineAttachment(parts, call, database, attachment, mode));
  }
  return edits;
}

export async function inlineAttachment(
  parts: DatabaseParts,
  call: Call,
  database: Database,
  attachment: WireAttachment,
  mode: EditMode,
): Promise<AttachmentEdit> {
  const { name, content, contentType, revisionPosition } = attachment;
  if (content.kind === "stub") return stubEdit(attachment);
  if (content.kind === "follows") {
    throw badRequest(`Attachment "${name}" follows, but the request is not multipart/related`);
  }
  const bytes = base64Decode(content.data, { isPadded: true });
  if (bytes === undefined) throw badRequest(`Invalid attachment data for ${name}`);
  // Inline data are never encoded, and what else is beside them may be left from an older version.
  const upload = { attachment: { name, contentType, revisionPosition }, mode, chunks: once(bytes) };
  return storeUpload(parts, database, upload, call.request.signal);
}

function parentOf({ revision, revisions }: WireDocument): string | undefined {
  if (revision !== undefined || revisions === undefined) return revision;
  const [hash] = revisions.hashes;
  return hash === undefined ? undefined : formatRevision(revisions.start, hash);
}

function checkCount(attachments: readonly unknown[]): void {
  if (attachments.length <= ATTACHMENTS_MAX) return;
  const reason = `A document has at most ${ATTACHMENTS_MAX} attachments`;
  throw new ProtocolError(413, "document_too_large", reason);
}

function checkNames(attachments: readonly AttachmentEdit[]): void {
  checkCount(attachments);
  const names = new Set<string>();
  for (const { name } of attachments) {
    if (names.has(name)) throw badRequest(`Duplicate attachment name '${name}'`);
    names.add(name);
  }
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes;
}
