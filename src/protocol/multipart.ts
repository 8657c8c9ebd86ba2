/**
 * multipart/related and multipart/mixed. Reading is a port, because a library does it (`host/http/multipart-parser.ts`); writing is
 * concatenation.
 */
import { type LongText, utf8Encode } from "../base/index.ts";

/** One part. Its body must be read, or `skip`ped, before the next part comes. */
export interface MultipartPart {
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: AsyncIterable<Uint8Array>;
}

/** Cuts a stream at `boundary`. Rejects with a ProtocolError when the closing delimiter does not come. */
export type MultipartParser = (
  chunks: AsyncIterable<Uint8Array>,
  boundary: string,
) => AsyncIterable<MultipartPart>;

/** A part to write; `length` in bytes lets the whole have a Content-Length. */
export interface WrittenPart {
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly length: number;
  body(): AsyncIterable<Uint8Array>;
}

/** A part whose bytes are at hand. */
export function piecesPart(headers: WrittenPart["headers"], pieces: LongText): WrittenPart {
  return {
    headers,
    length: pieces.reduce((sum, { length }) => sum + length, 0),
    async *body() {
      yield* pieces;
    },
  };
}

/** The length in bytes of what `writeMultipart` yields. */
export function multipartLength(parts: readonly WrittenPart[], boundary: string): number {
  let length = closing(boundary).length;
  for (const [index, part] of parts.entries()) {
    length += opening(part, boundary, index).length + part.length;
  }
  return length;
}

/** The bytes of a multipart body, whose parts may be made on the way. */
export async function* writeMultipart(
  parts: Iterable<WrittenPart> | AsyncIterable<WrittenPart>,
  boundary: string,
): AsyncIterable<Uint8Array> {
  let index = 0;
  for await (const part of parts) {
    yield opening(part, boundary, index++);
    yield* part.body();
  }
  yield closing(boundary);
}

function opening(part: WrittenPart, boundary: string, index: number): Uint8Array {
  const headers = part.headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return utf8Encode(`${index === 0 ? "" : "\r\n"}--${boundary}\r\n${headers}\r\n`);
}

function closing(boundary: string): Uint8Array {
  return utf8Encode(`\r\n--${boundary}--`);
}
