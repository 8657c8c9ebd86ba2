/**
 * Reads bytes from LMDB as plain Uint8Arrays. The library would return Buffers, whose `slice`
 * shares memory, and converting them would take most of the time of a range read. Also removes the
 * byte that the layout adds at the start of each key (`layout.ts`).
 */
import { cutBytes } from "../../base/index.ts";
import { VALUE_BYTES_MAX } from "../../kv/index.ts";

/**
 * Returns a function that copies from the library's read buffers. Caches the view of the last
 * buffer.
 */
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

/**
 * Whether reads copy the bytes of values, or return only their lengths. Global state, because the
 * library uses one encoder per database and offers no other way to read only lengths.
 */
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
  /** The library sets the `length` of its buffer to the length of the value. */
  decode: (source: Uint8Array): Uint8Array =>
    keepsBytes ? copyValue(source, 0, source.length) : lengthOf(source),
};

/**
 * Runs `read` synchronously. Values are returned as bytes or, with "lengths", as arrays with the
 * right length and undefined contents.
 *
 * With "lengths", each key gets memory of its own, not a part of a shared slab. Most of the
 * thousands of keys are soon discarded, but one that lives longer would retain its whole slab.
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

/** Memory shared by all values of which only the length is read. */
const UNREAD = new ArrayBuffer(VALUE_BYTES_MAX);

function lengthOf({ length }: Uint8Array): Uint8Array {
  return new Uint8Array(length <= VALUE_BYTES_MAX ? UNREAD : new ArrayBuffer(length), 0, length);
}

/** Returns a Buffer sharing the same memory. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
