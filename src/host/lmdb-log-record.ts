/**
 * What one version wrote, as the commit log keeps it: other processes judge their transactions by it, and watches fire from
 * it. Time and mark first, then keys and ranges until the end.
 */
import type { TextInterval, Writes } from "../kv/index.ts";
import { ByteReader, ByteWriter } from "./lmdb-byte-writer.ts";
import { asBuffer } from "./lmdb-encoding.ts";

export interface LogRecord {
  /** Wall time, which all processes of a machine share. */
  readonly committedAtMs: number;
  /** Drawn for each group, so that a committer knows its own record again. */
  readonly mark: number;
  readonly writes: readonly TextInterval[];
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

  /** What was taken down since the last call: a copy, in which no key is an object of its own until somebody reads it. */
  endTransaction(): Writes {
    const packed = Buffer.from(this.#writer.finish().subarray(this.#start));
    const count = this.#count;
    this.#start = this.#writer.length;
    this.#count = 0;
    return { count, read: () => readIntervals(new ByteReader(packed)) };
  }

  finish(): Buffer {
    return this.#writer.finish();
  }
}

function latin1(text: string): Buffer {
  return Buffer.from(text, "latin1");
}

/** `isAsked` tells by its length whether a key is of interest; ranges always are. */
export function decodeLogRecord(
  bytes: Uint8Array,
  isAsked: (keyLength: number) => boolean = () => true,
): LogRecord {
  const reader = new ByteReader(asBuffer(bytes));
  const committedAtMs = reader.float64();
  const mark = reader.float64();
  return { committedAtMs, mark, writes: readIntervals(reader, isAsked) };
}

function readIntervals(
  reader: ByteReader,
  isAsked: (keyLength: number) => boolean = () => true,
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
