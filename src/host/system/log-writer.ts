/** Writes events to standard error, one line each, as JSON or in readable form. */
import { type DestinationStream, pino, stdTimeFunctions } from "pino";
import { prettyFactory } from "pino-pretty";
import { type EventName, type Events, escapeControls, type Trace } from "../../base/index.ts";
import { RepeatedLines } from "./repeated-lines.ts";

/**
 * Names of the events that are logged as warnings. Those in `DETAILS` are logged as `debug`: single
 * requests, statistics, and the routine of healthy jobs. All other events are logged as `info`.
 */
const WARNINGS =
  /(failed|abandoned|crashed|expired|unavailable|refused|disk-full|dropped|ignored)$/;
const DETAILS: ReadonlySet<EventName> = new Set<EventName>([
  "api.answered",
  "counts.reported",
  "http.answered",
  "http.retry",
  "kv.available",
  "kv.retry",
  "replication.accepted",
  "replication.checkpoint",
  "replication.copied",
  "replication.parked",
  "replication.reported",
  "replication.source-watched",
  "replication.woken",
]);

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";
export type LogFormat = "json" | "pretty";

export interface LogOptions {
  /** Called for each event, so that the level can change. */
  readonly level: () => LogLevel;
  readonly format: LogFormat;
  /** Milliseconds since the epoch. */
  readonly nowMs?: () => number;
  /** Standard error by default. */
  readonly destination?: DestinationStream;
}

/**
 * Returns the format for a setting. With `auto`, the log is readable on a terminal and JSON
 * elsewhere, because programs read files and pipes.
 */
export function logFormat(setting: LogFormat | "auto", isTerminal: boolean): LogFormat {
  if (setting !== "auto") return setting;
  return isTerminal ? "pretty" : "json";
}

/**
 * Returns a trace that logs events. Writes a repeated warning once a minute, with the number of
 * suppressed lines.
 */
export function createLogWriter({
  level,
  format,
  nowMs = Date.now,
  destination,
}: LogOptions): Trace {
  const options = {
    level: level(),
    base: null,
    messageKey: "event",
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  const written = escapedStream(destination ?? pino.destination({ fd: 2, sync: true }));
  const isTerminal = destination === undefined && process.stderr.isTTY === true;
  const log = pino(options, format === "pretty" ? prettyStream(written, isTerminal) : written);
  const repeated = new RepeatedLines();
  return {
    event: (name: EventName, fields: object) => {
      const current = level();
      // Sets the level only on a change, because this re-creates pino's functions.
      if (log.level !== current) log.level = current;
      const atMs = nowMs();
      for (const line of repeated.due(atMs)) log.warn(line.fields, line.name);
      if (WARNINGS.test(name)) {
        const line = repeated.admit(name, fields, atMs);
        if (line !== undefined) log.warn(line, name);
      } else if (DETAILS.has(name) || isRoutine(name, fields)) log.debug(fields, name);
      else log.info(fields, name);
    },
  };
}

/**
 * Whether the event is routine: a run starts after a successful run, or a run ends and its job
 * stays pending or parked.
 */
function isRoutine(name: EventName, fields: object): boolean {
  if (name === "replication.started") {
    return (fields as Events["replication.started"]).hasSucceeded;
  }
  if (name !== "replication.ended") return false;
  const { state } = fields as Events["replication.ended"];
  return state === "pending" || state === "parked";
}

/** Colour sequences of pino-pretty. Values are printed as JSON, so they cannot contain any. */
const COLOUR = new RegExp(`(${String.fromCharCode(0x1b)}\\[\\d+m)`);

/** Escapes control characters, because values are untrusted and logs are read in terminals. */
function escapedStream(written: DestinationStream): DestinationStream {
  const escaped = (part: string, index: number): string =>
    index % 2 === 0 ? escapeControls(part) : part;
  return { write: (line) => written.write(line.split(COLOUR).map(escaped).join("")) };
}

/** Returns a stream that formats the log for people, with colours if `colorize` is set. */
function prettyStream(written: DestinationStream, colorize: boolean): DestinationStream {
  const prettify = prettyFactory({
    messageKey: "event",
    colorize,
    singleLine: true,
    // Log events contain errors as strings, not as objects.
    errorLikeObjectKeys: [],
    translateTime: "UTC:yyyy-mm-dd'T'HH:MM:ss.l'Z'",
  });
  return { write: (line) => written.write(prettify(line)) };
}
