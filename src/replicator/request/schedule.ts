/**
 * When a replication runs, if not at once and as long as anything changes: the field `schedule`. CouchDB has none. Pure: what time it is
 * comes in. Times are seconds since the epoch.
 *
 *   every 15m                                  s, m, h or d; from the start of one run to the next
 *   0 3 * * 1-5 Europe/Berlin                  a line of cron, in UTC when no time zone is named
 *   after 100 changes                          when the source has so many that have not arrived
 *   between 22:00 and 06:00 Europe/Berlin      only then: for continuous replications, or behind `every`
 */
import { Cron } from "croner";
import { assert } from "../../base/index.ts";
import { ReplicationInvalidError, shown } from "./parse-fields.ts";
import type { Replication } from "./replication.ts";

/** Hours in which a job runs, as lines of cron: when it may begin, and when it has to end. */
interface Window {
  readonly opens: Cron;
  readonly closes: Cron;
}

export type Schedule =
  | { readonly kind: "every"; readonly intervalSec: number; readonly window: Window | undefined }
  | { readonly kind: "cron"; readonly line: Cron; readonly window: undefined }
  | { readonly kind: "changes"; readonly count: number; readonly window: undefined }
  | { readonly kind: "window"; readonly window: Window };

const UNIT_SEC: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
const INTERVAL_SEC_MAX = 366 * 86_400;
/** Of a schedule: a line of cron with lists for each of its fields has less. */
const LENGTH_MAX = 500;

const EVERY = /^every ([1-9]\d{0,8})([smhd])(?: (between .*))?$/;
const CHANGES = /^after ([1-9]\d{0,8}) changes?$/;
const WINDOW = /^between ([01]\d|2[0-3]):([0-5]\d) and ([01]\d|2[0-3]):([0-5]\d)(?: (\S+))?$/;
const CRON = /^((?:[\d*,/?LW#A-Za-z-]+ ){4}[\d*,/?LW#A-Za-z-]+)(?: (\S+))?$/;

const EXAMPLES =
  '"every 15m", "0 3 * * * Europe/Berlin", "after 100 changes" or "between 22:00 and 06:00 Europe/Berlin"';

/** Throws a ReplicationInvalidError that says what would be right. */
export function parseSchedule(value: unknown): Schedule {
  if (typeof value !== "string" || value.length > LENGTH_MAX) throw invalid(value, "");
  const every = EVERY.exec(value);
  if (every !== null) {
    const [, count, unit = "s", window] = every;
    const intervalSec = Number(count) * (UNIT_SEC[unit] ?? 1);
    const parsedWindow = window === undefined ? undefined : parseWindow(value, window);
    if (intervalSec > INTERVAL_SEC_MAX) throw invalid(value, ": at most 366d");
    return { kind: "every", intervalSec, window: parsedWindow };
  }
  const changes = CHANGES.exec(value);
  if (changes !== null) return { kind: "changes", count: Number(changes[1]), window: undefined };
  if (value.startsWith("between ")) return { kind: "window", window: parseWindow(value, value) };
  const cron = CRON.exec(value);
  if (cron === null) throw invalid(value, "");
  const [, pattern = "", timeZone = "UTC"] = cron;
  return { kind: "cron", line: openCron(value, pattern, timeZone), window: undefined };
}

function parseWindow(value: string, text: string): Window {
  const parsed = WINDOW.exec(text);
  if (parsed === null) throw invalid(value, "");
  const [, fromHour, fromMinute, toHour, toMinute, timeZone = "UTC"] = parsed;
  if (fromHour === toHour && fromMinute === toMinute) {
    throw invalid(value, ": the window has no length");
  }
  return {
    opens: openCron(value, `${fromMinute} ${fromHour} * * *`, timeZone),
    closes: openCron(value, `${toMinute} ${toHour} * * *`, timeZone),
  };
}

function openCron(value: string, pattern: string, timezone: string): Cron {
  try {
    new Intl.DateTimeFormat("en", { timeZone: timezone });
  } catch {
    throw invalid(value, `: ${shown(timezone)} is no time zone`);
  }
  let line: Cron;
  try {
    line = new Cron(pattern, { timezone, mode: "5-part", paused: true });
  } catch (error) {
    throw invalid(value, `: ${(error as Error).message}`);
  }
  // Any year will do: the next leap day is at most eight years away.
  if (line.nextRun(new Date(0)) === null) throw invalid(value, ": that day never comes");
  return line;
}

function invalid(value: unknown, why: string): ReplicationInvalidError {
  const reason = `\`schedule\` must be like ${EXAMPLES}, but is ${shown(value)}${why}`;
  return new ReplicationInvalidError(reason);
}

/** Of a replication that is valid; undefined: it has none. */
export function scheduleOf(
  replication: Pick<Replication, "schedule"> | undefined,
): Schedule | undefined {
  const text = replication?.schedule;
  return text === undefined ? undefined : parseSchedule(text);
}

/** When a job runs for the first time that is added now. */
export function firstRunSec(schedule: Schedule | undefined, nowSec: number): number {
  if (schedule?.kind === "cron") return after(schedule.line, nowSec);
  return intoWindow(schedule, nowSec);
}

/** When a job runs again that came to the end of the changes. What was missed while nothing ran is made up for once: it is due. */
export function nextRunSec(schedule: Schedule, startedSec: number, nowSec: number): number {
  switch (schedule.kind) {
    case "every":
      return intoWindow(schedule, Math.max(nowSec, startedSec + schedule.intervalSec));
    case "cron":
      return after(schedule.line, nowSec);
    case "changes":
    case "window":
      return intoWindow(schedule, nowSec);
  }
}

/** The time itself where the window is open, or there is none; else when it opens next. */
export function intoWindow(schedule: Schedule | undefined, timeSec: number): number {
  const window = schedule?.window;
  if (window === undefined || isOpen(window, timeSec)) return timeSec;
  return after(window.opens, timeSec);
}

/** When the run has to end that began then; undefined: there is no window, or an operator ran the job outside of it. */
export function windowEndSec(schedule: Schedule | undefined, startSec: number): number | undefined {
  const window = schedule?.window;
  return window && isOpen(window, startSec) ? after(window.closes, startSec) : undefined;
}

function isOpen({ opens, closes }: Window, timeSec: number): boolean {
  return after(closes, timeSec) < after(opens, timeSec);
}

function after(line: Cron, timeSec: number): number {
  const next = line.nextRun(new Date(timeSec * 1000));
  assert(next !== null, "A line of cron that came once comes again");
  return Math.floor(next.getTime() / 1000);
}
