/** The log of events, as the server keeps it for a while. Pure. */
import type { JobEvent } from "../api/event-feed.ts";
import type { ControlEvent } from "../api/types.ts";

/** Before the first event of all. */
export const LOG_BEGIN = "0".repeat(24);

const DECISIONS: Readonly<Record<string, readonly string[]>> = {
  paused: ["pause"],
  resumed: ["resume"],
  changed: ["retry", "reset", "start-from", "replace-credentials"],
};
/** Events have whole seconds, and a decision is told when it is stored. */
const LATE_MS_MAX = 2_000;

/** The decision of an operator that the event tells of; undefined: nobody's. */
export function decisionOf({ time, changes, job }: JobEvent): ControlEvent | undefined {
  const actions = changes.flatMap((change) => DECISIONS[change] ?? []);
  return job?.control.find(
    ({ action, timestamp }) =>
      actions.includes(action) && Math.abs(Date.parse(time) - Date.parse(timestamp)) <= LATE_MS_MAX,
  );
}
