/**
 * The machine as a component sees it: time, chance, digests, and where to announce events. `server/` or a simulator
 * makes it once and passes it down; the core never uses the machine directly.
 */
import { concatBytes } from "./bytes.ts";
import type { EventName, Events } from "./events.ts";
import { hexEncode } from "./hex.ts";
import type { Spans } from "./spans.ts";

export interface Clock {
  /** Wall time in milliseconds since the epoch: for people and for CouchDB's fields. */
  nowMs(): number;
  /** Milliseconds since some fixed instant, never going back: for durations. */
  monotonicMs(): number;
  /** Resolves after `durationMs`; rejects with `signal.reason` when aborted first. */
  sleep(durationMs: number, signal?: AbortSignal): Promise<void>;
}

export interface Random {
  /** An integer in [0, limit). */
  integer(limit: number): number;
  /** A number in [0, 1). */
  ratio(): number;
  /** `byteCount` unpredictable bytes. */
  bytes(byteCount: number): Uint8Array;
  /** An independent stream, so that one more draw elsewhere does not reshuffle this one. */
  fork(label: string): Random;
}

/** An incremental message digest. `digest` ends it. */
export interface DigestStream {
  update(bytes: Uint8Array): void;
  digest(): Uint8Array;
}

export interface Digests {
  md5(bytes: Uint8Array): Uint8Array;
  /** As lower-case hexadecimal digits. */
  md5Hex(bytes: Uint8Array): string;
  createMd5(): DigestStream;
  /** As lower-case hexadecimal digits. */
  sha1Hex(bytes: Uint8Array): string;
}

/** Of the bytes one behind the other, as `md5Hex`; many are not copied for it. */
export function md5HexOf(digests: Digests, pieces: readonly Uint8Array[]): string {
  let byteCount = 0;
  for (const { length } of pieces) byteCount += length;
  // A digest in pieces takes longer to begin.
  if (byteCount <= COPIED_BYTES_MAX) return digests.md5Hex(concatBytes(pieces));
  const md5 = digests.createMd5();
  for (const piece of pieces) md5.update(piece);
  return hexEncode(md5.digest());
}

const COPIED_BYTES_MAX = 16_384;

export interface GzipOptions {
  /** 1 (fast) to 9 (small). */
  readonly level: number;
  /** Whether each chunk can be unpacked when it comes, and not only with those behind it; false by default. */
  readonly flushesEach?: boolean;
}

/** gzip, both ways, as streams: attachments are stored compressed and may be asked for plain. */
export interface Compression {
  /** What is there as a whole, faster than as a stream. */
  gzipWhole(bytes: Uint8Array, options: Pick<GzipOptions, "level">): Promise<Uint8Array>;
  gzip(chunks: AsyncIterable<Uint8Array>, options: GzipOptions): AsyncIterable<Uint8Array>;
  gunzip(chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
  /** Decodes HTTP's `deflate`: zlib's format, or (as some servers send it) without its header. */
  inflate(chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
  unbrotli(chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
}

/** The one stream of announced events (`events.ts`). */
export interface Trace {
  event<Name extends EventName>(name: Name, fields: Events[Name]): void;
}

export interface Runtime {
  readonly clock: Clock;
  readonly random: Random;
  readonly digests: Digests;
  readonly compression: Compression;
  readonly trace: Trace;
  /** Absent: nobody collects them. */
  readonly spans?: Spans;
}

/** 32 random hexadecimal digits: the field's form of a uuid, a lock, a session id. */
export function randomHex(random: Random): string {
  return hexEncode(random.bytes(16));
}
