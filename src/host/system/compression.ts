/** Compression with Node.js, for streams and complete values. */
import { Readable, type Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createGzip,
  createInflate,
  createInflateRaw,
  gzip,
} from "node:zlib";
import { type Compression, peekChunk } from "../../base/index.ts";

const gzipAtOnce = promisify(gzip);

export const systemCompression: Compression = {
  gzipWhole: (bytes, { level }) => gzipAtOnce(bytes, { level }),
  gzip: (chunks, { level, flushesEach = false }) => {
    const flush = flushesEach ? constants.Z_SYNC_FLUSH : constants.Z_NO_FLUSH;
    return through(chunks, () => createGzip({ level, flush }));
  },
  gunzip: (chunks) => through(chunks, createGunzip),
  inflate,
  unbrotli: (chunks) => through(chunks, createBrotliDecompress),
};

/** Pipes chunks through a stream, which is destroyed if the consumer or source stops early. */
async function* through(
  chunks: AsyncIterable<Uint8Array>,
  create: () => Transform,
): AsyncIterable<Uint8Array> {
  const stream = create();
  const feeding = pipeline(Readable.from(chunks, { objectMode: false }), stream);
  // An error also ends the stream, and the following loop throws it.
  feeding.catch(() => {});
  for await (const chunk of stream) yield chunk as Uint8Array;
}

async function* inflate(chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  const peeked = await peekChunk(chunks);
  if (peeked === undefined) return;
  // The low bits of a zlib header's first byte are the method, 8 (RFC 1950).
  const isZlib = ((peeked.first[0] ?? 0) & 0x0f) === 8;
  yield* through(peeked.whole, isZlib ? createInflate : createInflateRaw);
}
