/**
 * The changes of one version in the commit log: other processes judge their transactions by it, and watches fire from
 * it. Time and mark are first, then keys and ranges until the end.
 */
import type { TextInterval, Writes } from "../../kv/index.ts";
import { ByteReader, ByteWriter } from "./byte-writer.ts";
import { asBuffer } from "./encoding.ts";

export interface LogRecord {
  /** Wall time, which all processes of a machine share. */
  readonly committedAtMs: number;
  /** Drawn for each group, so that a committer knows its own record again. */
  readonly mark: number;
  readonly writes: Writes;
}

const KEY = 0;
const RANGE = 1;

/** Time and mark, and a range or two. */
const BEGINNING_BYTES = 512;

/** Takes down what the transactions of a group write, one after the other. */
export class LogRecordWriter {
  readonly #writer = new ByteWriter();
  /** The record without the keys that are in the rows of the group, too. */
  readonly #beginning = new ByteWriter(new ArrayBuffer(BEGINNING_BYTES));
  /** Where the writes of the transaction at hand begin. */
  #start = 0;
  /** How many there are. */
  #count = 0;

  constructor({ committedAtMs, mark }: Omit<LogRecord, "writes">) {
    for (const writer of [this.#writer, this.#beginning]) {
      writer.float64(committedAtMs);
      writer.float64(mark);
    }
    this.#start = this.#writer.length;
  }

  /** A key that has a row in the group, or loses it. */
  key(key: Uint8Array): void {
    writeKey(this.#writer, key);
    this.#count++;
  }

  range(begin: Uint8Array, end: Uint8Array): void {
    for (const writer of [this.#writer, this.#beginning]) writeRange(writer, begin, end);
    this.#count++;
  }

  /** What a transaction says that it writes, besides its rows. */
  interval({ begin, end }: TextInterval): void {
    if (end !== undefined) {
      this.range(latin1(begin), latin1(end));
      return;
    }
    writeKey(this.#beginning, latin1(begin));
    this.key(latin1(begin));
  }

  /** What was taken down since the last call. */
  endTransaction(): Writes {
    const writes = packedWrites(this.#writer.finish().subarray(this.#start), this.#count);
    this.#start = this.#writer.length;
    this.#count = 0;
    return writes;
  }

  finish(): Buffer {
    return this.#writer.finish();
  }

  /** The record without the keys of `key`, for who knows them (`completeLogRecord`). */
  finishBeginning(): Buffer {
    return this.#beginning.finish();
  }
}

/** The record that begins so, with these keys. */
export function completeLogRecord(beginning: Uint8Array, keys: readonly Uint8Array[]): Buffer {
  const writer = new ByteWriter();
  for (const key of keys) writeKey(writer, key);
  return Buffer.concat([beginning, writer.finish()]);
}

function writeKey(writer: ByteWriter, key: Uint8Array): void {
  writer.uint8(KEY);
  writer.bytes(key);
}

function writeRange(writer: ByteWriter, begin: Uint8Array, end: Uint8Array): void {
  writer.uint8(RANGE);
  writer.bytes(begin);
  writer.bytes(end);
}

function latin1(text: string): Buffer {
  return Buffer.from(text, "latin1");
}

export function decodeLogRecord(bytes: Uint8Array): LogRecord {
  const reader = new ByteReader(asBuffer(bytes));
  const committedAtMs = reader.float64();
  const mark = reader.float64();
  const { offset } = reader;
  let count = 0;
  for (; !reader.isAtEnd; count++) {
    const isRange = reader.uint8() === RANGE;
    reader.skip();
    if (isRange) reader.skip();
  }
  return { committedAtMs, mark, writes: packedWrites(bytes.subarray(offset), count) };
}

/** The writes of a record. `isAsked` tells by its length whether a key is of interest; ranges always are. */
export function loggedWrites(
  bytes: Uint8Array,
  isAsked: (keyLength: number) => boolean,
): TextInterval[] {
  const reader = new ByteReader(asBuffer(bytes));
  // Time and mark.
  reader.float64();
  reader.float64();
  return readIntervals(reader, isAsked);
}

/** A copy of the record in `bytes`, in which keys become objects only when they are read. */
function packedWrites(bytes: Uint8Array, count: number): Writes {
  const packed = new Uint8Array(bytes);
  return { count, read: () => readIntervals(new ByteReader(asBuffer(packed)), () => true) };
}

function readIntervals(
  reader: ByteReader,
  isAsked: (keyLength: number) => boolean,
): TextInterval[] {
  const writes: TextInterval[] = [];
  while (!reader.isAtEnd) {
    const isRange = reader.uint8() === RANGE;
    if (!isRange && !isAsked(reader.nextLength())) {
      reader.skip();
      continue;
    }
    const begin = reader.text();
    writes.push({ begin, end: isRange ? reader.text() : undefined });
  }
  return writes;
}
