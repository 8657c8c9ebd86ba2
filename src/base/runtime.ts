/**
 * The environment of a component: time, randomness, digests, and the event stream. `server/` or a
 * simulator creates it once and passes it down; the core has no other access to the machine.
 */
import { concatBytes } from "./bytes.ts";
import type { EventName, Events } from "./events.ts";
import { hexEncode } from "./hex.ts";
import type { Spans } from "./spans.ts";

export interface Clock {
  /** Wall-clock time in milliseconds since the epoch, for display and for CouchDB's fields. */
  nowMs(): number;
  /** Milliseconds since an arbitrary instant, never decreasing; for durations. */
  monotonicMs(): number;
  /**
   * Resolves after `durationMs`; rejects with `signal.reason` if aborted first. With 0, resolves in
   * a later turn of the event loop: other tasks, requests and timers run first.
   */
  sleep(durationMs: number, signal?: AbortSignal): Promise<void>;
}

/** Returns the wall-clock time in whole seconds since the epoch, the unit of due times. */
export function currentSec(clock: Pick<Clock, "nowMs">): number {
  return Math.floor(clock.nowMs() / 1000);
}

export interface Random {
  /** Returns an integer in [0, limit). */
  integer(limit: number): number;
  /** Returns a number in [0, 1). */
  ratio(): number;
  /** Returns `byteCount` random bytes that cannot be predicted. */
  bytes(byteCount: number): Uint8Array;
  /** Returns an independent stream of random numbers, unaffected by the use of other streams. */
  fork(label: string): Random;
}

/** An incremental message digest. No updates are allowed after `digest`. */
export interface DigestStream {
  update(bytes: Uint8Array): void;
  digest(): Uint8Array;
}

export interface Digests {
  md5(bytes: Uint8Array): Uint8Array;
  /** Returns the digest in lower-case hexadecimal digits. */
  md5Hex(bytes: Uint8Array): string;
  createMd5(): DigestStream;
  /** Returns the digest in lower-case hexadecimal digits. */
  sha1Hex(bytes: Uint8Array): string;
}

/** Returns the MD5 of the concatenated pieces, like `md5Hex`. Large inputs are not copied. */
export function md5HexOf(digests: Digests, pieces: readonly Uint8Array[]): string {
  let byteCount = 0;
  for (const { length } of pieces) byteCount += length;
  // Starting an incremental digest costs more than copying a short input.
  if (byteCount <= COPIED_BYTES_MAX) return digests.md5Hex(concatBytes(pieces));
  const md5 = digests.createMd5();
  for (const piece of pieces) md5.update(piece);
  return hexEncode(md5.digest());
}

const COPIED_BYTES_MAX = 16_384;

export interface GzipOptions {
  /** Compression level from 1 (fast) to 9 (small). */
  readonly level: number;
  /** Whether each chunk is flushed, so that it can be decompressed when it arrives. Default: no. */
  readonly flushesEach?: boolean;
}

/** Compression streams: attachments are stored compressed, and can be requested uncompressed. */
export interface Compression {
  /** Compresses a complete value, faster than as a stream. */
  gzipWhole(bytes: Uint8Array, options: Pick<GzipOptions, "level">): Promise<Uint8Array>;
  gzip(chunks: AsyncIterable<Uint8Array>, options: GzipOptions): AsyncIterable<Uint8Array>;
  gunzip(chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
  /** Decodes HTTP's `deflate`: the zlib format, or (as some servers send it) raw deflate. */
  inflate(chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
  unbrotli(chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array>;
}

/** Receives the events that the program reports (`events.ts`). */
export interface Trace {
  event<Name extends EventName>(name: Name, fields: Events[Name]): void;
}

export interface Runtime {
  readonly clock: Clock;
  readonly random: Random;
  readonly digests: Digests;
  readonly compression: Compression;
  readonly trace: Trace;
  /** Tracing; absent if spans are not collected. */
  readonly spans?: Spans;
}

/**
 * Returns 32 random hexadecimal digits, the form of CouchDB's UUIDs. Used for UUIDs, locks and
 * session ids.
 */
export function randomHex(random: Random): string {
  return hexEncode(random.bytes(16));
}
