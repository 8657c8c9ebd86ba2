/**
 * Values above the store's limit, split into chunks. Each chunk has its own key, and all chunks
 * except the last have the same size.
 */
import { concatBytes } from "../../base/index.ts";
import type { SetOptions } from "../../kv/index.ts";
import type { RecordWriter } from "./record-bytes.ts";

/**
 * Size of a chunk. Below the store's limit of 100,000 bytes for a value, with space for a future
 * prefix.
 */
export const CHUNK_BYTES = 90_000;

/** Splits the bytes into chunks. An empty value has one empty chunk, so that it has a row. */
export function splitChunks(bytes: Uint8Array): Uint8Array[] {
  if (bytes.length <= CHUNK_BYTES) return [bytes];
  const chunks: Uint8Array[] = [];
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES) {
    chunks.push(bytes.subarray(start, start + CHUNK_BYTES));
  }
  return chunks;
}

/**
 * Splits a short head followed by `bytes` into chunks. All chunks except the first share the memory
 * of `bytes`.
 */
export function splitBehind(head: RecordWriter, bytes: Uint8Array): Uint8Array[] {
  const inFirst = bytes.subarray(0, CHUNK_BYTES - head.length);
  const chunks = [head.raw(inFirst).finishBriefly()];
  for (let start = inFirst.length; start < bytes.length; start += CHUNK_BYTES) {
    chunks.push(bytes.subarray(start, start + CHUNK_BYTES));
  }
  return chunks;
}

/**
 * Returns options for storing a chunk. All chunks except the first are marked as constant, because
 * their bytes do not change.
 */
export function ofChunk(chunk: number): SetOptions | undefined {
  return chunk === 0 ? undefined : CONSTANT;
}

const CONSTANT: SetOptions = { isConstant: true };

export function joinChunks(chunks: readonly Uint8Array[]): Uint8Array {
  return chunks.length === 1 ? (chunks[0] as Uint8Array) : concatBytes(chunks);
}
