/**
 * Subset of Erlang's external term format that CouchDB hashes for a replication id
 * (`term_to_binary` with minor version 1). A job moved here from CouchDB keeps its id and therefore
 * finds its checkpoints.
 */
import { integerValue, numberValue, Utf8Writer, utf8Encode } from "../base/index.ts";

/**
 * An Erlang term, with its type stated explicitly because JavaScript values do not determine it.
 */
export type Term =
  | { readonly atom: string }
  | { readonly binary: string }
  | { readonly charlist: string }
  | { readonly tuple: readonly Term[] }
  | { readonly list: readonly Term[] }
  | { readonly binaries: readonly string[] }
  | { readonly number: number | bigint }
  | { readonly float: number }
  | EncodedTerm;

/** An encoded term without the version byte, for embedding in other terms. */
interface EncodedTerm {
  readonly encoded: Uint8Array;
}

export const atom = (name: string): Term => ({ atom: name });
export const binary = (text: string): Term => ({ binary: text });
export const charlist = (text: string): Term => ({ charlist: text });
export const tuple = (...items: Term[]): Term => ({ tuple: items });
/** A list of binaries, in a compact form for long lists. */
export const binaries = (texts: readonly string[]): Term => ({ binaries: texts });
export const list = (items: readonly Term[]): Term => ({ list: items });

const VERSION = 131;
const STRING = 107;
/** Maximum length of a list of bytes that is encoded as a string. */
const STRING_BYTES_MAX = 0xffff;
const LIST = 108;
const BINARY = 109;
const NIL = 106;

/** Initial buffer size, enough for the term of a typical replication. */
const ENCODED_BYTES_EXPECTED = 512;

/**
 * Converts a JSON value to the term that represents it in CouchDB. An object is a 1-tuple of a list
 * of pairs, in member order.
 */
export function jsonTerm(value: unknown): Term {
  if (value === null) return atom("null");
  if (typeof value === "boolean") return atom(String(value));
  if (typeof value === "string") return binary(value);
  const integer = integerValue(value);
  if (integer !== undefined) return { number: integer };
  const float = numberValue(value);
  if (float !== undefined) return { float: Number(float) };
  if (Array.isArray(value)) return list(value.map(jsonTerm));
  const pairs = Object.entries(value as Record<string, unknown>);
  return tuple(list(pairs.map(([name, item]) => tuple(binary(name), jsonTerm(item)))));
}

/** Encodes a term for reuse. */
export function encodeOnce(term: Term): EncodedTerm {
  if ("encoded" in term) return term;
  const writer = new Utf8Writer(ENCODED_BYTES_EXPECTED);
  append(writer, term);
  return { encoded: writer.finish() };
}

/**
 * Returns the bytes of `encodeTerm(list(items))` in pieces, so that items that are already encoded
 * are not copied.
 */
export function encodeListPieces(items: readonly Term[]): readonly Uint8Array[] {
  if (items.every((item) => byteOf(item) !== undefined)) return [encodeTerm(list(items))];
  const head = Uint8Array.of(VERSION, LIST, ...bigEndian32(items.length));
  return [head, ...items.map((item) => encodeOnce(item).encoded), Uint8Array.of(NIL)];
}

/** Returns the term's bytes, preceded by the version byte. */
export function encodeTerm(term: Term): Uint8Array {
  const writer = new Utf8Writer(ENCODED_BYTES_EXPECTED);
  writer.bytes(Uint8Array.of(VERSION));
  append(writer, term);
  return writer.finish();
}

function append(writer: Utf8Writer, term: Term): void {
  if ("atom" in term) writer.bytes(tagged(100, 2, utf8Encode(term.atom)));
  else if ("binary" in term) appendBinary(writer, term.binary);
  else if ("charlist" in term) appendCharlist(writer, term.charlist);
  else if ("encoded" in term) writer.bytes(term.encoded);
  else if ("number" in term) writer.bytes(encodeInteger(BigInt(term.number)));
  else if ("float" in term) writer.bytes(encodeFloat(term.float));
  else if ("tuple" in term) {
    writer.bytes(Uint8Array.of(104, term.tuple.length));
    for (const item of term.tuple) append(writer, item);
  } else if ("binaries" in term) appendBinaries(writer, term.binaries);
  else appendList(writer, term.list);
}

/** Matches ASCII text of up to 127 characters, whose encoding including the length is ASCII. */
const SHORT_TEXT = /^[\0-\x7f]{0,127}$/;

function appendBinary(writer: Utf8Writer, text: string): void {
  // Written as text, because the writer encodes consecutive strings together. A replication can
  // have 100,000 ids.
  if (SHORT_TEXT.test(text)) writer.text(`m\0\0\0${String.fromCharCode(text.length)}${text}`);
  else writer.bytes(tagged(BINARY, 4, utf8Encode(text)));
}

function appendBinaries(writer: Utf8Writer, texts: readonly string[]): void {
  if (texts.length > 0) writer.bytes(Uint8Array.of(LIST, ...bigEndian32(texts.length)));
  writer.bytes(encodeBinaries(texts));
  writer.bytes(Uint8Array.of(NIL));
}

const HEAD_BYTES = 5;

/**
 * Concatenates the encodings of the strings. ASCII ids are encoded without any allocation, not even
 * of an iterator, because a replication can have many thousands of ids.
 */
function encodeBinaries(texts: readonly string[]): Uint8Array {
  let byteCount = HEAD_BYTES * texts.length;
  for (let index = 0; index < texts.length; index++)
    byteCount += utf8Length(texts[index] as string);
  const bytes = new Uint8Array(byteCount);
  const view = new DataView(bytes.buffer);
  let end = 0;
  for (let index = 0; index < texts.length; index++) {
    const text = texts[index] as string;
    const length = utf8Length(text);
    bytes[end] = BINARY;
    view.setUint32(end + 1, length);
    end += HEAD_BYTES;
    if (length > text.length) bytes.set(utf8Encode(text), end);
    else for (let at = 0; at < length; at++) bytes[end + at] = text.charCodeAt(at);
    end += length;
  }
  return bytes;
}

function utf8Length(text: string): number {
  for (let at = 0; at < text.length; at++) {
    if (text.charCodeAt(at) >= 0x80) return utf8Encode(text).length;
  }
  return text.length;
}

function appendList(writer: Utf8Writer, items: readonly Term[]): void {
  if (items.length > 0) {
    if (items.length <= STRING_BYTES_MAX && items.every((item) => byteOf(item) !== undefined)) {
      const bytes = items.map((item) => byteOf(item) as number);
      writer.bytes(tagged(STRING, 2, Uint8Array.from(bytes)));
      return;
    }
    writer.bytes(Uint8Array.of(LIST, ...bigEndian32(items.length)));
    for (const item of items) append(writer, item);
  }
  writer.bytes(Uint8Array.of(NIL));
}

/**
 * Returns the byte that the term stands for, if any. Erlang encodes a list of bytes as a string.
 */
function byteOf(term: Term): number | undefined {
  if (!("number" in term)) return undefined;
  const number = Number(term.number);
  return number >= 0 && number <= 255 ? number : undefined;
}

/**
 * Appends a charlist as a list of UTF-8 bytes. A non-ASCII character becomes several elements of
 * the list.
 */
function appendCharlist(writer: Utf8Writer, text: string): void {
  const bytes = utf8Encode(text);
  if (bytes.length > 0 && bytes.length <= STRING_BYTES_MAX) writer.bytes(tagged(STRING, 2, bytes));
  else
    appendList(
      writer,
      Array.from(bytes, (byte) => ({ number: byte })),
    );
}

function encodeFloat(number: number): Uint8Array {
  const bytes = new Uint8Array(9);
  bytes[0] = 70;
  new DataView(bytes.buffer).setFloat64(1, number);
  return bytes;
}

const SMALL_BIG_BYTES_MAX = 255;

function encodeInteger(integer: bigint): Uint8Array {
  if (integer >= 0n && integer <= 255n) return Uint8Array.of(97, Number(integer));
  if (integer >= -(2n ** 31n) && integer < 2n ** 31n) {
    return Uint8Array.of(98, ...bigEndian32(Number(BigInt.asUintN(32, integer))));
  }
  const isNegative = integer < 0n;
  const digits: number[] = [];
  for (let rest = isNegative ? -integer : integer; rest > 0n; rest >>= 8n) {
    digits.push(Number(rest & 255n));
  }
  const sign = Number(isNegative);
  return digits.length <= SMALL_BIG_BYTES_MAX
    ? Uint8Array.of(110, digits.length, sign, ...digits)
    : Uint8Array.of(111, ...bigEndian32(digits.length), sign, ...digits);
}

function tagged(tag: number, lengthBytes: number, bytes: Uint8Array): Uint8Array {
  const term = new Uint8Array(1 + lengthBytes + bytes.length);
  term[0] = tag;
  for (let at = 1; at <= lengthBytes; at++) term[at] = bytes.length >>> (8 * (lengthBytes - at));
  term.set(bytes, 1 + lengthBytes);
  return term;
}

function bigEndian32(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}
