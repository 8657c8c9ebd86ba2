/** Forms of schedules, for choosing one. The node reports errors in their text. Pure. */

export const SCHEDULE_KINDS = ["none", "every", "cron", "changes", "window"] as const;
export type ScheduleKind = (typeof SCHEDULE_KINDS)[number];

interface ScheduleForm {
  /** Description of the times at which the job runs. */
  readonly words: string;
  /** Syntax, and the kinds of replications to which it applies. */
  readonly note: string;
  /** An initial example, in the user's time zone. */
  example(timeZone: string): string;
}

export const SCHEDULES: Readonly<Record<ScheduleKind, ScheduleForm>> = {
  none: { words: "at once", note: "", example: () => "" },
  every: {
    words: "at intervals",
    note: "From the start of one run to the next: every 30s, every 15m, every 2h or every 1d. Within hours: every 1h between 22:00 and 06:00 Europe/Berlin. Not for continuous replications.",
    example: () => "every 15m",
  },
  cron: {
    words: "at fixed times (cron)",
    note: "Minute, hour, day, month, weekday (* is any), and the time zone; without one it is UTC. Not for continuous replications.",
    example: (timeZone) => `0 3 * * * ${timeZone}`,
  },
  changes: {
    words: "after a number of changes",
    note: "When the source has this many pending changes. Not for continuous replications.",
    example: () => "after 100 changes",
  },
  window: {
    words: "within hours of the day",
    note: "The time zone is the last; without one it is UTC. For continuous replications.",
    example: (timeZone) => `between 22:00 and 06:00 ${timeZone}`,
  },
};

/** The form used by the schedule of a document. */
export function scheduleKindOf(schedule: string): ScheduleKind {
  if (schedule.startsWith("every ")) return "every";
  if (schedule.startsWith("after ")) return "changes";
  return schedule.startsWith("between ") ? "window" : "cron";
}
