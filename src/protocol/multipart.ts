/**
 * multipart/related and multipart/mixed: the interface of the parser, which
 * `host/http/multipart-parser.ts` implements with a library, and a writer.
 */
import { type LongText, utf8Encode } from "../base/index.ts";

/** A received part. Its body must be read before the next part is requested. */
export interface MultipartPart {
  /** Headers with names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Splits a stream at `boundary`. Rejects with a ProtocolError if the closing delimiter is missing.
 */
export type MultipartParser = (
  chunks: AsyncIterable<Uint8Array>,
  boundary: string,
) => AsyncIterable<MultipartPart>;

/** A part to write. A Content-Length can be computed because its `length` in bytes is known. */
export interface WrittenPart {
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly length: number;
  body(): AsyncIterable<Uint8Array>;
}

/** Returns a part whose bytes are in memory. */
export function piecesPart(headers: WrittenPart["headers"], pieces: LongText): WrittenPart {
  return {
    headers,
    length: pieces.reduce((sum, { length }) => sum + length, 0),
    async *body() {
      yield* pieces;
    },
  };
}

/** Returns the length in bytes of the output of `writeMultipart`. */
export function multipartLength(parts: readonly WrittenPart[], boundary: string): number {
  let length = closing(boundary).length;
  for (const [index, part] of parts.entries()) {
    length += opening(part, boundary, index).length + part.length;
  }
  return length;
}

/** Writes a multipart body. Parts can be produced lazily. */
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
