/**
 * Reads bytes from LMDB as plain Uint8Arrays. The library would return Buffers, whose `slice`
 * shares memory; converting them takes most of the time of a range read. Keys lose the first byte,
 * which the layout adds (`lmdb-layout`).
 */
import { cutBytes } from "../../base/index.ts";
import { VALUE_BYTES_MAX } from "../../kv/index.ts";

/** Copies out of the library's few read buffers. Caches the view of the last one. */
function copier(): (source: Uint8Array, start: number, end: number) => Uint8Array {
  let view: Uint8Array = new Uint8Array(0);
  return (source, start, end) => {
    if (view.buffer !== source.buffer) view = new Uint8Array(source.buffer);
    const { byteOffset } = source;
    return keepsBytes
      ? cutBytes(view, byteOffset + start, byteOffset + end)
      : view.slice(byteOffset + start, byteOffset + end);
  };
}

/** The library has one encoder per database, and no other way to read only a length. */
let keepsBytes = true;

const copyKey = copier();
const copyValue = copier();

export const keyEncoder = {
  writeKey(key: Uint8Array, target: Uint8Array, start: number): number {
    target.set(key, start);
    return start + key.length;
  },
  readKey: (source: Uint8Array, start: number, end: number): Uint8Array =>
    copyKey(source, start + 1, end),
};

export const valueEncoder = {
  encode: (value: Uint8Array): Uint8Array => value,
  /** The library sets its buffer's `length` to that of the value. */
  decode: (source: Uint8Array): Uint8Array =>
    keepsBytes ? copyValue(source, 0, source.length) : lengthOf(source),
};

/**
 * Runs `read` synchronously; values are returned as bytes, or as arrays with the right length and
 * undefined contents.
 *
 * Readers of lengths soon discard thousands of keys. These do not use shared slabs, which small
 * long-lived arrays would retain.
 */
export function reading<T>(what: "bytes" | "lengths", read: () => T): T {
  const before = keepsBytes;
  keepsBytes = what === "bytes";
  try {
    return read();
  } finally {
    keepsBytes = before;
  }
}

/** Shared memory of values whose length alone is read. */
const UNREAD = new ArrayBuffer(VALUE_BYTES_MAX);

function lengthOf({ length }: Uint8Array): Uint8Array {
  return new Uint8Array(length <= VALUE_BYTES_MAX ? UNREAD : new ArrayBuffer(length), 0, length);
}

/** Returns a Buffer sharing the same memory. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
