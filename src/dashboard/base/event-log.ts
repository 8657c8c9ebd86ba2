/** The log of events, as the page keeps it. Pure. */
import type { ControlEvent, JobEvent } from "../../contract/index.ts";
import { jobName } from "../api/types.ts";

/** Before the first event of all. */
export const LOG_BEGIN = "0".repeat(24);

/** What a row shows, and no more. */
export interface LogEntry extends Pick<JobEvent, "place" | "time" | "changes"> {
  /** The name of the job; its replication id when it is gone. */
  readonly name: string;
  readonly isGone: boolean;
  /** The decision of an operator that it tells of. */
  readonly decision: ControlEvent | undefined;
  /** Of the last failure of the job, where it fails now. */
  readonly failureClass: string | undefined;
}

/** Undefined: that a list finds the job by something else is no news by itself. */
export function entryOf(event: JobEvent): LogEntry | undefined {
  const { place, time, changes, id, job } = event;
  const decision = decisionOf(event);
  if (decision === undefined && changes.every((change) => change === "changed")) return undefined;
  return {
    ...{ place, time, changes, decision },
    name: job === null ? id : jobName(job),
    isGone: job === null,
    failureClass: job?.last_failure?.class,
  };
}

const DECISIONS: Readonly<Record<string, readonly string[]>> = {
  paused: ["pause"],
  resumed: ["resume"],
  changed: ["retry", "reset", "start-from", "replace-credentials"],
};
/** Events have whole seconds, and a decision is told when it is stored. */
const LATE_MS_MAX = 2_000;

/** The decision nearest to the event. */
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
