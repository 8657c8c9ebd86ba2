/**
 * What one version wrote, as the commit log keeps it: other processes judge their transactions by it, and watches fire from
 * it. Time and mark first, then keys and ranges until the end.
 */
import type { TextInterval } from "../kv/index.ts";
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

export function encodeLogRecord({ committedAtMs, mark, writes }: LogRecord): Buffer {
  const writer = new ByteWriter();
  writer.float64(committedAtMs);
  writer.float64(mark);
  for (const { begin, end } of writes) {
    writer.uint8(end === undefined ? KEY : RANGE);
    writer.text(begin);
    if (end !== undefined) writer.text(end);
  }
  return writer.finish();
}

/** `isAsked` tells by its length whether a key is of interest; ranges always are. */
export function decodeLogRecord(
  bytes: Uint8Array,
  isAsked: (keyLength: number) => boolean = () => true,
): LogRecord {
  const reader = new ByteReader(asBuffer(bytes));
  const committedAtMs = reader.float64();
  const mark = reader.float64();
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
  return { committedAtMs, mark, writes };
}
