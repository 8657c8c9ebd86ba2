/** CouchDB's protocol, for client and server: revisions, media types, multipart, documents, selectors. */
export type { MediaType } from "./media-type.ts";
export { accepts, acceptsExplicitly, parseMediaType } from "./media-type.ts";
export type { MultipartParser, MultipartPart, WrittenPart } from "./multipart.ts";
export { bytesPart, multipartLength, writeMultipart } from "./multipart.ts";
export { normalizeSelector } from "./normalize-selector.ts";
export { badRequest, ProtocolError } from "./protocol-error.ts";
export type { ParsedRevision } from "./revision.ts";
export { formatRevision, parseRevision } from "./revision.ts";
export { compileSelector, fieldPath } from "./selector.ts";
export type { IdBounds, SelectorFields } from "./selector-fields.ts";
export { selectorFields, selectorIdBounds } from "./selector-fields.ts";
export {
  encodeAttachmentName,
  encodeDatabaseName,
  encodeDocumentId,
  maskCredentials,
  stripCredentials,
} from "./urls.ts";
export type {
  RenderedDocument,
  WireAttachment,
  WireDocument,
  WireRevisions,
} from "./wire-document.ts";
export {
  parseWireDocument,
  renderWireDocument,
  wireDocumentOf,
  writeWireDocument,
} from "./wire-document.ts";
