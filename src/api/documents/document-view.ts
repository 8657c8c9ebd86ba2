/** Renders a stored document with the options of a reader: reads the records that it needs, and writes its text. */
import {
  type JsonMember,
  type JsonText,
  type LongText,
  type Turns,
  type Utf8Writer,
  utf8Encode,
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

/** Of an attachment that is held whole, for JSON. */
const INLINE_BYTES_MAX = 128 * 1024 * 1024;

/** A document and what else was asked of it, all from one transaction. */
export interface DocumentView {
  readonly document: Document;
  readonly extras: readonly JsonMember[];
}

/** There at once unless something beside the document is asked for. */
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
    const statuses = await database.revisionStatuses(tx, id, revision);
    add(
      "_revs_info",
      statuses.map(({ revision: rev, status }) => ({ rev, status })),
    );
  }
  if (conflicts || deletedConflicts) {
    const others = (await database.leaves(tx, id)).filter((leaf) => leaf.revision !== revision);
    const revisionsOf = (deleted: boolean): string[] =>
      others.filter((leaf) => leaf.deleted === deleted).map((leaf) => leaf.revision);
    if (conflicts) add("_conflicts", revisionsOf(false));
    if (deletedConflicts) add("_deleted_conflicts", revisionsOf(true));
  }
  if (options.localSequence) {
    const sequence = await database.documentSequence(tx, id);
    extras.push({ name: "_local_seq", value: JSON.stringify(sequence) });
  }
  return { document, extras };
}

/** The attachments whose bytes go with the document. */
export function sentAttachments(document: Document, options: ViewOptions): readonly Attachment[] {
  if (!options.attachments) return [];
  const { attachmentsSince: ancestors } = options;
  if (ancestors === undefined) return document.attachments;
  const names = attachmentsSince(document, ancestors);
  return document.attachments.filter(({ name }) => names.has(name));
}

/**
 * The document's JSON text, or the pieces of a long one, with the bytes of attachments in base64 where they were asked for; there at once
 * without them.
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

/** The same in UTF-8, with the bytes of attachments that `inlineData` gave for it. */
export function writeView(
  writer: Utf8Writer,
  view: DocumentView,
  options: ViewOptions,
  data: InlineData,
): void {
  writeStoredDocument(writer, view.document, renderOptions(data, view, options));
}

/** The same as pieces, of which those of the body are its own memory. */
export function viewPieces(view: DocumentView, options: ViewOptions, data: InlineData): LongText {
  return storedDocumentPieces(view.document, renderOptions(data, view, options));
}

/** A document that may be answered, for a selector and for its reader. */
export interface ViewedDocument extends SandboxArgument {
  /** Its text, or the pieces of a long one. */
  json(): JsonText | LongText;
  /** For paths that mostly have so many segments. */
  fields(depth: number, turns: Turns): Promise<Fields>;
}

/** Without the bytes of its attachments, unless they are given. Its text is made once. */
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
    fields: (_, turns) => fieldsOfDocument(document, rendering, turns),
  };
}

/** One that is short, of so many bytes, or nearly. Its text is made once. */
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
    fields: (depth, turns) => fieldsOfText(text(), depth, turns),
  };
}

/** The bytes of attachments, by name. */
export type InlineData = ReadonlyMap<string, Uint8Array>;

/** Of the attachments that were asked for with a document; there at once when there are none. */
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
    // Inline data are decoded always, as in CouchDB.
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

/** The text, in pieces, whose attachments' bytes follow behind it, in its order. */
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
