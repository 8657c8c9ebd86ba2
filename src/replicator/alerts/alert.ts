/**
 * An alert: a notification about a job, sent once. A breach begins with a firing alert and ends
 * with a resolved one. The end of a job is not a breach.
 */
import { assert } from "../../base/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";

/**
 * - failing: no successful run since a failed one
 * - stalled: the last runs made no progress
 * - left_behind: documents were not copied
 * - lag: a change has been pending for longer than the limit
 * - finished: the job has completed or failed permanently
 */
export const ALERT_KINDS = ["failing", "stalled", "left_behind", "lag", "finished"] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];
export type BreachKind = Exclude<AlertKind, "finished">;
export const BREACH_KINDS = ALERT_KINDS.filter((kind) => kind !== "finished");

export interface Alert {
  /** 32 hex digits, by which receivers detect duplicates. */
  readonly id: string;
  readonly kind: AlertKind;
  /**
   * Alerts of the kind `finished` are `completed` or `failed`; all others are `firing` or
   * `resolved`.
   */
  readonly status: "firing" | "resolved" | "completed" | "failed";
  /** Id of the alert that began the breach; equal to `id` in that alert. */
  readonly breachId: string;
  readonly jobId: string;
  /** Time of detection (ms since the epoch). */
  readonly timeMs: number;
}

/** An ongoing breach. */
export interface Breach {
  readonly id: string;
  readonly sinceMs: number;
}

/** Format version, stored as the first element. */
const FORMAT = 1;

export function encodeAlert({ id, kind, status, breachId, jobId, timeMs }: Alert): Uint8Array {
  return packTuple([FORMAT, id, kind, status, breachId, jobId, Math.floor(timeMs)]);
}

export function decodeAlert(value: Uint8Array): Alert {
  const [format, id, kind, status, breachId, jobId, timeMs] = unpackTuple(value);
  assert(format === FORMAT, "An alert must have a supported format version");
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
  assert(format === FORMAT, "A breach must have a supported format version");
  return { id: String(id), sinceMs: Number(sinceMs) };
}
