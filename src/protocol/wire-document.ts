/**
 * A document on the wire: members with an underscore belong to the protocol, the rest is the body,
 * kept verbatim.
 */
import {
  base64Decode,
  base64Encode,
  JsonLimitError,
  type JsonMember,
  type JsonText,
  type JsonValue,
  joinObject,
  type LongText,
  outlineJson,
  Utf8Text,
  type Utf8Writer,
  utf8Encode,
} from "../base/index.ts";
import { ProtocolError } from "./protocol-error.ts";
import { parseRevision } from "./revision.ts";

/** `_revisions`: the hashes of a revision and its ancestors, newest first. */
export interface WireRevisions {
  readonly start: number;
  readonly hashes: readonly string[];
}

/** One member of `_attachments`. `follows` means that the bytes follow the JSON, in order. */
export interface WireAttachment {
  readonly name: string;
  readonly content: { readonly kind: "stub" } | { readonly kind: "follows" } | InlineContent;
  readonly contentType: string | undefined;
  readonly revisionPosition: number | undefined;
  readonly digest: string | undefined;
  readonly length: number | undefined;
  readonly encoding: string | undefined;
  readonly encodedLength: number | undefined;
}

/** Attachment bytes inlined as base64. */
export interface InlineContent {
  readonly kind: "inline";
  /** The bytes, or their base64 string, which is decoded lazily because it can be long. */
  readonly data: Uint8Array | JsonValue;
}

/**
 * Whether a digest can be verified. Other kinds of digests, such as `sha1-…` from other servers,
 * are ignored.
 */
export function isMd5Digest(digest: string | undefined): digest is `md5-${string}` {
  return digest?.startsWith("md5-") === true;
}

/** Returns the decoded bytes, or `undefined` if the base64 is invalid. */
export function inlineBytes({ data }: InlineContent): Uint8Array | undefined {
  if (data instanceof Uint8Array) return data;
  return base64Decode(data.string ?? "", { isPadded: true });
}

export interface WireDocument {
  readonly id: string | undefined;
  readonly revision: string | undefined;
  readonly deleted: boolean;
  /** The path in `_revisions`, if present. */
  readonly revisions: WireRevisions | undefined;
  readonly attachments: readonly WireAttachment[];
  /** JSON object with all other members. As in CouchDB, these include `_replication_…` members. */
  readonly body: Utf8Text;
}

/**
 * Maximum nesting of a document. Bounded because code that reads JSON often recurses for each
 * level.
 */
export const DOCUMENT_NESTING_MAX = 10_000;

/** Members that a reader receives and might send back, but that have no effect on a write. */
const IGNORED = new Set(["_revs_info", "_local_seq", "_conflicts", "_deleted_conflicts"]);
/** Members that CouchDB keeps as part of the body (`couch_doc`). */
const KEPT_PREFIX = "_replication_";

/**
 * Parses a document. `json` must be valid JSON. Throws a ProtocolError that names the invalid
 * member, or reports that the document is nested too deeply.
 */
export function parseWireDocument(json: JsonText | Uint8Array): WireDocument {
  return wireDocumentOf(outlineDocument(json));
}

function outlineDocument(json: JsonText | Uint8Array): JsonValue {
  try {
    return outlineJson(json, { depthMax: 1, nestingMax: DOCUMENT_NESTING_MAX });
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    throw new ProtocolError(400, "bad_request", error.message);
  }
}

/** Like `parseWireDocument`, for JSON that has already been scanned. */
export function wireDocumentOf(document: JsonValue): WireDocument {
  if (!document.isObject) {
    throw new ProtocolError(400, "bad_request", "Document must be a JSON object");
  }
  let id: string | undefined;
  let revision: string | undefined;
  let deleted = false;
  let revisions: WireRevisions | undefined;
  let attachments: readonly WireAttachment[] = [];
  let keepsSome = false;
  const rest = document.part("_", (name, value) => {
    if (name === "_id") id = parseId(value);
    else if (name === "_rev") revision = parseRevMember(value);
    else if (name === "_deleted") deleted = parseDeleted(value);
    else if (name === "_revisions") revisions = parseRevisions(value);
    else if (name === "_attachments") attachments = parseAttachments(value);
    else if (name.startsWith(KEPT_PREFIX)) keepsSome = true;
    else if (!IGNORED.has(name)) {
      throw new ProtocolError(400, "doc_validation", `Bad special document member: ${name}`);
    }
  });
  const body = keepsSome ? bodyWithKept(document) : Utf8Text.encoded(rest);
  return { id, revision, deleted, revisions, attachments, body };
}

/**
 * Returns the body of a document, including members with an underscore that CouchDB keeps in it.
 */
function bodyWithKept(document: JsonValue): Utf8Text {
  const members = document.members();
  const kept = members.filter(({ name }) => !name.startsWith("_") || name.startsWith(KEPT_PREFIX));
  return kept.length === members.length
    ? Utf8Text.encoded(document.bytes)
    : Utf8Text.of(joinObject(kept));
}

function parseId({ string: id }: JsonValue): string {
  if (id === undefined) {
    throw new ProtocolError(400, "illegal_docid", "Document id must be a string");
  }
  return id;
}

function parseRevMember(value: JsonValue): string {
  const revision = value.string;
  if (revision === undefined || parseRevision(revision) === undefined) {
    throw new ProtocolError(400, "bad_request", "Invalid rev format");
  }
  return revision;
}

function parseDeleted({ text }: JsonValue): boolean {
  if (text === "true" || text === "false") return text === "true";
  throw new ProtocolError(400, "bad_request", "_deleted must be a boolean");
}

/**
 * Maximum length of `_revisions`: 100,000 hashes, a hundred times CouchDB's default
 * (`_revs_limit`).
 */
const REVISIONS_BYTES_MAX = 4 * 1024 * 1024;
/** Maximum number of JSON values in `_attachments`. An attachment has up to ten. */
const ATTACHMENT_VALUES_MAX = 1_000_000;

function parseRevisions({ length, text }: JsonValue): WireRevisions {
  if (length > REVISIONS_BYTES_MAX) {
    const reason = `_revisions has more than ${REVISIONS_BYTES_MAX} bytes.`;
    throw new ProtocolError(400, "doc_validation", reason);
  }
  const parsed: unknown = JSON.parse(text);
  const { start, ids } = (parsed ?? {}) as { start?: unknown; ids?: unknown };
  if (typeof start !== "number" || !Number.isSafeInteger(start) || start < 0) {
    throw new ProtocolError(400, "doc_validation", "_revisions.start isn't an integer.");
  }
  if (!Array.isArray(ids) || !ids.every((hash) => typeof hash === "string")) {
    throw new ProtocolError(400, "doc_validation", "_revisions.ids isn't an array of strings.");
  }
  // A local document always has generation 0, even with several revisions.
  if (start > 0 && ids.length > start + 1) {
    throw new ProtocolError(400, "doc_validation", "_revisions.ids has more entries than start.");
  }
  return { start, hashes: ids };
}

function parseAttachments(value: JsonValue): WireAttachment[] {
  if (!value.isObject) {
    throw new ProtocolError(400, "bad_request", "_attachments must be a JSON object");
  }
  // Most documents were scanned without the members of their attachments. Scan these members now.
  const isOpen = value.isOpen && value.values().every((attachment) => attachment.value.isOpen);
  return (isOpen ? value : openedAttachments(value))
    .values()
    .map(({ name, value: attachment }) => parseAttachment(name, attachmentMembers(attachment)));
}

function openedAttachments(value: JsonValue): JsonValue {
  try {
    return outlineJson(value.bytes, { depthMax: 2, rowCountMax: ATTACHMENT_VALUES_MAX });
  } catch (error) {
    if (!(error instanceof JsonLimitError)) throw error;
    const reason = `_attachments has more than ${ATTACHMENT_VALUES_MAX} values`;
    throw new ProtocolError(400, "bad_request", reason, { cause: error });
  }
}

/**
 * Returns the members of an attachment that are used. Inline bytes, which can be long, are not
 * scanned again.
 */
function attachmentMembers(attachment: JsonValue): AttachmentMembers | undefined {
  if (!attachment.isObject) return undefined;
  let data: JsonValue | undefined;
  const described: Record<string, unknown> = {};
  for (const { name, value } of attachment.eachValue()) {
    if (name === "data") data = value;
    else if (DESCRIBING_MEMBERS.has(name)) described[name] = scalar(value);
  }
  return { data, described };
}

/**
 * Parses a scalar value. Returns an empty object for an array or object, because neither is valid
 * in any member of an attachment.
 */
function scalar(value: JsonValue): unknown {
  const isScalar = !value.isObject && !value.isArray;
  return value.string ?? (isScalar ? JSON.parse(value.text) : {});
}

interface AttachmentMembers {
  readonly data: JsonValue | undefined;
  readonly described: Readonly<Record<string, unknown>>;
}

const DESCRIBING_MEMBERS: ReadonlySet<string> = new Set([
  "stub",
  "follows",
  "content_type",
  "revpos",
  "digest",
  "length",
  "encoding",
  "encoded_length",
]);

function parseAttachment(name: string, members: AttachmentMembers | undefined): WireAttachment {
  const invalid = (reason: string): ProtocolError =>
    new ProtocolError(400, "bad_request", `Attachment "${name}" ${reason}`);
  if (name === "") throw new ProtocolError(400, "bad_request", "Attachment name can't be empty");
  if (name.startsWith("_")) {
    throw new ProtocolError(
      400,
      "bad_request",
      `Attachment name '${name}' starts with prohibited character '_'`,
    );
  }
  if (members === undefined) throw invalid("must be a JSON object");
  const { data, described } = members;
  const number = (key: string): number | undefined => {
    const found = described[key];
    if (found === undefined) return undefined;
    if (typeof found === "number" && Number.isSafeInteger(found) && found >= 0) return found;
    throw invalid(`has a ${key} that is not a non-negative integer`);
  };
  const string = (key: string): string | undefined => {
    const found = described[key];
    if (found === undefined) return undefined;
    if (typeof found === "string") return found;
    throw invalid(`has a ${key} that is not a string`);
  };
  if (data !== undefined && data.kind !== "string") throw invalid("has data that is not a string");
  let content: WireAttachment["content"];
  if (described.stub === true) content = { kind: "stub" };
  else if (described.follows === true) content = { kind: "follows" };
  else if (data !== undefined) content = { kind: "inline", data };
  else throw invalid("has neither data nor stub nor follows");
  return {
    name,
    content,
    contentType: string("content_type"),
    revisionPosition: number("revpos"),
    // CouchDB compares digests that begin with `md5-`, and ignores every other value.
    digest: typeof described.digest === "string" ? described.digest : undefined,
    length: number("length"),
    encoding: string("encoding"),
    encodedLength: number("encoded_length"),
  };
}

/** A document to be rendered. Its members appear in CouchDB's order. */
export interface RenderedDocument {
  readonly id: string;
  /** The revision; absent for a document that has not been written yet. */
  readonly revision: string | undefined;
  readonly deleted: boolean;
  readonly body: Utf8Text;
  readonly revisions?: WireRevisions | undefined;
  /** `_revs_info`, `_conflicts`, `_local_seq` and the like, between body and attachments. */
  readonly extras?: readonly JsonMember[] | undefined;
  readonly attachments?: readonly WireAttachment[];
}

/** Renders the document as text, with the body's members verbatim. */
export function renderWireDocument(document: RenderedDocument): JsonText {
  const { head, tail } = renderAround(document);
  const inner = innerText(document.body.text);
  const begun = inner === "" ? head : `${head},${inner}`;
  return (
    begun + tail.map((part) => (typeof part === "string" ? part : base64Encode(part))).join("")
  );
}

/** Renders in UTF-8, without converting the body to a string. */
export function writeWireDocument(writer: Utf8Writer, document: RenderedDocument): void {
  const { head, tail } = renderAround(document);
  const inner = innerBytes(document.body.bytes);
  writer.text(inner.length === 0 ? head : `${head},`);
  writer.bytes(inner);
  for (const part of tail) {
    if (typeof part === "string") writer.text(part);
    else writer.base64(part);
  }
}

/** Renders as pieces. The pieces of the body share its memory. */
export function wireDocumentPieces(document: RenderedDocument): LongText {
  const { head, tail } = renderAround(document);
  const inner = innerPieces(document.body.pieces);
  const encoded = tail.map((part) =>
    utf8Encode(typeof part === "string" ? part : base64Encode(part)),
  );
  return [utf8Encode(inner.length === 0 ? head : `${head},`), ...inner, ...encoded];
}

/**
 * Length above which a body is forwarded and scanned in pieces, yielding to the event loop in
 * between.
 */
const LONG_BYTES = 65_536;

export function isLongBody(body: Utf8Text): boolean {
  return body.length > LONG_BYTES;
}

/** Returns the document's text, or the pieces of a long document. */
export function wireDocumentJson(document: RenderedDocument): JsonText | LongText {
  return isLongBody(document.body) ? wireDocumentPieces(document) : renderWireDocument(document);
}

/** Pieces of a rendered document: text, or bytes to be encoded as base64. */
type Parts = readonly (JsonText | Uint8Array)[];

/** Returns the parts of the document's text before and after the members of its body. */
function renderAround({
  id,
  revision,
  deleted,
  revisions,
  extras,
  attachments,
}: Omit<RenderedDocument, "body">): { readonly head: string; readonly tail: Parts } {
  let head = `{"_id":${JSON.stringify(id)}`;
  if (revision !== undefined) head += `,"_rev":${JSON.stringify(revision)}`;
  let tail = deleted ? `,"_deleted":true` : "";
  if (revisions !== undefined) {
    tail += `,"_revisions":{"start":${revisions.start},"ids":${JSON.stringify(revisions.hashes)}}`;
  }
  for (const { name, value } of extras ?? []) tail += `,${JSON.stringify(name)}:${value}`;
  if (attachments === undefined || attachments.length === 0) return { head, tail: [`${tail}}`] };
  return { head, tail: [`${tail},"_attachments":`, ...renderAttachments(attachments), "}"] };
}

/** Returns the text between an object's braces, without surrounding white space. */
function innerText(body: JsonText): string {
  const trimmed = body.trim();
  return trimmed.slice(1, -1).trim();
}

/** Like `innerText`, for UTF-8. */
function innerBytes(body: Uint8Array): Uint8Array {
  let begin = 0;
  let end = body.length;
  while (isSpace(body[begin])) begin++;
  while (isSpace(body[end - 1])) end--;
  begin++;
  end--;
  while (isSpace(body[begin])) begin++;
  while (begin < end && isSpace(body[end - 1])) end--;
  return body.subarray(begin, Math.max(begin, end));
}

/** Like `innerText`, for pieces that are not empty. */
function innerPieces(body: LongText): LongText {
  const trimmed = withoutSpaceBehind(withoutSpaceBefore(body));
  const members = withoutEnds(trimmed);
  return withoutSpaceBehind(withoutSpaceBefore(members));
}

function withoutSpaceBefore(pieces: LongText): LongText {
  for (const [at, piece] of pieces.entries()) {
    let begin = 0;
    while (isSpace(piece[begin])) begin++;
    if (begin < piece.length) return [piece.subarray(begin), ...pieces.slice(at + 1)];
  }
  return [];
}

function withoutSpaceBehind(pieces: LongText): LongText {
  for (let at = pieces.length - 1; at >= 0; at--) {
    const piece = pieces[at] as Uint8Array;
    let end = piece.length;
    while (isSpace(piece[end - 1])) end--;
    if (end > 0) return [...pieces.slice(0, at), piece.subarray(0, end)];
  }
  return [];
}

/** Removes the first and the last byte of the text. */
function withoutEnds(pieces: LongText): LongText {
  const [first, ...behind] = pieces as readonly [Uint8Array, ...Uint8Array[]];
  const begun = [first.subarray(1), ...behind];
  const last = begun.pop() as Uint8Array;
  return [...begun, last.subarray(0, -1)];
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function renderAttachments(attachments: readonly WireAttachment[]): Parts {
  const parts: (JsonText | Uint8Array)[] = [];
  let text = "{";
  let separator = "";
  for (const attachment of attachments) {
    const { name, content, encoding } = attachment;
    text += `${separator}${JSON.stringify(name)}:{`;
    separator = ",";
    const described = {
      content_type: attachment.contentType,
      revpos: attachment.revisionPosition,
      digest: attachment.digest,
    };
    const encoded =
      encoding === undefined ? {} : { encoding, encoded_length: attachment.encodedLength };
    if (content.kind !== "inline") {
      const length = { length: attachment.length, [content.kind]: true };
      text += `${insideOf({ ...described, ...length, ...encoded })}}`;
      continue;
    }
    const { data } = content;
    const before = insideOf(described);
    text += before === "" ? '"data":' : `${before},"data":`;
    if (data instanceof Uint8Array) {
      parts.push(`${text}"`, data);
      text = '"';
    } else text += data.text;
    const behind = insideOf(encoded);
    text += behind === "" ? "}" : `,${behind}}`;
  }
  parts.push(`${text}}`);
  return parts;
}

/** Returns the JSON between an object's braces. */
function insideOf(members: object): string {
  return JSON.stringify(members).slice(1, -1);
}
