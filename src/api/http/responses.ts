/** Answers: JSON as values, as text, and as a stream of pieces. */
import type { Utf8Writer } from "../../base/index.ts";
import type { ApiResponse } from "./exchange.ts";

export type Headers = Readonly<Record<string, string>>;

/** Small enough to hold many at once, large enough that a socket is not fed row by row. */
export const PIECE_LENGTH = 32_768;

const JSON_TYPE = "application/json";

/** A value as JSON, with the newline that CouchDB puts behind it. */
export function json(status: number, value: unknown, headers: Headers = {}): ApiResponse {
  return jsonText(status, JSON.stringify(value), headers);
}

/** A JSON text as it is. */
export function jsonText(status: number, text: string, headers: Headers = {}): ApiResponse {
  return { status, headers: { "Content-Type": JSON_TYPE, ...headers }, body: `${text}\n` };
}

/** The same, of a long one. */
export function jsonBytes(status: number, text: Utf8Writer, headers: Headers = {}): ApiResponse {
  text.text("\n");
  return { status, headers: { "Content-Type": JSON_TYPE, ...headers }, body: text.finish() };
}

/**
 * A JSON answer that is made while it is sent. Its first piece is awaited here, so that what fails until then is an error
 * response and not a broken stream.
 */
export async function streamedJson(
  status: number,
  pieces: AsyncIterable<string> | AsyncIterable<Uint8Array>,
  headers: Headers = {},
): Promise<ApiResponse> {
  return {
    status,
    headers: { "Content-Type": JSON_TYPE, ...headers },
    body: await begun<string | Uint8Array>(pieces),
  };
}

/** The same pieces, the first of which is already there. */
export async function begun<Piece>(pieces: AsyncIterable<Piece>): Promise<AsyncIterable<Piece>> {
  const iterator = pieces[Symbol.asyncIterator]();
  let first: IteratorResult<Piece> | undefined = await iterator.next();
  const rest: AsyncIterator<Piece> = {
    next: () => {
      if (first === undefined) return iterator.next();
      const piece = first;
      first = undefined;
      return Promise.resolve(piece);
    },
    // Also when no piece was ever read: the stream's resources are freed.
    return: async () => {
      first = undefined;
      await iterator.return?.();
      return { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => rest };
}

/** A JSON text on one line, for answers that are read by lines. A line break is between values, never within one. */
export function oneLine(text: string): string {
  return /[\r\n]/.test(text) ? text.replace(/[\r\n]+/g, " ") : text;
}

/** Joins small texts to pieces worth sending. */
export async function* inPieces(
  texts: AsyncIterable<string> | Iterable<string>,
): AsyncGenerator<string, void, undefined> {
  let piece = "";
  for await (const text of texts) {
    piece += text;
    if (piece.length < PIECE_LENGTH) continue;
    yield piece;
    piece = "";
  }
  if (piece !== "") yield piece;
}

export function notModified(headers: Headers): ApiResponse {
  return { status: 304, headers, body: undefined };
}

/** Whether `If-None-Match` names the entity tag of an answer that has one. */
export function matchesEntityTag(header: string | undefined, tag: string | undefined): boolean {
  if (header === undefined || tag === undefined) return false;
  const strong = (text: string): string => text.trim().replace(/^W\//, "");
  return header.split(",").some((entry) => strong(entry) === tag || entry.trim() === "*");
}
