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

/** Takes down what the transactions of a group write, one after the other. */
export class LogRecordWriter {
  readonly #writer = new ByteWriter();
  /** Where the writes of the transaction at hand begin. */
  #start = 0;
  /** How many there are. */
  #count = 0;

  constructor({ committedAtMs, mark }: Omit<LogRecord, "writes">) {
    this.#writer.float64(committedAtMs);
    this.#writer.float64(mark);
    this.#start = this.#writer.length;
  }

  key(key: Uint8Array): void {
    this.#writer.uint8(KEY);
    this.#writer.bytes(key);
    this.#count++;
  }

  range(begin: Uint8Array, end: Uint8Array): void {
    this.#writer.uint8(RANGE);
    this.#writer.bytes(begin);
    this.#writer.bytes(end);
    this.#count++;
  }

  interval({ begin, end }: TextInterval): void {
    if (end === undefined) this.key(latin1(begin));
    else this.range(latin1(begin), latin1(end));
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
