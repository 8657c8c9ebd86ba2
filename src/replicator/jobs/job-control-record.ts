/** Encodes and decodes an operator's decisions. The stored tuple begins with the format version. */
import { packJson, unpackJson } from "../../kv/index.ts";
import type { JobControl } from "./job-control.ts";

const FORMAT = 1;

export function encodeJobControl(control: JobControl): Uint8Array {
  return packJson(FORMAT, control);
}

export function decodeJobControl(value: Uint8Array): JobControl {
  const message = "A decision must have a supported format version";
  const control = unpackJson(value, FORMAT, message) as JobControl;
  return { ...control, restartAt: control.restartAt };
}
