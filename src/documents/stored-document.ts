/** Renders a stored document as the text to be sent. */
import type { JsonMember, JsonText, LongText, Utf8Writer } from "../base/index.ts";
import type { Attachment, Document } from "../databases/index.ts";
import {
  formatRevision,
  type RenderedDocument,
  renderWireDocument,
  type WireAttachment,
  wireDocumentJson,
  wireDocumentPieces,
  writeWireDocument,
} from "../protocol/index.ts";

/** How an attachment appears in the text: as `stub`, `follows`, or base64. */
export type AttachmentForm = WireAttachment["content"];

export interface RenderOptions {
  /** Whether to include `_revisions`. */
  readonly revisions?: boolean;
  readonly extras?: readonly JsonMember[];
  /** Form of each attachment. Default: `stub`. */
  readonly attachmentForm?: (attachment: Attachment) => AttachmentForm;
  /**
   * Whether to include `encoding` and `encoded_length` of compressed attachments, as needed for
   * replication.
   */
  readonly encodingInfo?: boolean;
}

/** Renders a stored document as text. */
export function renderStoredDocument(document: Document, options: RenderOptions = {}): string {
  return renderWireDocument(wireForm(document, options));
}

/** Like `renderStoredDocument`, in UTF-8. */
export function writeStoredDocument(
  writer: Utf8Writer,
  document: Document,
  options: RenderOptions = {},
): void {
  writeWireDocument(writer, wireForm(document, options));
}

/** Like `renderStoredDocument`, in pieces that share the memory of the body. */
export function storedDocumentPieces(document: Document, options: RenderOptions = {}): LongText {
  return wireDocumentPieces(wireForm(document, options));
}

/** Renders a stored document as text, or as pieces if it is long. */
export function storedDocumentJson(
  document: Document,
  options: RenderOptions = {},
): JsonText | LongText {
  return wireDocumentJson(wireForm(document, options));
}

function wireForm(document: Document, options: RenderOptions): RenderedDocument {
  const { revisions, extras, attachmentForm, encodingInfo = false } = options;
  return {
    id: document.id,
    revision: document.revision,
    deleted: document.deleted,
    body: document.body,
    revisions: revisions === true ? document.revisions : undefined,
    extras,
    attachments: document.attachments.map((attachment) => ({
      name: attachment.name,
      content: attachmentForm?.(attachment) ?? { kind: "stub" },
      contentType: attachment.contentType,
      revisionPosition: attachment.revisionPosition,
      digest: attachment.digest,
      length: attachment.length,
      encoding: encodingInfo ? attachment.encoding : undefined,
      encodedLength: encodingInfo ? attachment.encodedLength : undefined,
    })),
  };
}

/**
 * Returns the attachments that a peer with the revisions `ancestors` lacks: those added after the
 * document's newest ancestor in this list (`atts_since`).
 */
export function attachmentsSince(
  { revisions, attachments }: Document,
  ancestors: readonly string[],
): ReadonlySet<string> {
  const known = new Set(ancestors);
  const place = revisions.hashes.findIndex((hash, index) =>
    known.has(formatRevision(revisions.start - index, hash)),
  );
  const since = place < 0 ? 0 : revisions.start - place;
  return new Set(
    attachments.filter(({ revisionPosition }) => revisionPosition > since).map(({ name }) => name),
  );
}
