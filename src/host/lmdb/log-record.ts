/**
 * The writes of one version in the commit log. Other processes use them to check for conflicts and
 * to trigger watches. The time and the committer's random number are first, then keys and ranges.
 */
import type { TextInterval, Writes } from "../../kv/index.ts";
import { ByteReader, ByteWriter } from "./byte-writer.ts";
import { asBuffer } from "./encoding.ts";

export interface LogRecord {
  /** Wall-clock time, shared by all processes of a machine. */
  readonly committedAtMs: number;
  /** Random number by which a committer recognizes its own record. */
  readonly mark: number;
  readonly writes: Writes;
}

const KEY = 0;
const RANGE = 1;

/** Initial buffer size: enough for the first two numbers and one or two ranges. */
const BEGINNING_BYTES = 512;

/** Collects the writes of a group's transactions. */
export class LogRecordWriter {
  readonly #writer = new ByteWriter();
  /** The record without those keys that are also in the group's rows. */
  readonly #beginning = new ByteWriter(new ArrayBuffer(BEGINNING_BYTES));
  /** Start of the current transaction's writes. */
  #start = 0;
  /** Number of the current transaction's writes. */
  #count = 0;

  constructor({ committedAtMs, mark }: Omit<LogRecord, "writes">) {
    for (const writer of [this.#writer, this.#beginning]) {
      writer.float64(committedAtMs);
      writer.float64(mark);
    }
    this.#start = this.#writer.length;
  }

  /** Adds a key whose row the group writes or removes. */
  key(key: Uint8Array): void {
    writeKey(this.#writer, key);
    this.#count++;
  }

  range(begin: Uint8Array, end: Uint8Array): void {
    for (const writer of [this.#writer, this.#beginning]) writeRange(writer, begin, end);
    this.#count++;
  }

  /** Adds a write conflict that a transaction declared in addition to its rows. */
  interval({ begin, end }: TextInterval): void {
    if (end !== undefined) {
      this.range(latin1(begin), latin1(end));
      return;
    }
    writeKey(this.#beginning, latin1(begin));
    this.key(latin1(begin));
  }

  /** Returns the writes since the last call. */
  endTransaction(): Writes {
    const writes = packedWrites(this.#writer.finish().subarray(this.#start), this.#count);
    this.#start = this.#writer.length;
    this.#count = 0;
    return writes;
  }

  finish(): Buffer {
    return this.#writer.finish();
  }

  /**
   * Returns the record without the keys of the group's rows. `completeLogRecord` adds these keys.
   */
  finishBeginning(): Buffer {
    return this.#beginning.finish();
  }
}

/** Completes a record from `finishBeginning` with these keys. */
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

/** Returns the writes of a record: all ranges, and the keys whose length `isAsked` accepts. */
export function loggedWrites(
  bytes: Uint8Array,
  isAsked: (keyLength: number) => boolean,
): TextInterval[] {
  const reader = new ByteReader(asBuffer(bytes));
  // Skips the time and the random number.
  reader.float64();
  reader.float64();
  return readIntervals(reader, isAsked);
}

/** Copies the record; keys become objects only when read. */
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
