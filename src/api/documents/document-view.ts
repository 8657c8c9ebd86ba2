/**
 * Renders a stored document with the options of a request: reads the necessary records and writes
 * the JSON text.
 */
import {
  type JsonMember,
  type JsonText,
  type LongText,
  type Utf8Writer,
  utf8Encode,
  type Yielder,
} from "../../base/index.ts";
import type { Attachment, Database, Document } from "../../databases/index.ts";
import {
  attachmentsSince,
  documentArgument,
  type Fields,
  fieldsOfDocument,
  fieldsOfText,
  type RenderOptions,
  renderStoredDocument,
  type SandboxArgument,
  storedDocumentJson,
  storedDocumentPieces,
  writeStoredDocument,
} from "../../documents/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import { isLongBody, ProtocolError } from "../../protocol/index.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { ViewOptions } from "./document-options.ts";

/** Maximum size of an attachment in JSON, which is buffered. */
const INLINE_BYTES_MAX = 128 * 1024 * 1024;

/** A document with everything requested about it, read in one transaction. */
export interface DocumentView {
  readonly document: Document;
  readonly extras: readonly JsonMember[];
}

/**
 * Reads everything requested about a document. Returns synchronously if only the document itself is
 * requested.
 */
export function viewOf(
  tx: ReadTransaction,
  database: Database,
  document: Document,
  options: ViewOptions,
): DocumentView | Promise<DocumentView> {
  const { revisionsInfo, conflicts, deletedConflicts, localSequence } = options;
  const isPlain = !revisionsInfo && !conflicts && !deletedConflicts && !localSequence;
  return isPlain
    ? { document, extras: NO_EXTRAS }
    : viewWithExtras(tx, database, document, options);
}

const NO_EXTRAS: readonly JsonMember[] = [];

async function viewWithExtras(
  tx: ReadTransaction,
  database: Database,
  document: Document,
  options: ViewOptions,
): Promise<DocumentView> {
  const { id, revision } = document;
  const { revisionsInfo, conflicts, deletedConflicts } = options;
  const extras: JsonMember[] = [];
  const add = (name: string, list: readonly unknown[]): void => {
    if (list.length > 0) extras.push({ name, value: JSON.stringify(list) });
  };
  if (revisionsInfo) {
    const statuses = await database.documents.revisionStatuses(tx, id, revision);
    add(
      "_revs_info",
      statuses.map(({ revision: rev, status }) => ({ rev, status })),
    );
  }
  if (conflicts || deletedConflicts) {
    const others = (await database.documents.leaves(tx, id)).filter(
      (leaf) => leaf.revision !== revision,
    );
    const revisionsOf = (deleted: boolean): string[] =>
      others.filter((leaf) => leaf.deleted === deleted).map((leaf) => leaf.revision);
    if (conflicts) add("_conflicts", revisionsOf(false));
    if (deletedConflicts) add("_deleted_conflicts", revisionsOf(true));
  }
  if (options.localSequence) {
    const sequence = await database.changes.sequenceOf(tx, id);
    extras.push({ name: "_local_seq", value: JSON.stringify(sequence) });
  }
  return { document, extras };
}

/** The attachments whose bytes are sent with the document. */
export function sentAttachments(document: Document, options: ViewOptions): readonly Attachment[] {
  if (!options.attachments) return [];
  const { attachmentsSince: ancestors } = options;
  if (ancestors === undefined) return document.attachments;
  const names = attachmentsSince(document, ancestors);
  return document.attachments.filter(({ name }) => names.has(name));
}

/**
 * The document as JSON text, or in pieces if it is long, with requested attachments in base64.
 * Returns synchronously if there are no attachments.
 */
export function viewJson(
  parts: DatabaseParts,
  database: Database,
  view: DocumentView,
  options: ViewOptions,
  signal: AbortSignal,
): JsonText | LongText | Promise<JsonText | LongText> {
  const data = inlineData(parts, database, view, options, signal);
  const render = (there: InlineData): JsonText | LongText =>
    storedDocumentJson(view.document, renderOptions(there, view, options));
  return data instanceof Promise ? data.then(render) : render(data);
}

/** Like `viewJson`, but in UTF-8 and with the attachment bytes read by `inlineData`. */
export function writeView(
  writer: Utf8Writer,
  view: DocumentView,
  options: ViewOptions,
  data: InlineData,
): void {
  writeStoredDocument(writer, view.document, renderOptions(data, view, options));
}

/** Like `viewJson`, but in pieces that share the memory of the stored body. */
export function viewPieces(view: DocumentView, options: ViewOptions, data: InlineData): LongText {
  return storedDocumentPieces(view.document, renderOptions(data, view, options));
}

/** A document, rendered on demand, that a selector can read and a response can contain. */
export interface ViewedDocument extends SandboxArgument {
  /** The text of the document, in pieces if it is long. */
  json(): JsonText | LongText;
  /** Values by path. `depth` is the usual number of segments of the paths to be read. */
  fields(depth: number, yielder: Yielder): Promise<Fields>;
}

/** The document without attachment bytes, unless `data` contains them. Rendered at most once. */
export function viewedDocument(
  view: DocumentView,
  options: ViewOptions,
  data = NO_INLINE_DATA,
): ViewedDocument {
  const { document } = view;
  const rendering = renderOptions(data, view, options);
  if (!isLongBody(document.body))
    return viewedText(() => renderStoredDocument(document, rendering), document.body.length);
  return {
    ...documentArgument(document, rendering),
    json: () => storedDocumentPieces(document, rendering),
    fields: (_, yielder) => fieldsOfDocument(document, rendering, yielder),
  };
}

/** A document that `render` returns as a string of about `length` bytes. Rendered only once. */
export function viewedText(render: () => JsonText, length: number): ViewedDocument {
  let made: JsonText | undefined;
  const text = (): JsonText => {
    made ??= render();
    return made;
  };
  return {
    length,
    text,
    pieces: () => [utf8Encode(text())],
    json: text,
    fields: (depth, yielder) => fieldsOfText(text(), depth, yielder),
  };
}

/** The bytes of attachments, by name. */
export type InlineData = ReadonlyMap<string, Uint8Array>;

/**
 * Bytes of the attachments requested with a document. Returns synchronously if there are no
 * attachments.
 */
export function inlineData(
  parts: DatabaseParts,
  database: Database,
  { document }: DocumentView,
  options: ViewOptions,
  signal: AbortSignal,
): InlineData | Promise<InlineData> {
  const sent = sentAttachments(document, options);
  return sent.length === 0 ? NO_INLINE_DATA : readInlineData(parts, database, sent, signal);
}

export const NO_INLINE_DATA: InlineData = new Map();

async function readInlineData(
  { attachments: store }: DatabaseParts,
  database: Database,
  attachments: readonly Attachment[],
  signal: AbortSignal,
): Promise<InlineData> {
  const data = new Map<string, Uint8Array>();
  for (const attachment of attachments) {
    if (attachment.length > INLINE_BYTES_MAX) {
      const reason = `Attachment "${attachment.name}" is too large for JSON; accept multipart/related`;
      throw new ProtocolError(413, "too_large", reason);
    }
    // As in CouchDB, inline data are always decoded.
    data.set(
      attachment.name,
      await store.readWhole(database, attachment, { decoded: true }, signal),
    );
  }
  return data;
}

function renderOptions(
  data: InlineData,
  { extras }: DocumentView,
  options: ViewOptions,
): RenderOptions {
  return {
    revisions: options.revisions,
    extras,
    encodingInfo: options.encodingInfo,
    attachmentForm: ({ name }) => {
      const bytes = data.get(name);
      return bytes === undefined ? { kind: "stub" } : { kind: "inline", data: bytes };
    },
  };
}

/**
 * The JSON of a document in pieces, for multipart responses. The response continues with the
 * attachments, in the order in which the JSON lists them.
 */
export function multipartPieces(
  { document, extras }: DocumentView,
  sent: readonly Attachment[],
  options: ViewOptions,
): LongText {
  const names = new Set(sent.map(({ name }) => name));
  const json = storedDocumentJson(document, {
    revisions: options.revisions,
    extras,
    encodingInfo: true,
    attachmentForm: ({ name }) => ({ kind: names.has(name) ? "follows" : "stub" }),
  });
  return typeof json === "string" ? [utf8Encode(json)] : json;
}
