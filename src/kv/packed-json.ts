/**
 * JSON as a stored value: a tuple of the format version and the text. Only for records that this
 * program wrote, because `JSON.parse` changes some numbers.
 */
import { assert, utf8Decode, utf8Encode } from "../base/index.ts";
import { packTuple, unpackTuple } from "./tuple.ts";

export function packJson(format: number, json: unknown): Uint8Array {
  return packTuple([format, utf8Encode(JSON.stringify(json))]);
}

/** Throws an AssertionError with `message` if `value` has another format version. */
export function unpackJson(value: Uint8Array, format: number, message: string): unknown {
  const [stored, text] = unpackTuple(value);
  assert(stored === format && text instanceof Uint8Array, message);
  return JSON.parse(utf8Decode(text));
}
