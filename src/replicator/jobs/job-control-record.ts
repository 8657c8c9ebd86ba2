/** Encodes and decodes an operator's decisions. The stored tuple begins with the format version. */
import { assert, utf8Decode, utf8Encode } from "../../base/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";
import type { JobControl } from "./job-control.ts";

const FORMAT = 1;

export function encodeJobControl(control: JobControl): Uint8Array {
  return packTuple([FORMAT, utf8Encode(JSON.stringify(control))]);
}

export function decodeJobControl(value: Uint8Array): JobControl {
  const [format, text] = unpackTuple(value);
  assert(
    format === FORMAT && text instanceof Uint8Array,
    "A decision must have a supported format version",
  );
  const control = JSON.parse(utf8Decode(text)) as JobControl;
  return { ...control, restartAt: control.restartAt };
}
