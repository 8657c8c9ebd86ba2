/** Keys, and range bounds derived from keys. */
import { assert, byteText, EMPTY_BYTES } from "../base/index.ts";

export type Key = Uint8Array;

export const FIRST_KEY: Key = EMPTY_BYTES;
/** Bound after all keys. */
export const BEHIND_LAST_KEY: Key = new Uint8Array([0xff]);

/** The smallest key after `key`. */
export function keyAfter(key: Key): Key {
  const after = new Uint8Array(key.length + 1);
  after.set(key);
  return after;
}

/** The smallest key after all keys that begin with `prefix`. */
export function prefixEnd(prefix: Uint8Array): Key {
  let length = prefix.length;
  while (length > 0 && prefix[length - 1] === 0xff) length--;
  assert(length > 0, "A prefix must contain a byte below 0xff");
  const end = copyBytes(prefix.subarray(0, length));
  (end[length - 1] as number)++;
  return end;
}

/**
 * A key as a string with one character per byte. Such strings compare, hash and sort like the
 * bytes, and much faster than any loop over bytes.
 */
export function keyText(key: Key): string {
  return byteText(key);
}

export function keyFromText(text: string): Key {
  const key = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index++) key[index] = text.charCodeAt(index);
  return key;
}

/** Returns a copy. (`slice` of Node's Buffer shares memory.) */
export function copyBytes(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes);
}
