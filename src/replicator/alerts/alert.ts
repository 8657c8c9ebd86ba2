/**
 * An alert: what is told to others about a job, once. A breach begins with an alert that fires, and ends with one that says that it is
 * resolved. That a job has ended is no breach.
 */
import { assert } from "../../base/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";

/**
 *   failing       no run has succeeded since a run failed
 *   stalled       the last runs of the job did not move
 *   left_behind   documents did not arrive
 *   lag           a change has been known for long and has not arrived
 *   finished      the job has completed, or failed for good
 */
export const ALERT_KINDS = ["failing", "stalled", "left_behind", "lag", "finished"] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];
export type BreachKind = Exclude<AlertKind, "finished">;
export const BREACH_KINDS = ALERT_KINDS.filter((kind) => kind !== "finished");

export interface Alert {
  /** 32 hex digits: a receiver that sees them again has been told before. */
  readonly id: string;
  readonly kind: AlertKind;
  /** `completed` and `failed` are of the kind `finished`. */
  readonly status: "firing" | "resolved" | "completed" | "failed";
  /** The id of the alert that told of the breach; its own where it begins one. */
  readonly breachId: string;
  readonly jobId: string;
  /** When it was noticed, in ms since the epoch. */
  readonly timeMs: number;
}

/** A breach that is not over. */
export interface Breach {
  readonly id: string;
  readonly sinceMs: number;
}

/** The stored forms; the first element is the format's version. */
const FORMAT = 1;

export function encodeAlert({ id, kind, status, breachId, jobId, timeMs }: Alert): Uint8Array {
  return packTuple([FORMAT, id, kind, status, breachId, jobId, Math.floor(timeMs)]);
}

export function decodeAlert(value: Uint8Array): Alert {
  const [format, id, kind, status, breachId, jobId, timeMs] = unpackTuple(value);
  assert(format === FORMAT, "An alert has a format of this version");
  return {
    id: String(id),
    kind: kind as AlertKind,
    status: status as Alert["status"],
    breachId: String(breachId),
    jobId: String(jobId),
    timeMs: Number(timeMs),
  };
}

export function encodeBreach({ id, sinceMs }: Breach): Uint8Array {
  return packTuple([FORMAT, id, Math.floor(sinceMs)]);
}

export function decodeBreach(value: Uint8Array): Breach {
  const [format, id, sinceMs] = unpackTuple(value);
  assert(format === FORMAT, "A breach has a format of this version");
  return { id: String(id), sinceMs: Number(sinceMs) };
}
