/**
 * Reads bytes from LMDB as plain arrays of their own, in one step. The library by default gives a Buffer, whose `slice`
 * shares memory, and converting that into a plain array takes most of the time of a range.
 *
 * Keys lose the first byte, which the layout adds (`lmdb-layout`).
 */
import { cutBytes } from "../../base/index.ts";
import { VALUE_BYTES_MAX } from "../../kv/index.ts";

/** Copies out of the buffers that the library reads into: few, so the last one's plain view is kept. */
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

/** The library has one encoder for each database, and no other way to learn a length. */
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
  /** The library shortens its buffer's `length` to the value's. */
  decode: (source: Uint8Array): Uint8Array =>
    keepsBytes ? copyValue(source, 0, source.length) : lengthOf(source),
};

/**
 * Runs `read`, in which bytes are whole, or values have their lengths and no defined bytes. Synchronous.
 *
 * Readers of lengths drop thousands of keys soon. These are not cut from shared slabs, which stay in memory as long as any
 * small array of another reader.
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

/** One memory below all values of which only the length is read. */
const UNREAD = new ArrayBuffer(VALUE_BYTES_MAX);

function lengthOf({ length }: Uint8Array): Uint8Array {
  return new Uint8Array(length <= VALUE_BYTES_MAX ? UNREAD : new ArrayBuffer(length), 0, length);
}

/** The same bytes as Node's kind of array, for its methods. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
