/**
 * Synchronous compression. Asynchronous compression would take real time, during which virtual time
 * would advance.
 */
import { brotliDecompressSync, gunzipSync, gzipSync, inflateSync } from "node:zlib";
import type { Compression } from "../../../src/base/index.ts";

export const SYNCHRONOUS_COMPRESSION: Compression = {
  async gzipWhole(bytes, { level }) {
    return gzipSync(bytes, { level });
  },
  async *gzip(chunks, { level }) {
    yield gzipSync(await whole(chunks), { level });
  },
  async *gunzip(chunks) {
    yield gunzipSync(await whole(chunks));
  },
  async *inflate(chunks) {
    yield inflateSync(await whole(chunks));
  },
  async *unbrotli(chunks) {
    yield brotliDecompressSync(await whole(chunks));
  },
};

async function whole(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return Buffer.concat(parts);
}
