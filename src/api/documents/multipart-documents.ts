/**
 * A document with its attachments as multipart/related: the JSON, then the attachments as stored,
 * in the order of the JSON. The bytes are passed on chunk by chunk.
 */
import { randomHex, utf8Encode } from "../../base/index.ts";
import type { Attachment, AttachmentEdit, Database, DocumentEdit } from "../../databases/index.ts";
import { CONTENT_TYPE_DEFAULT } from "../../documents/index.ts";
import {
  badRequest,
  type MultipartPart,
  multipartLength,
  percentEncode,
  piecesPart,
  type WireAttachment,
  type WrittenPart,
  writeMultipart,
} from "../../protocol/index.ts";
import { openDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readBytes, readLongDocument } from "../http/request-body.ts";
import type { Headers } from "../http/responses.ts";
import type { ViewOptions } from "./document-options.ts";
import { withRevision } from "./document-request.ts";
import { type DocumentView, multipartPieces } from "./document-view.ts";
import {
  checkWire,
  type EditMode,
  editOf,
  inlineAttachments,
  type NamedDocument,
  storeUploads,
  type Upload,
} from "./edits.ts";

interface MultipartDocument {
  readonly database: Database;
  readonly view: DocumentView;
  readonly sent: readonly Attachment[];
  readonly options: ViewOptions;
}

/** Response to a GET: the document and its requested attachments. */
export function documentMultipart(
  parts: DatabaseParts,
  call: Call,
  { headers, ...document }: MultipartDocument & { readonly headers: Headers },
): ApiResponse {
  const boundary = randomHex(parts.runtime.random);
  const written = documentParts(parts, document, call.request.signal);
  return {
    status: 200,
    headers: { ...headers, "Content-Type": `multipart/related; boundary="${boundary}"` },
    body: writeMultipart(written, boundary),
  };
}

/**
 * A document as one part of a larger body. If it has attachments, the part is itself multipart and
 * begins with `headers`, as in CouchDB.
 */
export function nestedPart(
  parts: DatabaseParts,
  document: MultipartDocument,
  signal: AbortSignal,
  headers: WrittenPart["headers"] = [],
): WrittenPart {
  const { view, sent, options } = document;
  if (sent.length === 0) {
    return piecesPart([["Content-Type", "application/json"]], multipartPieces(view, sent, options));
  }
  const boundary = randomHex(parts.runtime.random);
  const written = documentParts(parts, document, signal);
  return {
    headers: [...headers, ["Content-Type", `multipart/related; boundary="${boundary}"`]],
    length: multipartLength(written, boundary),
    body: () => writeMultipart(written, boundary),
  };
}

function documentParts(
  { attachments: store }: DatabaseParts,
  { database, view, sent, options }: MultipartDocument,
  signal: AbortSignal,
): WrittenPart[] {
  const text = multipartPieces(view, sent, options);
  return [
    piecesPart([["Content-Type", "application/json"]], text),
    ...sent.map((attachment) => ({
      headers: attachmentHeaders(attachment),
      length: attachment.encodedLength,
      body: () => store.read(database, attachment, { decoded: false }, signal),
    })),
  ];
}

function attachmentHeaders({
  name,
  contentType,
  encoding,
  encodedLength,
}: Attachment): WrittenPart["headers"] {
  return [
    ["Content-Disposition", `attachment; filename="${headerText(name).replace(/["\\]/g, "\\$&")}"`],
    ["Content-Type", headerText(contentType)],
    ["Content-Length", String(encodedLength)],
    ...(encoding === undefined ? [] : [["Content-Encoding", encoding] as const]),
  ];
}

/** Part sent in place of a document that cannot be sent. */
export function errorPart(error: object): WrittenPart {
  const headers = [["Content-Type", 'application/json; error="true"']] as const;
  return piecesPart(headers, [utf8Encode(JSON.stringify(error))]);
}

/** Percent-encodes control characters, such as the line breaks that would end a header. */
export function headerText(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: removes control characters.
  return text.replace(/[\u0000-\u001f\u007f]/g, (char) => percentEncode(char));
}

/** The edit of a PUT, after storing the attachments that follow the JSON. */
export async function readMultipartEdit(
  parts: DatabaseParts,
  call: Call,
  {
    id,
    boundary,
    mode,
  }: { readonly id: string; readonly boundary: string | undefined; readonly mode: EditMode },
): Promise<DocumentEdit> {
  if (boundary === undefined || boundary === "") {
    throw badRequest("The Content-Type multipart/related has no boundary");
  }
  const iterator = parts.parseMultipart(call.request.body, boundary)[Symbol.asyncIterator]();
  try {
    const first = await iterator.next();
    if (first.done === true) throw badRequest("The multipart body has no parts");
    const memberNames = mode === "interactive" ? "unique" : "any";
    const bytes = await readBytes(call, first.value.body);
    const wire = withRevision(call, id, await readLongDocument(call, bytes, memberNames));
    checkWire(parts, wire);
    const database = await openDatabase(parts, call);
    const isFollowing = ({ content }: WireAttachment) => content.kind === "follows";
    const others = wire.attachments.filter((attachment) => !isFollowing(attachment));
    const atHand = (await inlineAttachments(parts, call, others, mode)).values();
    const uploads = followingUploads(iterator, wire.attachments.filter(isFollowing), mode);
    const following = (await storeUploads(parts, call, database, uploads)).values();
    const attachments = wire.attachments.map((attachment) => {
      const stored = isFollowing(attachment) ? following : atHand;
      return stored.next().value as AttachmentEdit;
    });
    await readToTheEnd(iterator);
    return editOf(wire, attachments, mode);
  } finally {
    await iterator.return?.();
  }
}

/**
 * Yields the uploads for the given attachments from the parts of a body, in order. Each must be
 * read before the next one is requested.
 */
async function* followingUploads(
  iterator: AsyncIterator<MultipartPart>,
  attachments: readonly WireAttachment[],
  mode: EditMode,
): AsyncGenerator<Upload, void, undefined> {
  for (const attachment of attachments) {
    const next = await iterator.next();
    if (next.done === true) {
      throw badRequest(`The part of attachment "${attachment.name}" is missing`);
    }
    const announced = followingAttachment(attachment, next.value);
    yield { attachment: announced, mode, chunks: next.value.body };
  }
}

/**
 * Returns the attachment contained in a part of a multipart body. The headers of the part provide
 * the members that the JSON lacks.
 */
function followingAttachment(
  attachment: NamedDocument["attachments"][number],
  { headers }: MultipartPart,
): NamedDocument["attachments"][number] {
  return {
    ...attachment,
    contentType: attachment.contentType ?? headers.get("content-type") ?? CONTENT_TYPE_DEFAULT,
    encoding: attachment.encoding ?? headers.get("content-encoding")?.toLowerCase(),
  };
}

/** Skips parts not announced in the JSON. A body that ends within one of them is still an error. */
async function readToTheEnd(iterator: AsyncIterator<MultipartPart>): Promise<void> {
  for (;;) {
    const next = await iterator.next();
    if (next.done === true) return;
    for await (const _ of next.value.body) {
      // The bytes of the part are discarded.
    }
  }
}
