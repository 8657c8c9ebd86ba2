/**
 * An alert: a notification about a job or a rule, which is sent once. A breach begins with a
 * `firing` alert and ends with a `resolved` alert. The end of a job is not a breach.
 */
import { assert } from "../../base/index.ts";
import { packJson, packTuple, type TupleItem, unpackJson, unpackTuple } from "../../kv/index.ts";

/**
 * - failing: a run has failed, and none has succeeded since
 * - stalled: the last runs made no progress
 * - left_behind: documents were not copied
 * - lag: a change has been pending for longer than the limit
 * - rule_failing: the rule cannot list its source
 * - finished: the job has completed or failed permanently
 */
export const ALERT_KINDS = [
  "failing",
  "stalled",
  "left_behind",
  "lag",
  "rule_failing",
  "finished",
] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];
export type BreachKind = Exclude<AlertKind, "finished">;
/** Kinds of breaches that concern jobs. */
export type JobBreachKind = Exclude<BreachKind, "rule_failing">;
export const JOB_BREACH_KINDS = ALERT_KINDS.filter(
  (kind) => kind !== "finished" && kind !== "rule_failing",
);

/** The cause of an alert. Alerts with the same cause are grouped. Unknown members are undefined. */
export interface AlertCause {
  readonly class: string | undefined;
  readonly side: string | undefined;
  readonly host: string | undefined;
  /** UUID of the rule that created the job. */
  readonly rule: string | undefined;
  /** The configured tags of the job or rule, as `name:value`. */
  readonly tags: readonly string[];
}

export const NO_CAUSE: AlertCause = {
  class: undefined,
  side: undefined,
  host: undefined,
  rule: undefined,
  tags: [],
};

export interface Alert {
  /** Id of 32 hex digits. Receivers use it to detect duplicates. */
  readonly id: string;
  /** Kind of the alert. `test`: an operator has requested the alert, and it is not about a job. */
  readonly kind: AlertKind | "test";
  /** `completed` and `failed` are used only for alerts of the kind `finished`. */
  readonly status: "firing" | "resolved" | "completed" | "failed";
  /**
   * Id of the alert that began the breach. It is this alert's own id if this alert began the
   * breach.
   */
  readonly breachId: string;
  /** Id of the job, or name of the rule. */
  readonly jobId: string;
  /** Time of the event or comparison that caused the alert (ms since the epoch). */
  readonly timeMs: number;
  /** Start of the breach (ms since the epoch). */
  readonly sinceMs: number;
  readonly cause: AlertCause;
}

export interface Breach {
  readonly id: string;
  readonly sinceMs: number;
  readonly cause: AlertCause;
}

/** Returns the key of an alert's group. Alerts with the same key are sent together. */
export function alertGroup({ kind, status, cause }: Alert): string {
  return JSON.stringify([
    kind,
    status,
    cause.class,
    cause.side,
    cause.host,
    cause.rule,
    cause.tags,
  ]);
}

/** Format version, stored as the first element. */
const FORMAT = 1;

export function encodeAlert(alert: Alert): Uint8Array {
  const { id, kind, status, breachId, jobId, timeMs, sinceMs, cause } = alert;
  const times = [Math.floor(timeMs), Math.floor(sinceMs)] as const;
  return packTuple([FORMAT, id, kind, status, breachId, jobId, ...times, ...causeItems(cause)]);
}

/** Decodes an alert. Alerts written by older versions have neither a start nor a cause. */
export function decodeAlert(value: Uint8Array): Alert {
  const [format, id, kind, status, breachId, jobId, timeMs, sinceMs, ...cause] = unpackTuple(value);
  assert(format === FORMAT, "An alert must have a supported format version");
  return {
    id: String(id),
    kind: kind as Alert["kind"],
    status: status as Alert["status"],
    breachId: String(breachId),
    jobId: String(jobId),
    timeMs: Number(timeMs),
    sinceMs: Number(sinceMs ?? timeMs),
    cause: causeOf(cause),
  };
}

export function encodeBreach({ id, sinceMs, cause }: Breach): Uint8Array {
  return packTuple([FORMAT, id, Math.floor(sinceMs), ...causeItems(cause)]);
}

export function decodeBreach(value: Uint8Array): Breach {
  const [format, id, sinceMs, ...cause] = unpackTuple(value);
  assert(format === FORMAT, "A breach must have a supported format version");
  return { id: String(id), sinceMs: Number(sinceMs), cause: causeOf(cause) };
}

/**
 * Encodes a cause as the last elements of a tuple. The tags come last, because older versions
 * ignore additional elements at the end.
 */
function causeItems({ class: failureClass, side, host, rule, tags }: AlertCause): TupleItem[] {
  return [failureClass ?? null, side ?? null, host ?? null, rule ?? null, ...tags];
}

function causeOf(items: readonly TupleItem[]): AlertCause {
  const texts = items.map((item) => (typeof item === "string" ? item : undefined));
  const [failureClass, side, host, rule, ...tags] = texts;
  const known = tags.filter((tag) => tag !== undefined);
  return { class: failureClass, side, host, rule, tags: known };
}

/** Outcome of the most recent deliveries, for operators. */
export interface AlertState {
  readonly sentMs: number | undefined;
  /** Number of alerts that the receiver has permanently rejected. */
  readonly rejectedCount: number;
  /** The last failed delivery. Cleared when a delivery succeeds. */
  readonly failure: AlertFailure | undefined;
  /** The last test alert. `error` is set if the receiver did not accept it. */
  readonly test: { readonly id: string; readonly error: string | undefined } | undefined;
}

export interface AlertFailure {
  readonly timeMs: number;
  readonly error: string;
  /** Whether the receiver rejected the alerts with a 4xx status. Rejected alerts are dropped. */
  readonly isRejected: boolean;
}

export const NO_ALERT_STATE: AlertState = {
  sentMs: undefined,
  rejectedCount: 0,
  failure: undefined,
  test: undefined,
};

export function encodeAlertState(state: AlertState): Uint8Array {
  return packJson(FORMAT, state);
}

export function decodeAlertState(value: Uint8Array): AlertState {
  const message = "A state of alerts must have a supported format version";
  return { ...NO_ALERT_STATE, ...(unpackJson(value, FORMAT, message) as AlertState) };
}
