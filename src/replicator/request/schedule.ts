/**
 * The field `schedule` of a replication (not in CouchDB): runs it at certain times instead of
 * continuously. Pure: the current time is a parameter. Times are seconds since the epoch.
 *
 *   every 15m                                  from one start to the next; units: s, m, h, d
 *   0 3 * * 1-5 Europe/Berlin                  a cron expression; UTC without a time zone
 *   after 100 changes                          when the source has this many pending changes
 *   between 22:00 and 06:00 Europe/Berlin      for continuous replications, or after `every`
 */
import { Cron } from "croner";
import { assert } from "../../base/index.ts";
import { ReplicationInvalidError, shown } from "./parse-fields.ts";
import type { Replication } from "./replication.ts";

/** A time window as cron expressions for its start and end. */
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
/** Maximum length of a schedule. Suffices for a cron expression with lists in all fields. */
const LENGTH_MAX = 500;

const EVERY = /^every ([1-9]\d{0,8})([smhd])(?: (between .*))?$/;
const CHANGES = /^after ([1-9]\d{0,8}) changes?$/;
const WINDOW = /^between ([01]\d|2[0-3]):([0-5]\d) and ([01]\d|2[0-3]):([0-5]\d)(?: (\S+))?$/;
const CRON = /^((?:[\d*,/?LW#A-Za-z-]+ ){4}[\d*,/?LW#A-Za-z-]+)(?: (\S+))?$/;

const EXAMPLES =
  '"every 15m", "0 3 * * * Europe/Berlin", "after 100 changes" or "between 22:00 and 06:00 Europe/Berlin"';

/** Parses a schedule. Throws a ReplicationInvalidError that lists the accepted forms. */
export function parseSchedule(value: unknown): Schedule {
  if (typeof value !== "string" || value.length > LENGTH_MAX) throw invalid(value, "");
  const every = EVERY.exec(value);
  if (every !== null) {
    const [, count, unit = "s", window] = every;
    const intervalSec = Number(count) * (UNIT_SEC[unit] ?? 1);
    const parsedWindow = window === undefined ? undefined : parseWindow(value, window);
    if (intervalSec > INTERVAL_SEC_MAX) throw invalid(value, ": the interval must be at most 366d");
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
    throw invalid(value, `: ${shown(timezone)} is not a time zone`);
  }
  let line: Cron;
  try {
    line = new Cron(pattern, { timezone, mode: "5-part", paused: true });
  } catch (error) {
    throw invalid(value, `: ${(error as Error).message}`);
  }
  // The search can start at any time, because the next February 29 is at most eight years later.
  if (line.nextRun(new Date(0)) === null) throw invalid(value, ": that day never occurs");
  return line;
}

function invalid(value: unknown, why: string): ReplicationInvalidError {
  const reason = `\`schedule\` must be like ${EXAMPLES}, but is ${shown(value)}${why}`;
  return new ReplicationInvalidError(reason);
}

/** Returns the schedule of a valid replication, if any. */
export function scheduleOf(
  replication: Pick<Replication, "schedule"> | undefined,
): Schedule | undefined {
  const text = replication?.schedule;
  return text === undefined ? undefined : parseSchedule(text);
}

/** Returns the time of the first run of a job that is added now. */
export function firstRunSec(schedule: Schedule | undefined, nowSec: number): number {
  if (schedule?.kind === "cron") return after(schedule.line, nowSec);
  return intoWindow(schedule, nowSec);
}

/** Returns when a job runs again. One run makes up for all missed runs. */
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

/**
 * Returns the given time if it is within the window or there is no window; otherwise the next start
 * of the window.
 */
export function intoWindow(schedule: Schedule | undefined, timeSec: number): number {
  const window = schedule?.window;
  if (window === undefined || isOpen(window, timeSec)) return timeSec;
  return after(window.opens, timeSec);
}

/**
 * Returns the time at which a run must end; undefined without a window, or if the run started
 * outside the window.
 */
export function windowEndSec(schedule: Schedule | undefined, startSec: number): number | undefined {
  const window = schedule?.window;
  return window && isOpen(window, startSec) ? after(window.closes, startSec) : undefined;
}

function isOpen({ opens, closes }: Window, timeSec: number): boolean {
  return after(closes, timeSec) < after(opens, timeSec);
}

function after(line: Cron, timeSec: number): number {
  const next = line.nextRun(new Date(timeSec * 1000));
  assert(next !== null, "A valid cron expression must have a next occurrence");
  return Math.floor(next.getTime() / 1000);
}
