/** The kinds of schedules between which a user chooses. The node validates the schedule itself. */

export const SCHEDULE_KINDS = ["none", "every", "cron", "changes", "window"] as const;
export type ScheduleKind = (typeof SCHEDULE_KINDS)[number];

interface ScheduleForm {
  /** Description of the times at which the job runs. */
  readonly words: string;
  /** Syntax of the schedule, and the kinds of replications that can have it. */
  readonly note: string;
  /** An initial example, in the user's time zone. */
  example(timeZone: string): string;
}

export const SCHEDULES: Readonly<Record<ScheduleKind, ScheduleForm>> = {
  none: { words: "immediately", note: "", example: () => "" },
  every: {
    words: "at intervals",
    note: "Interval between the starts of runs, such as every 30s, every 15m, every 2h or every 1d. To run only at certain hours, append them, as in: every 1h between 22:00 and 06:00 Europe/Berlin. Not for continuous replications.",
    example: () => "every 15m",
  },
  cron: {
    words: "at fixed times (cron)",
    note: "Cron expression: minute, hour, day, month and weekday (* matches any), then an optional time zone (default UTC). Not for continuous replications.",
    example: (timeZone) => `0 3 * * * ${timeZone}`,
  },
  changes: {
    words: "after a number of changes",
    note: "A run starts when the source has at least this many pending changes. Not for continuous replications.",
    example: () => "after 100 changes",
  },
  window: {
    words: "during certain hours",
    note: "Start and end of the hours in which the replication runs, and an optional time zone (default UTC). Only for continuous replications.",
    example: (timeZone) => `between 22:00 and 06:00 ${timeZone}`,
  },
};

/** Returns the kind of schedule that a document uses. */
export function scheduleKindOf(schedule: string): ScheduleKind {
  if (schedule.startsWith("every ")) return "every";
  if (schedule.startsWith("after ")) return "changes";
  return schedule.startsWith("between ") ? "window" : "cron";
}
