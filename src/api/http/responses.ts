/** Responses: JSON as values, as text, and as a stream of pieces. */
import { concatBytes, type JsonText, type LongText, type Utf8Writer } from "../../base/index.ts";
import type { ApiResponse } from "./exchange.ts";

export type Headers = Readonly<Record<string, string>>;

/**
 * Target length of a piece: small enough to hold many at a time, large enough that a socket is not
 * written row by row.
 */
export const PIECE_LENGTH = 32_768;

const JSON_TYPE = "application/json";

/** A value as JSON, with CouchDB's trailing newline. */
export function json(status: number, value: unknown, headers: Headers = {}): ApiResponse {
  return jsonText(status, JSON.stringify(value), headers);
}

/** A response with JSON text, which is sent unchanged. */
export function jsonText(status: number, text: string, headers: Headers = {}): ApiResponse {
  return { status, headers: { "Content-Type": JSON_TYPE, ...headers }, body: `${text}\n` };
}

/** Like `jsonText`, but for long text. */
export function jsonBytes(status: number, text: Utf8Writer, headers: Headers = {}): ApiResponse {
  text.text("\n");
  return { status, headers: { "Content-Type": JSON_TYPE, ...headers }, body: text.finish() };
}

/**
 * A response 200 with JSON text, which is sent unchanged; long text consists of pieces, which are
 * sent one by one.
 */
export function jsonAsIs(json: JsonText | LongText, headers: Headers = {}): ApiResponse {
  if (typeof json === "string") return jsonText(200, json, headers);
  const pieces = [...json, NEW_LINE];
  let byteCount = 0;
  for (const { length } of pieces) byteCount += length;
  const described = { "Content-Type": JSON_TYPE, ...headers };
  if (byteCount <= PIECE_LENGTH) {
    return { status: 200, headers: described, body: concatBytes(pieces) };
  }
  return {
    status: 200,
    headers: { ...described, "Content-Length": String(byteCount) },
    body: (async function* () {
      yield* pieces;
    })(),
  };
}

const NEW_LINE = Uint8Array.of(0x0a);

/**
 * A response 200 with JSON produced while it is sent. The first piece is awaited, so that an error
 * before the first piece becomes an error response rather than a broken stream.
 */
export async function streamedJson(
  pieces: AsyncIterable<Piece>,
  headers: Headers = {},
): Promise<ApiResponse> {
  return {
    status: 200,
    headers: { "Content-Type": JSON_TYPE, ...headers },
    body: await begun(pieces),
  };
}

/** Awaits the first piece. Returns an iterable of all pieces. */
export async function begun<T>(pieces: AsyncIterable<T>): Promise<AsyncIterable<T>> {
  const iterator = pieces[Symbol.asyncIterator]();
  let first: IteratorResult<T> | undefined = await iterator.next();
  const rest: AsyncIterator<T> = {
    next: () => {
      if (first === undefined) return iterator.next();
      const piece = first;
      first = undefined;
      return Promise.resolve(piece);
    },
    // Runs even if no piece was read, so that the stream's resources are freed.
    return: async () => {
      first = undefined;
      await iterator.return?.();
      return { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => rest };
}

/** A piece of a response: a string or UTF-8 bytes. */
export type Piece = string | Uint8Array;

/**
 * Yields a document on one line between `before` and `behind`, for responses that are read line by
 * line. Line breaks in the document are replaced; they only occur between values.
 */
export function* oneLineWithin(
  before: string,
  document: JsonText | LongText,
  behind: string,
): Generator<Piece, void> {
  if (typeof document === "string") {
    yield before + oneLine(document) + behind;
    return;
  }
  yield before;
  for (const piece of document) yield onOneLine(piece);
  yield behind;
}

function oneLine(text: string): string {
  return /[\r\n]/.test(text) ? text.replace(/[\r\n]+/g, " ") : text;
}

function onOneLine(bytes: Uint8Array): Uint8Array {
  if (!bytes.includes(LINE_FEED) && !bytes.includes(CARRIAGE_RETURN)) return bytes;
  return bytes.map((byte) => (byte === LINE_FEED || byte === CARRIAGE_RETURN ? SPACE : byte));
}

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;

/** Joins short strings into pieces that are large enough to send. Bytes are passed on unchanged. */
export async function* inPieces(
  texts: AsyncIterable<Piece> | Iterable<Piece>,
): AsyncGenerator<Piece, void, undefined> {
  const joined = new JoinedTexts();
  for await (const text of texts) {
    const pieces = joined.add(text);
    if (pieces.length > 0) yield* pieces;
  }
  yield* joined.finish();
}

/** Collects short strings until they are long enough to send. */
export class JoinedTexts {
  #text = "";

  /** Adds a piece, and returns the pieces to send now. */
  add(piece: Piece): readonly Piece[] {
    if (typeof piece !== "string") return [...this.finish(), piece];
    this.#text += piece;
    return this.#text.length < PIECE_LENGTH ? NOTHING : this.finish();
  }

  finish(): readonly Piece[] {
    const text = this.#text;
    this.#text = "";
    return text === "" ? NOTHING : [text];
  }
}

const NOTHING: readonly Piece[] = [];

export function notModified(headers: Headers): ApiResponse {
  return { status: 304, headers, body: undefined };
}

/** Whether `If-None-Match` contains the entity tag of the response. */
export function matchesEntityTag(header: string | undefined, tag: string | undefined): boolean {
  if (header === undefined || tag === undefined) return false;
  const strong = (text: string): string => text.trim().replace(/^W\//, "");
  return header.split(",").some((entry) => strong(entry) === tag || entry.trim() === "*");
}
