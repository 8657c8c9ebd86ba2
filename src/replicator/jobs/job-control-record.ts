/** Encodes and decodes an operator's decisions. The stored tuple begins with the format version. */
import { packJson, unpackJson, VALUE_BYTES_MAX } from "../../kv/index.ts";
import type { ControlEvent, JobControl } from "./job-control.ts";

const FORMAT = 1;
/** Maximum length of a sequence in the log of decisions, as JSON. Others are truncated. */
const LOGGED_SEQUENCE_LENGTH_MAX = 1_000;

/** Omits the oldest decisions if all of them do not fit into a value of the store. */
export function encodeJobControl(control: JobControl): Uint8Array {
  const events = control.events.map(logged);
  for (;;) {
    const value = packJson(FORMAT, { ...control, events });
    if (value.length <= VALUE_BYTES_MAX || events.pop() === undefined) return value;
  }
}

function logged(event: ControlEvent): ControlEvent {
  const text = JSON.stringify(event.since) ?? "";
  if (text.length <= LOGGED_SEQUENCE_LENGTH_MAX) return event;
  const shown = typeof event.since === "string" ? event.since : text;
  return { ...event, since: `${shown.slice(0, LOGGED_SEQUENCE_LENGTH_MAX - 1)}…` };
}

export function decodeJobControl(value: Uint8Array): JobControl {
  const message = "A decision must have a supported format version";
  const control = unpackJson(value, FORMAT, message) as JobControl;
  return { ...control, restartAt: control.restartAt };
}
