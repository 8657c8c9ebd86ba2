/**
 * CouchDB's protocol, for client and server: revisions, media types, multipart, documents,
 * selectors.
 */
export type { BatchMessage } from "./batch.ts";
export {
  BATCH_BODY_BYTES_MAX,
  BATCH_MESSAGES_MAX,
  BATCH_TYPE,
  BatchReader,
  batchMessage,
} from "./batch.ts";
export { checkCreation } from "./database-creation.ts";
export type { Term } from "./external-term.ts";
export {
  atom,
  binaries,
  binary,
  charlist,
  encodeListPieces,
  encodeOnce,
  encodeTerm,
  jsonTerm,
  list,
  tuple,
} from "./external-term.ts";
export { compareJson } from "./json-order.ts";
export { accepts, acceptsExplicitly, parseMediaType } from "./media-type.ts";
export type { MultipartParser, MultipartPart, WrittenPart } from "./multipart.ts";
export { multipartLength, piecesPart, writeMultipart } from "./multipart.ts";
export type { Selector } from "./normalize-selector.ts";
export { hashedSelector, normalizeSelector } from "./normalize-selector.ts";
export { parseTtl } from "./period.ts";
export { badRequest, ProtocolError } from "./protocol-error.ts";
export { compilePattern, PatternError } from "./regular-expression.ts";
export { formatRevision, parseRevision } from "./revision.ts";
export { checkSelector, compileSelector, fieldPath, selectorWeight, valueAt } from "./selector.ts";
export type { IdBounds, SelectorFields } from "./selector-fields.ts";
export { selectorFields, selectorIdBounds } from "./selector-fields.ts";
export { formatSinceTime, hasTimeForm, sinceTime } from "./since-time.ts";
export type { ParsedQuery } from "./urls.ts";
export {
  encodeAttachmentName,
  encodeDatabaseName,
  encodeDocumentId,
  isWellFormed,
  maskCredentials,
  parseQuery,
  percentDecode,
  percentEncode,
  stripCredentials,
} from "./urls.ts";
export type { RenderedDocument, WireAttachment, WireDocument } from "./wire-document.ts";
export {
  DOCUMENT_NESTING_MAX,
  inlineBytes,
  isLongBody,
  isMd5Digest,
  parseWireDocument,
  renderWireDocument,
  wireDocumentJson,
  wireDocumentOf,
  wireDocumentPieces,
  writeWireDocument,
} from "./wire-document.ts";
