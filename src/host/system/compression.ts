/** gzip by Node.js, as streams from iterable to iterable, and of bytes that are there. */
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { constants, createGunzip, createGzip, type Gunzip, type Gzip, gzip } from "node:zlib";
import type { Compression } from "../../base/index.ts";

const gzipAtOnce = promisify(gzip);

export const systemCompression: Compression = {
  gzipWhole: (bytes, { level }) => gzipAtOnce(bytes, { level }),
  gzip: (chunks, { level, flushesEach = false }) => {
    const flush = flushesEach ? constants.Z_SYNC_FLUSH : constants.Z_NO_FLUSH;
    return through(chunks, () => createGzip({ level, flush }));
  },
  gunzip: (chunks) => through(chunks, createGunzip),
};

/** Runs all chunks through one stream. A consumer that stops early, or a source that fails, ends the stream. */
async function* through(
  chunks: AsyncIterable<Uint8Array>,
  create: () => Gzip | Gunzip,
): AsyncIterable<Uint8Array> {
  const stream = create();
  const feeding = pipeline(Readable.from(chunks, { objectMode: false }), stream);
  // Its error also ends the stream, whose reader below throws it.
  feeding.catch(() => {});
  for await (const chunk of stream) yield chunk as Uint8Array;
}
