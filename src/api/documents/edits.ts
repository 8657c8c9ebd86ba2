/**
 * Converts a document in a request into an edit for the store, storing the bytes of its
 * attachments.
 */
import type { AttachmentEdit, Database, DocumentEdit } from "../../databases/index.ts";
import { BODY_BYTES_MAX, checkDocumentId } from "../../databases/index.ts";
import {
  CONTENT_TYPE_DEFAULT,
  type DescribedAttachment,
  replicatedEdit,
  stageAttachment,
  stageAttachments,
  stubEdit,
  type WholeAttachment,
} from "../../documents/index.ts";
import {
  badRequest,
  formatRevision,
  inlineBytes,
  ProtocolError,
  type WireAttachment,
  type WireDocument,
} from "../../protocol/index.ts";
import { openDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import { booleanParameter } from "../http/query.ts";
import { readDocumentBody } from "../http/request-body.ts";

/**
 * Maximum number of attachments per document. All of them are written without yielding, and their
 * list is rewritten with each revision. CouchDB has no limit.
 */
const ATTACHMENTS_MAX = 2_000;

export type EditMode = DocumentEdit["mode"];

/** A document whose id is known. */
export type NamedDocument = WireDocument & { readonly id: string };

/** The parameter `new_edits` in the query. */
export function editMode(call: Call): EditMode {
  return booleanParameter(call, "new_edits", true) ? "interactive" : "replicated";
}

/** Parses the document of a request. */
export function readDocument(call: Call, mode: EditMode): Promise<WireDocument> {
  return readDocumentBody(call, mode === "replicated" ? "any" : "unique");
}

/**
 * The edit for a document, after storing its inline attachments. Attachments that follow in a
 * multipart body are stored by the caller.
 */
export async function wireEdit(
  parts: DatabaseParts,
  call: Call,
  wire: NamedDocument,
  mode = editMode(call),
): Promise<DocumentEdit> {
  checkWire(parts, wire);
  const attachments = await inlineAttachments(parts, call, wire.attachments, mode);
  return editOf(wire, attachments, mode);
}

/** Checks for errors that the store would report only after all attachments have been stored. */
export function checkWire(
  { settings }: Pick<DatabaseParts, "settings">,
  { id, body, attachments }: NamedDocument,
): void {
  checkDocumentId(id);
  checkCount(attachments);
  const byteCountMax = Math.min(settings.documentBytesMax, BODY_BYTES_MAX);
  if (body.exceedsBytes(byteCountMax)) throw new ProtocolError(413, "document_too_large", id);
}

/** Like `checkWire`, but also decodes and checks inline attachments. */
export function checkEdit(
  parts: Pick<DatabaseParts, "settings">,
  wire: NamedDocument,
  mode: EditMode,
): void {
  checkWire(parts, wire);
  for (const attachment of wire.attachments) {
    if (attachment.content.kind !== "stub") inlineUpload(parts.settings, attachment, mode);
  }
}

/** Compression for a content type; `undefined` if it is stored uncompressed. */
function compressionLevelOf(
  { compressibleTypes, compressionLevel }: DatabaseParts["settings"],
  contentType: string,
): number | undefined {
  if (compressionLevel === 0) return undefined;
  const [type = ""] = contentType.split(";");
  return compressibleTypes.some((pattern) => typePattern(pattern).test(type.trim()))
    ? compressionLevel
    : undefined;
}

/** Compiled content-type patterns, cached because a document can have thousands of attachments. */
const typePatterns = new Map<string, RegExp>();
const TYPE_PATTERNS_MAX = 100;

function typePattern(pattern: string): RegExp {
  const known = typePatterns.get(pattern);
  if (known !== undefined) return known;
  const escaped = pattern.split("*").map((text) => text.replace(/\W/g, "\\$&"));
  const made = new RegExp(`^${escaped.join(".*")}$`, "i");
  if (typePatterns.size >= TYPE_PATTERNS_MAX) typePatterns.clear();
  typePatterns.set(pattern, made);
  return made;
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

/** Metadata of an uploaded attachment. */
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

/**
 * Stores the bytes of an attachment, compressed if the content type is compressible and they are
 * not compressed already.
 */
export async function storeUpload(
  { attachments: store, settings }: DatabaseParts,
  database: Database,
  { attachment, mode, chunks }: Upload,
  signal: AbortSignal,
): Promise<AttachmentEdit> {
  const incoming = { ...describedUpload(settings, attachment, mode), body: chunks };
  return stageAttachment(store, database, incoming, signal);
}

/**
 * Like `storeUpload` for each upload, but stores many small attachments per transaction. Reads the
 * iterable lazily.
 */
export async function storeUploads(
  { attachments: store, settings }: DatabaseParts,
  call: Call,
  database: Database,
  uploads: AsyncIterable<Upload>,
): Promise<AttachmentEdit[]> {
  const incoming = async function* () {
    for await (const { attachment, mode, chunks } of uploads) {
      yield { ...describedUpload(settings, attachment, mode), body: chunks };
    }
  };
  const options = { yielder: call.yielder, signal: call.request.signal };
  return stageAttachments(store, database, incoming(), options);
}

function describedUpload(
  settings: DatabaseParts["settings"],
  attachment: UploadedAttachment,
  mode: EditMode,
): DescribedAttachment {
  const { name, contentType = CONTENT_TYPE_DEFAULT, digest, encoding } = attachment;
  if (encoding !== undefined && encoding !== "gzip" && encoding !== "identity") {
    throw badRequest(`Attachment "${name}" has an encoding that is neither gzip nor identity`);
  }
  const isGzip = encoding === "gzip";
  const isReplicated = mode === "replicated";
  return {
    name,
    contentType,
    revisionPosition: isReplicated ? attachment.revisionPosition : undefined,
    digest,
    length: isGzip ? attachment.encodedLength : attachment.length,
    encoding: isGzip ? "gzip" : undefined,
    // As in CouchDB, replicated attachments (`new_edits=false`) are compressed too. Restoring a
    // backup relies on this: the backup contains the digests of the compressed bytes.
    compressionLevel: isGzip ? undefined : compressionLevelOf(settings, contentType),
  };
}

/** Keeps stubs and stores inline data, in batches that share one disk sync. */
export async function inlineAttachments(
  parts: DatabaseParts,
  call: Call,
  attachments: readonly WireAttachment[],
  mode: EditMode,
): Promise<AttachmentEdit[]> {
  if (attachments.length === 0) return [];
  const { attachments: store, settings } = parts;
  const database = await openDatabase(parts, call);
  const inline = attachments.filter(({ content }) => content.kind !== "stub");
  const uploads = function* () {
    for (const attachment of inline) yield inlineUpload(settings, attachment, mode);
  };
  const options = { yielder: call.yielder, signal: call.request.signal };
  const staged = await stageAttachments(store, database, uploads(), options);
  let next = 0;
  return attachments.map((attachment) =>
    attachment.content.kind === "stub" ? stubEdit(attachment) : (staged[next++] as AttachmentEdit),
  );
}

function inlineUpload(
  settings: DatabaseParts["settings"],
  { name, content, contentType, revisionPosition }: WireAttachment,
  mode: EditMode,
): WholeAttachment {
  if (content.kind !== "inline") {
    throw badRequest(
      `Attachment "${name}" has the member \`follows\`, but the request is not multipart/related`,
    );
  }
  const bytes = inlineBytes(content);
  if (bytes === undefined) throw badRequest(`Invalid attachment data for ${name}`);
  // Inline data are never encoded. Members such as `encoding` can be left over from an older
  // revision and are ignored.
  return { ...describedUpload(settings, { name, contentType, revisionPosition }, mode), bytes };
}

function parentOf({ revision, revisions }: WireDocument): string | undefined {
  if (revision !== undefined || revisions === undefined || revisions.start === 0) return revision;
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
