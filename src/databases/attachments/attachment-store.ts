/**
 * Stores the bytes of attachments. Attachments are written outside the document's transaction, in
 * many small transactions: first staged, then referenced by a document, and reclaimed when no leaf
 * references them.
 *
 *   staged       chunks and a marker with its time; once complete, a content record
 *   referenced   one key for each leaf and name that refers to it, written and cleared by
 *                `document-writer.ts`
 *   released     no reference, and a marker with the time of the removal of the last reference
 *
 * `reclaim` considers only markers of a certain age, and deletes content without a reference. A
 * transaction that adds a reference reads the content's record, and therefore conflicts with a
 * concurrent reclaim.
 */
import {
  assert,
  concatBytes,
  type DigestStream,
  EMPTY_BYTES,
  OperationalError,
  type Runtime,
  randomHex,
  type Yielder,
} from "../../base/index.ts";
import type { KeyValueStore, ReadTransaction, Transaction } from "../../kv/index.ts";
import type { Database } from "../database.ts";
import type { Attachment, StagedContent } from "../document.ts";
import { digestText } from "../records/body-record.ts";
import { type ContentRecord, encodeContentRecord } from "../records/content-record.ts";
import { contentElement, contentIdOf } from "../records/database-keys.ts";
import { clearContent, contentGone } from "./content.ts";
import { GzipMeter } from "./gzip-meter.ts";

/**
 * Size of every chunk except the last. All stored content depends on it, so changing it requires a
 * new format.
 */
const CHUNK_BYTES = 65_536;
/**
 * Number of chunks stored per transaction of an upload. More than one, because each transaction
 * costs a disk sync. An upload keeps two buffers of this size in memory.
 */
const UPLOAD_CHUNKS = 16;
const UPLOAD_BYTES = UPLOAD_CHUNKS * CHUNK_BYTES;
/** Number of chunks per read. */
const READ_CHUNKS = 16;
/** Age at which an upload renews its marker. Must be far below `RECLAIM_AGE_MS`. */
const MARKER_RENEWAL_MS = 60_000;
/**
 * Minimum age of a marker that `reclaim` considers. Long enough for a slow client to write the
 * document after its attachments.
 */
const RECLAIM_AGE_MS = 60 * 60 * 1_000;
const RECLAIM_PAGE_ROWS = 50;
/**
 * Maximum number of small attachments per transaction. Together they have at most `UPLOAD_BYTES`.
 */
const SMALL_COUNT_MAX = 500;
/** Maximum size of a small attachment. Larger attachments are stored separately. */
const SMALL_BYTES_MAX = 4 * CHUNK_BYTES;

export interface StageOptions {
  /** Set if the bytes arrive compressed; they are stored unchanged. */
  readonly encoding?: "gzip" | undefined;
  /** Expected digest of the bytes as received: `md5-` followed by base64. */
  readonly expectedDigest?: string | undefined;
  /** Expected length of the bytes as received. */
  readonly expectedLength?: number | undefined;
  /**
   * Gzip level from 1 (fast) to 9 (small) for bytes received uncompressed. Default: not compressed.
   */
  readonly compressionLevel?: number | undefined;
}

/** Bytes in memory, or a stream. */
export type IncomingContent = WholeContent | StreamedContent;

interface WholeContent {
  readonly bytes: Uint8Array;
  readonly options: StageOptions;
}

interface StreamedContent {
  /** Stream of bytes, which can be read only once. */
  readonly chunks: AsyncIterable<Uint8Array>;
  readonly options: StageOptions;
}

export interface ReadContentOptions {
  /** Whether to decode; otherwise the bytes are returned as stored. */
  readonly decoded: boolean;
  /** Offset of the first byte, in the requested form. Default: 0. */
  readonly start?: number | undefined;
  /** Offset after the last byte. Default: the length of the content. */
  readonly end?: number | undefined;
}

export interface Reclaimed {
  readonly contentCount: number;
}

export class AttachmentStore {
  readonly #runtime: Runtime;
  readonly #kv: KeyValueStore;

  constructor({ runtime, kv }: { readonly runtime: Runtime; readonly kv: KeyValueStore }) {
    this.#runtime = { ...runtime, random: runtime.random.fork("databases.attachments") };
    this.#kv = kv;
  }

  /**
   * Stores bytes that a document will reference. Throws STORE_ATTACHMENT_DIGEST_MISMATCH,
   * STORE_ATTACHMENT_LENGTH_MISMATCH or STORE_ATTACHMENT_ENCODING_INVALID; bytes already stored are
   * reclaimed later.
   */
  async stage(
    database: Database,
    chunks: AsyncIterable<Uint8Array>,
    options: StageOptions,
    signal?: AbortSignal,
  ): Promise<StagedContent> {
    const upload = new Upload(this.#runtime, this.#kv, database, signal);
    const record = await this.#fill(upload, chunks, options, signal);
    await upload.finish(encodeContentRecord(record));
    return { contentId: upload.contentId, ...record };
  }

  /**
   * Stages several attachments in order. Stores as many per transaction as fit, because each
   * transaction costs a disk sync. Requests the next item only after all previous items are stored,
   * or held in memory for the next transaction. Stops at the first item that `stage` would refuse.
   * Small items with the same bytes are stored once.
   */
  async stageAll(
    database: Database,
    contents: Iterable<IncomingContent> | AsyncIterable<IncomingContent>,
    { yielder, signal }: { readonly yielder?: Yielder; readonly signal?: AbortSignal } = {},
  ): Promise<StagedContent[]> {
    const staged: StagedContent[] = [];
    const known = new Map<string, string>();
    let held: HeldRecord[] = [];
    let heldBytes = 0;
    const store = async (): Promise<void> => {
      if (held.length > 0) await this.#storeHeld(database, held, signal);
      held = [];
      heldBytes = 0;
    };
    for await (const content of contents) {
      if (yielder?.isDue === true) await yielder.yield();
      const { options } = content;
      const bytes = await smallBytes(content);
      if (!(bytes instanceof Uint8Array)) {
        staged.push(await this.stage(database, bytes, options, signal));
        continue;
      }
      if (held.length === SMALL_COUNT_MAX || heldBytes + bytes.length > UPLOAD_BYTES) await store();
      const { record, stored } = await this.#small(bytes, options, signal);
      const name = contentName(record);
      const contentId = known.get(name) ?? randomHex(this.#runtime.random);
      staged.push({ contentId, ...record });
      if (known.has(name)) continue;
      known.set(name, contentId);
      held.push({ contentId, record: encodeContentRecord(record), bytes: stored });
      heldBytes += bytes.length;
    }
    await store();
    return staged;
  }

  /** Returns the record and the stored form of small content. */
  async #small(
    bytes: Uint8Array,
    options: StageOptions,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly record: ContentRecord; readonly stored: Uint8Array }> {
    const { encoding, compressionLevel } = options;
    if (encoding === undefined && compressionLevel === undefined) {
      const digest = digestText(this.#runtime.digests.md5(bytes));
      const { length } = bytes;
      checkIncoming({ digest, length }, options);
      return { record: { digest, length, encoding, encodedLength: length }, stored: bytes };
    }
    const content = new HeldContent();
    const record = await this.#fill(content, once(bytes), options, signal);
    return { record, stored: content.bytes };
  }

  /** Passes the received bytes to `sink` in their stored form, and returns the content record. */
  async #fill(
    sink: ContentSink,
    chunks: AsyncIterable<Uint8Array>,
    options: StageOptions,
    signal: AbortSignal | undefined,
  ): Promise<ContentRecord> {
    const { digests, compression } = this.#runtime;
    const incoming = new Meter(digests.createMd5());
    const level = options.encoding === undefined ? options.compressionLevel : undefined;
    const isCompressed = level !== undefined;
    const stored = isCompressed ? new Meter(digests.createMd5()) : incoming;
    const gzipMeter = options.encoding === "gzip" ? new GzipMeter(compression) : undefined;
    const metered = incoming.measure(gzipMeter === undefined ? chunks : gzipMeter.tap(chunks));
    const encoded = isCompressed ? stored.measure(compression.gzip(metered, { level })) : metered;

    try {
      for await (const chunk of encoded) {
        signal?.throwIfAborted();
        await sink.push(chunk);
      }
    } finally {
      await sink.settled();
    }
    checkIncoming(incoming, options);
    return {
      digest: stored.digest,
      length: gzipMeter === undefined ? incoming.length : await gzipMeter.decodedLength(),
      encoding: isCompressed ? "gzip" : options.encoding,
      encodedLength: stored.length,
    };
  }

  async #storeHeld(
    database: Database,
    held: readonly HeldRecord[],
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { keys } = database;
    const nowMs = this.#runtime.clock.nowMs();
    const body = async (tx: Transaction): Promise<void> => {
      await database.assertExists(tx);
      for (const { contentId, bytes, record } of held) {
        setChunks(tx, database, { contentId, firstChunk: 0, bytes });
        tx.set(keys.unreferenced.key({ sinceMs: nowMs, ...contentElement(contentId) }), NOTHING);
        tx.set(keys.content.key(contentElement(contentId)), record);
      }
    };
    await this.#kv.transact(body, { signal, whenUnknown: "retry" });
  }

  /**
   * Reads an attachment. Throws STORE_ATTACHMENT_CONTENT_GONE if the last leaf that references it
   * is removed during the read.
   */
  async *read(
    database: Database,
    attachment: Attachment,
    { decoded, start = 0, end = Number.POSITIVE_INFINITY }: ReadContentOptions,
    signal?: AbortSignal,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const { encodedLength } = attachment;
    if (decoded && attachment.encoding === "gzip") {
      const stored = this.#readStored(
        database,
        attachment,
        { start: 0, end: encodedLength },
        signal,
      );
      yield* slice(this.#runtime.compression.gunzip(stored), start, end);
    } else {
      const range = { start, end: Math.min(end, encodedLength) };
      yield* this.#readStored(database, attachment, range, signal);
    }
  }

  /** Reads an attachment into one array. */
  async readWhole(
    database: Database,
    attachment: Attachment,
    options: ReadContentOptions,
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of this.read(database, attachment, options, signal)) chunks.push(chunk);
    const [first = EMPTY_BYTES] = chunks;
    return chunks.length <= 1 ? first : concatBytes(chunks);
  }

  /** Whether any marker waits to be checked by `reclaim`. */
  async hasReclaimable(tx: ReadTransaction, { keys }: Database): Promise<boolean> {
    const beforeMs = this.#runtime.clock.nowMs() - RECLAIM_AGE_MS;
    const page = await tx.getRangePage(keys.unreferenced.rangeBefore({ sinceMs: beforeMs }), {
      limit: 1,
    });
    return page.entries.length > 0;
  }

  /**
   * Deletes content that no leaf references and whose marker is at least `ageMs` old. Checks all
   * such markers, in as many transactions as necessary.
   */
  async reclaim(
    database: Database,
    { ageMs = RECLAIM_AGE_MS }: { readonly ageMs?: number } = {},
    signal?: AbortSignal,
  ): Promise<Reclaimed> {
    const beforeMs = this.#runtime.clock.nowMs() - ageMs;
    let contentCount = 0;
    for (;;) {
      const nowMs = this.#runtime.clock.nowMs();
      const page = await this.#kv.transact((tx) => reclaimPage(tx, database, beforeMs, nowMs), {
        signal,
        whenUnknown: "retry",
      });
      contentCount += page.contentCount;
      if (page.isLast) return { contentCount };
    }
  }

  async *#readStored(
    database: Database,
    { contentId }: Attachment,
    { start, end }: { readonly start: number; readonly end: number },
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    let position = start;
    while (position < end) {
      const index = Math.floor(position / CHUNK_BYTES);
      const count = Math.min(READ_CHUNKS, Math.ceil(end / CHUNK_BYTES) - index);
      const chunks = await this.#kv.read(
        (tx) => readPage(tx, database, { contentId, index, count }),
        {
          signal,
        },
      );
      for (const [offset, chunk] of chunks.entries()) {
        const chunkStart = (index + offset) * CHUNK_BYTES;
        assert(
          chunkStart + chunk.length > position,
          "The stored content must not be shorter than its recorded length",
        );
        const part = chunk.subarray(Math.max(0, position - chunkStart), end - chunkStart);
        position = chunkStart + chunk.length;
        if (part.length > 0) yield part;
      }
    }
  }
}

/** Receives content bytes in their stored form. */
interface ContentSink {
  /** Accepts bytes. Resolves when the sink is ready for more. */
  push(bytes: Uint8Array): Promise<void>;
  /** Resolves when no write is in progress, even if the last write failed. */
  settled(): Promise<void>;
}

/** Small content, held until it is stored in one transaction with other small content. */
interface HeldRecord {
  readonly contentId: string;
  readonly record: Uint8Array;
  readonly bytes: Uint8Array;
}

/**
 * Returns the key for deduplication. As in the store, contents with the same key are treated as
 * identical.
 */
function contentName({ digest, encoding, encodedLength }: ContentRecord): string {
  return `${digest} ${encoding} ${encodedLength}`;
}

/** Collects the bytes of small content. */
class HeldContent implements ContentSink {
  #bytes: Uint8Array = EMPTY_BYTES;

  get bytes(): Uint8Array {
    return this.#bytes;
  }

  async push(bytes: Uint8Array): Promise<void> {
    this.#bytes = this.#bytes.length === 0 ? bytes : concatBytes([this.#bytes, bytes]);
  }

  async settled(): Promise<void> {}
}

/** Splits the bytes into chunks, and stores a few at a time. */
class Upload implements ContentSink {
  readonly contentId: string;
  readonly #runtime: Runtime;
  readonly #kv: KeyValueStore;
  readonly #database: Database;
  readonly #signal: AbortSignal | undefined;
  /**
   * Double buffering: `#filling` is filled while `#spare` is stored. Both grow to at most the size
   * of one transaction.
   */
  #filling: Uint8Array = EMPTY_BYTES;
  #filledBytes = 0;
  #spare: Uint8Array = EMPTY_BYTES;
  #chunkCount = 0;
  #markerMs: number | undefined;
  #storing: Promise<void> = Promise.resolve();

  constructor(
    runtime: Runtime,
    kv: KeyValueStore,
    database: Database,
    signal: AbortSignal | undefined,
  ) {
    this.contentId = randomHex(runtime.random);
    this.#runtime = runtime;
    this.#kv = kv;
    this.#database = database;
    this.#signal = signal;
  }

  /** Buffers the bytes. Full buffers are stored in the background. */
  async push(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length; ) {
      // A full buffer is stored only when more bytes follow, because the last chunks are stored
      // together with the content's record.
      if (this.#filledBytes === UPLOAD_BYTES) await this.#storeFilled();
      const part = bytes.subarray(from, from + UPLOAD_BYTES - this.#filledBytes);
      this.#fill(part);
      from += part.length;
    }
  }

  async #storeFilled(): Promise<void> {
    await this.#storing;
    const filled = this.#filling;
    this.#storing = this.#store(filled, undefined);
    // Prevents an unhandled rejection: the next caller that awaits `#storing` receives the error.
    this.#storing.catch(() => {});
    this.#filling = this.#spare;
    this.#filledBytes = 0;
    this.#spare = filled;
  }

  #fill(bytes: Uint8Array): void {
    const needed = this.#filledBytes + bytes.length;
    if (needed > this.#filling.length) {
      // Content received in a single piece, such as an inline attachment, needs no spare capacity.
      const isFirst = this.#filledBytes === 0;
      const grown = new Uint8Array(isFirst ? needed : Math.min(needed * 2, UPLOAD_BYTES));
      grown.set(this.#filling.subarray(0, this.#filledBytes));
      this.#filling = grown;
    }
    this.#filling.set(bytes, this.#filledBytes);
    this.#filledBytes = needed;
  }

  async settled(): Promise<void> {
    await this.#storing.catch(() => {});
  }

  /** Stores the remaining bytes, and the record that completes the content. */
  async finish(record: Uint8Array): Promise<void> {
    await this.#storing;
    await this.#store(this.#filling.subarray(0, this.#filledBytes), record);
  }

  async #store(bytes: Uint8Array, record: Uint8Array | undefined): Promise<void> {
    const { keys } = this.#database;
    const nowMs = this.#runtime.clock.nowMs();
    const oldMarkerMs = this.#markerMs;
    const isRenewed =
      record !== undefined || oldMarkerMs === undefined || nowMs - oldMarkerMs > MARKER_RENEWAL_MS;
    const body = async (tx: Transaction): Promise<void> => {
      await this.#database.assertExists(tx);
      if (oldMarkerMs !== undefined) await this.#assertMarked(tx, oldMarkerMs, nowMs);
      const { contentId } = this;
      setChunks(tx, this.#database, { contentId, firstChunk: this.#chunkCount, bytes });
      if (isRenewed) {
        if (oldMarkerMs !== undefined)
          tx.clear(
            keys.unreferenced.key({ sinceMs: oldMarkerMs, ...contentElement(this.contentId) }),
          );
        tx.set(
          keys.unreferenced.key({ sinceMs: nowMs, ...contentElement(this.contentId) }),
          NOTHING,
        );
      }
      if (record !== undefined) tx.set(keys.content.key(contentElement(this.contentId)), record);
    };
    await this.#kv.transact(body, { signal: this.#signal, whenUnknown: "retry" });
    if (isRenewed) this.#markerMs = nowMs;
    this.#chunkCount += Math.ceil(bytes.length / CHUNK_BYTES);
  }

  /**
   * Checks that the chunks of an upload have not been reclaimed, which happens if the upload pauses
   * for longer than the reclaim age.
   */
  async #assertMarked(tx: Transaction, oldMarkerMs: number, newMarkerMs: number): Promise<void> {
    const { keys } = this.#database;
    if (
      (await tx.get(
        keys.unreferenced.key({ sinceMs: oldMarkerMs, ...contentElement(this.contentId) }),
      )) !== undefined
    )
      return;
    // An earlier attempt, whose commit had an unknown outcome, has already renewed the marker.
    if (
      (await tx.get(
        keys.unreferenced.key({ sinceMs: newMarkerMs, ...contentElement(this.contentId) }),
      )) !== undefined
    )
      return;
    throw contentGone(this.contentId);
  }
}

/** Computes digest and length of the bytes that pass through. */
class Meter {
  length = 0;
  readonly #md5: DigestStream;
  #digest: string | undefined;

  constructor(md5: DigestStream) {
    this.#md5 = md5;
  }

  async *measure(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const chunk of chunks) {
      this.#md5.update(chunk);
      this.length += chunk.length;
      yield chunk;
    }
  }

  /** Digest of all bytes. Must not be read before the last byte has passed. */
  get digest(): string {
    this.#digest ??= digestText(this.#md5.digest());
    return this.#digest;
  }
}

const NOTHING = new Uint8Array(0);

function checkIncoming(
  incoming: Pick<Meter, "length" | "digest">,
  { expectedDigest, expectedLength }: StageOptions,
): void {
  if (expectedLength !== undefined && expectedLength !== incoming.length) {
    throw new OperationalError(
      "STORE_ATTACHMENT_LENGTH_MISMATCH",
      "The length of the attachment differs from the declared length",
      { expected: expectedLength, actual: incoming.length },
    );
  }
  const actual = incoming.digest;
  if (expectedDigest === undefined || expectedDigest === actual) return;
  throw new OperationalError(
    "STORE_ATTACHMENT_DIGEST_MISMATCH",
    "The digest of the attachment differs from the declared digest",
    { expected: expectedDigest, actual },
  );
}

function setChunks(
  tx: Transaction,
  { keys }: Database,
  content: {
    readonly contentId: string;
    /** Index of the first chunk. */
    readonly firstChunk: number;
    readonly bytes: Uint8Array;
  },
): void {
  const { contentId, firstChunk, bytes } = content;
  for (let offset = 0; offset < bytes.length; offset += CHUNK_BYTES) {
    const key = keys.contentChunk.key({
      ...contentElement(contentId),
      chunk: firstChunk + offset / CHUNK_BYTES,
    });
    tx.set(key, bytes.subarray(offset, offset + CHUNK_BYTES));
  }
}

async function readPage(
  tx: ReadTransaction,
  database: Database,
  { contentId, index, count }: { contentId: string; index: number; count: number },
): Promise<Uint8Array[]> {
  const chunks = await Promise.all(
    Array.from({ length: count }, (_, offset) =>
      tx.get(
        database.keys.contentChunk.key({ ...contentElement(contentId), chunk: index + offset }),
      ),
    ),
  );
  return chunks.map((chunk) => {
    if (chunk === undefined) throw contentGone(contentId);
    return chunk;
  });
}

async function reclaimPage(
  tx: Transaction,
  database: Database,
  beforeMs: number,
  nowMs: number,
): Promise<{ contentCount: number; isLast: boolean }> {
  const { keys } = database;
  const page = await tx.getRangePage(keys.unreferenced.rangeBefore({ sinceMs: beforeMs }), {
    limit: RECLAIM_PAGE_ROWS,
  });
  const contents = await Promise.all(
    page.entries.map(async ({ key }) => {
      tx.clear(key);
      const contentId = contentIdOf(keys.unreferenced.unpack(key));
      const references = await tx.getRangePage(keys.reference.range(contentElement(contentId)), {
        limit: 1,
      });
      return references.entries.length > 0 ? undefined : contentId;
    }),
  );
  const unreferenced = new Set(contents.filter((contentId) => contentId !== undefined));
  await Promise.all(
    [...unreferenced].map((contentId) => clearContent(tx, database, contentId, nowMs)),
  );
  return { contentCount: unreferenced.size, isLast: page.stoppedBy === "exhausted" };
}

/** Yields the bytes from `start` (inclusive) to `end` (exclusive). */
async function* slice(
  chunks: AsyncIterable<Uint8Array>,
  start: number,
  end: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  let position = 0;
  for await (const chunk of chunks) {
    const part = chunk.subarray(Math.max(0, start - position), Math.max(0, end - position));
    position += chunk.length;
    if (part.length > 0) yield part;
    if (position >= end) return;
  }
}

/** Returns small content as bytes, and larger content as a stream. */
async function smallBytes(
  content: IncomingContent,
): Promise<Uint8Array | AsyncIterable<Uint8Array>> {
  if ("bytes" in content) {
    return content.bytes.length > SMALL_BYTES_MAX ? once(content.bytes) : content.bytes;
  }
  const iterator = content.chunks[Symbol.asyncIterator]();
  const first: Uint8Array[] = [];
  let byteCount = 0;
  for (;;) {
    const next = await iterator.next();
    if (next.done === true) return concatBytes(first);
    first.push(next.value);
    byteCount += next.value.length;
    if (byteCount > SMALL_BYTES_MAX) return goingOn(first, iterator);
  }
}

/** Yields the pieces already received, then the rest of the stream. */
async function* goingOn(
  first: readonly Uint8Array[],
  iterator: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* first;
    for (;;) {
      const next = await iterator.next();
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    await iterator.return?.();
  }
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes;
}
