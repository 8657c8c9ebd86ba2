/**
 * A document as the body of a PUT: JSON, or multipart/related with its attachments streamed after
 * it.
 */
import { assert, type Random, randomHex, utf8Encode } from "../../../base/index.ts";
import type { RequestBody } from "../../../http-client/index.ts";
import {
  multipartLength,
  piecesPart,
  type WrittenPart,
  writeMultipart,
} from "../../../protocol/index.ts";
import { type AttachmentStream, InvalidDocumentError, type StreamedDocument } from "../endpoint.ts";

export interface DocumentUpload {
  readonly contentType: string;
  readonly body: RequestBody;
}

/**
 * Creates the upload of a document. The attachments can be read only once, so an upload cannot be
 * repeated without reading the document again. The stream throws an InvalidDocumentError if the
 * attachments arrive in a different order than listed in the document, because servers identify
 * attachments by their order.
 */
export function documentUpload(document: StreamedDocument, random: Random): DocumentUpload {
  if (document.outline.length === 0)
    return { contentType: "application/json", body: document.text };
  const boundary = randomHex(random);
  const stream = document.attachments[Symbol.asyncIterator]();
  const json = piecesPart([["Content-Type", "application/json"]], [utf8Encode(document.text)]);
  const parts = [json, ...document.outline.map((item) => attachmentPart(item, stream))];
  return {
    contentType: `multipart/related; boundary="${boundary}"`,
    body: {
      length: multipartLength(parts, boundary),
      stream: () => writeMultipart(parts, boundary),
    },
  };
}

function attachmentPart(
  { name, length, contentType, encoding }: Omit<AttachmentStream, "body">,
  stream: AsyncIterator<AttachmentStream>,
): WrittenPart {
  const headers: [string, string][] = [
    ["Content-Disposition", `attachment; filename="${quotable(name)}"`],
    ["Content-Type", headerText(contentType)],
    ["Content-Length", String(length)],
  ];
  if (encoding !== undefined) headers.push(["Content-Encoding", headerText(encoding)]);
  return {
    headers,
    length,
    async *body() {
      const next = await stream.next();
      assert(next.done !== true, "The stream must contain every attachment listed in the outline");
      if (next.value.name !== name) {
        const reason =
          "The source sent the attachments in a different order than listed in `_attachments`";
        throw new InvalidDocumentError("bad_request", reason);
      }
      yield* next.value.body;
    },
  };
}

/** Escapes a name as the content of a quoted string in a header. */
function quotable(name: string): string {
  return headerText(name).replace(/["\\]/g, "\\$&");
}

/** Makes text from the source safe as a header value, by replacing line breaks and NUL. */
function headerText(text: string): string {
  return text.replace(/[\r\n\0]/g, " ");
}
