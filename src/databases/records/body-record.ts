/**
 * The stored form of a leaf's body, of its list of attachments, and of local documents and security
 * objects. All are split into chunks.
 *
 *   BodyRecord             format (1): 1 or 2, then the body in UTF-8; or 3 or 4, then the length
 *                          of the authority as JSON, the authority, and the body. Sealed in formats
 *                          2 and 4. An empty body, as in most tombstones, is not sealed
 *   AttachmentListRecord   format (1), number of attachments, each: name, content type, position,
 *                          digest (16), encoding (1), length, encoded length, content (16)
 *   LocalRecord            format (1), number of chunks, revision number, the body
 *   SecurityRecord         format (1), number of chunks, the JSON
 */
import {
  assert,
  base64Decode,
  base64Encode,
  concatBytes,
  hexDecode,
  hexEncode,
  type JsonText,
  type Seal,
  Utf8Text,
  utf8Decode,
} from "../../base/index.ts";
import type { Authority } from "../authority.ts";
import type { Attachment } from "../document.ts";
import { CHUNK_BYTES, joinChunks, splitBehind, splitChunks } from "./chunks.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 1;
const FORMAT_SEALED = 2;
const FORMAT_AUTHORED = 3;
const FORMAT_AUTHORED_SEALED = 4;
const DIGEST_BYTES = 16;
const CONTENT_ID_BYTES = 16;
const DIGEST_PREFIX = "md5-";
/** Length of the only object without members, `{}`. */
const EMPTY_OBJECT_BYTES = 2;
const IDENTITY = 0;
const GZIP = 1;

/** Seals a body, bound to its document and revision. */
export interface BodySeal {
  readonly seal: Seal;
  readonly place: string;
}

/** A leaf's body, with the leaf's authority in databases that store it. */
export interface AuthoredBody {
  readonly text: Utf8Text;
  readonly authority: Authority | undefined;
}

/** Whether the body, given in UTF-8, has a member. An empty object contains no secret. */
export function hasMember(text: Uint8Array): boolean {
  return text.length !== EMPTY_OBJECT_BYTES;
}

/**
 * Encodes a body, given in UTF-8, and `authority`, the author's rights stored with the body, if
 * any. The chunks can share the memory of `text`. They are valid until the next record is started.
 */
export function encodeBody(
  text: Uint8Array,
  sealed?: BodySeal,
  authority?: Authority,
): Uint8Array[] {
  const isAuthored = authority !== undefined;
  const plain = isAuthored ? authoredBytes(text, authority) : text;
  if (sealed === undefined) {
    return splitBehind(new RecordWriter().byte(isAuthored ? FORMAT_AUTHORED : FORMAT), plain);
  }
  const format = isAuthored ? FORMAT_AUTHORED_SEALED : FORMAT_SEALED;
  return splitBehind(new RecordWriter().byte(format), sealed.seal.seal(plain, sealed.place));
}

function authoredBytes(text: Uint8Array, authority: Authority): Uint8Array {
  return concatBytes([new RecordWriter().text(JSON.stringify(authority)).finish(), text]);
}

/** Returns the body. An unsealed body shares the memory of the chunks. */
export function decodeBody(chunks: readonly Uint8Array[], sealed?: BodySeal): Utf8Text {
  return decodeAuthoredBody(chunks, sealed).text;
}

export function decodeAuthoredBody(chunks: readonly Uint8Array[], sealed?: BodySeal): AuthoredBody {
  const reader = new RecordReader(chunks[0] as Uint8Array);
  const format = reader.byte();
  const stored = textOf(reader.rest(), chunks);
  if (format === FORMAT) return { text: stored, authority: undefined };
  if (format === FORMAT_AUTHORED) return splitAuthored(stored.bytes);
  const isSealed = format === FORMAT_SEALED || format === FORMAT_AUTHORED_SEALED;
  assert(isSealed, "The body record must have a supported format version");
  assert(sealed !== undefined, "A sealed body must be in a database that has a seal");
  const opened = sealed.seal.open(stored.bytes, sealed.place);
  if (format === FORMAT_AUTHORED_SEALED) return splitAuthored(opened);
  return { text: Utf8Text.encoded(opened), authority: undefined };
}

function splitAuthored(bytes: Uint8Array): AuthoredBody {
  const reader = new RecordReader(bytes);
  const authority: Authority = JSON.parse(reader.text());
  return { text: Utf8Text.encoded(reader.rest()), authority };
}

/** Whether the record is sealed with the current key, or need not be sealed. */
export function isCurrentBody(chunks: readonly Uint8Array[], { seal }: BodySeal): boolean {
  const reader = new RecordReader(joinChunks(chunks));
  const format = reader.byte();
  const isSealed = format === FORMAT_SEALED || format === FORMAT_AUTHORED_SEALED;
  if (isSealed) return seal.isCurrent(reader.rest());
  return !hasMember(decodeBody(chunks).bytes);
}

export function encodeAttachmentList(attachments: readonly Attachment[]): Uint8Array[] {
  const writer = new RecordWriter().byte(FORMAT).integer(attachments.length);
  for (const attachment of attachments) {
    writer.text(attachment.name).text(attachment.contentType).integer(attachment.revisionPosition);
    writer.raw(digestBytes(attachment.digest));
    writer.byte(attachment.encoding === "gzip" ? GZIP : IDENTITY);
    writer.integer(attachment.length).integer(attachment.encodedLength);
    writer.raw(hexDecode(attachment.contentId) as Uint8Array);
  }
  return splitChunks(writer.finish());
}

export function decodeAttachmentList(chunks: readonly Uint8Array[]): Attachment[] {
  const reader = new RecordReader(joinChunks(chunks));
  assert(reader.byte() === FORMAT, "The attachment list must have a supported format version");
  return Array.from({ length: reader.integer() }, () => ({
    name: reader.text(),
    contentType: reader.text(),
    revisionPosition: reader.integer(),
    digest: digestText(reader.raw(DIGEST_BYTES)),
    encoding: reader.byte() === GZIP ? ("gzip" as const) : undefined,
    length: reader.integer(),
    encodedLength: reader.integer(),
    contentId: hexEncode(reader.raw(CONTENT_ID_BYTES)),
  }));
}

/** Returns the 16 bytes of `md5-<base64>`. */
export function digestBytes(digest: string): Uint8Array {
  const bytes = parseDigest(digest);
  assert(bytes !== undefined, "A stored digest must be md5- followed by 16 bytes in base64");
  return bytes;
}

/** Like `digestBytes`, but returns `undefined` if the text is not an MD5 digest. */
export function parseDigest(digest: string): Uint8Array | undefined {
  if (!digest.startsWith(DIGEST_PREFIX)) return undefined;
  const bytes = base64Decode(digest.slice(DIGEST_PREFIX.length));
  return bytes?.length === DIGEST_BYTES ? bytes : undefined;
}

export function digestText(bytes: Uint8Array): string {
  return DIGEST_PREFIX + base64Encode(bytes);
}

export interface LocalRecord {
  readonly revisionNumber: number;
  readonly body: Utf8Text;
}

/** Like `encodeBody`, for a local document. */
export function encodeLocal({ revisionNumber, body: { bytes } }: LocalRecord): Uint8Array[] {
  const numberBytes = new RecordWriter().integer(revisionNumber).finishBriefly().length;
  return splitBehind(withChunkCount(numberBytes + bytes.length).integer(revisionNumber), bytes);
}

export function decodeLocal(chunks: readonly Uint8Array[]): LocalRecord {
  const reader = behindFormat(chunks[0] as Uint8Array);
  assert(reader.integer() === chunks.length, "All chunks of a record must be read");
  const revisionNumber = reader.integer();
  return { revisionNumber, body: textOf(reader.rest(), chunks) };
}

/** Joins the rest of the first chunk with the following chunks. */
function textOf(first: Uint8Array, chunks: readonly Uint8Array[]): Utf8Text {
  return chunks.length === 1
    ? Utf8Text.encoded(first)
    : Utf8Text.inPieces([first, ...chunks.slice(1)]);
}

/** Encodes a security object, given in UTF-8. */
export function encodeSecurity(text: Uint8Array): Uint8Array[] {
  return splitBehind(withChunkCount(text.length), text);
}

export function decodeSecurity(chunks: readonly Uint8Array[]): JsonText {
  return utf8Decode(behindChunkCount(chunks).rest());
}

/** Reads the number of chunks of a local or security record from its chunk 0. */
export function chunkCountOf(first: Uint8Array): number {
  return behindFormat(first).integer();
}

/** Starts a record with its number of chunks. `byteCount` bytes must follow. */
function withChunkCount(byteCount: number): RecordWriter {
  const chunkCount = Math.ceil((2 + byteCount) / CHUNK_BYTES);
  assert(chunkCount < 0x80, "A record must not exceed a transaction");
  return new RecordWriter().byte(FORMAT).integer(chunkCount);
}

function behindChunkCount(chunks: readonly Uint8Array[]): RecordReader {
  const reader = behindFormat(joinChunks(chunks));
  assert(reader.integer() === chunks.length, "All chunks of a record must be read");
  return reader;
}

function behindFormat(bytes: Uint8Array): RecordReader {
  const reader = new RecordReader(bytes);
  assert(reader.byte() === FORMAT, "The record must have a supported format version");
  return reader;
}
