/**
 * Reads bytes from LMDB as plain arrays of their own, in one step. The library by default gives a Buffer, whose `slice`
 * shares memory, and converting that into a plain array takes most of the time of a range.
 *
 * Keys lose the first byte, which the layout adds (`lmdb-layout`).
 */
import { cutBytes } from "../../base/index.ts";

/** Copies out of the buffers that the library reads into: few, so the last one's plain view is kept. */
function copier(): (source: Uint8Array, start: number, end: number) => Uint8Array {
  let view: Uint8Array = new Uint8Array(0);
  return (source, start, end) => {
    if (view.buffer !== source.buffer) view = new Uint8Array(source.buffer);
    return cutBytes(view, source.byteOffset + start, source.byteOffset + end);
  };
}

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
  decode: (source: Uint8Array): Uint8Array => copyValue(source, 0, source.length),
};

/** The same bytes as Node's kind of array, for its methods. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
