/** Entries of the event log, as kept by the page. */
import type { ControlEvent, JobEvent } from "../../contract/index.ts";

/** Position before the first event. */
export const LOG_BEGIN = "0".repeat(24);

/** An event, reduced to what a row shows. */
export interface LogEntry extends Pick<JobEvent, "place" | "time" | "changes" | "name"> {
  readonly isGone: boolean;
  /** The operator's decision that the event reports. */
  readonly decision: ControlEvent | undefined;
  /** Class of the job's last failure, if the job is failing. */
  readonly failureClass: string | undefined;
}

/**
 * Returns the entry for an event, or `undefined` if the event reports no decision and only the
 * change `changed`.
 */
export function entryOf(event: JobEvent): LogEntry | undefined {
  const { place, time, changes, name, job } = event;
  const decision = decisionOf(event);
  if (decision === undefined && changes.every((change) => change === "changed")) return undefined;
  return {
    ...{ place, time, changes, decision, name },
    isGone: job === null,
    failureClass: job?.last_failure?.class,
  };
}

const DECISIONS: Readonly<Record<string, readonly string[]>> = {
  paused: ["pause"],
  resumed: ["resume"],
  changed: ["retry", "reset", "start-from", "replace-credentials"],
};
/**
 * Maximum time between an operator's decision and the event that reports it. Allows for event times
 * in whole seconds.
 */
const LATE_MS_MAX = 2_000;

/** Returns the operator's decision that is closest in time to the event. */
function decisionOf({
  time,
  changes,
  job,
}: Pick<JobEvent, "time" | "changes" | "job">): ControlEvent | undefined {
  const actions = changes.flatMap((change) => DECISIONS[change] ?? []);
  const lateMs = ({ timestamp }: ControlEvent) =>
    Math.abs(Date.parse(time) - Date.parse(timestamp));
  return job?.control
    .filter((decision) => actions.includes(decision.action) && lateMs(decision) <= LATE_MS_MAX)
    .toSorted((one, other) => lateMs(one) - lateMs(other))[0];
}
