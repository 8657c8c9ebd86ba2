/** Writes announced events to standard error: a line each, as JSON or for people. */
import { type DestinationStream, pino, stdTimeFunctions } from "pino";
import { prettyFactory } from "pino-pretty";
import { type EventName, escapeControls, type Trace } from "../../base/index.ts";
import { RepeatedLines } from "./repeated-lines.ts";

/** Events that tell of trouble; all others are `info`, and those of single requests and of figures `debug`. */
const WARNINGS =
  /(failed|abandoned|crashed|expired|unavailable|refused|disk-full|dropped|ignored)$/;
const DETAILS =
  /^(api\.answered|counts\.told|http\.answered|http\.retry|kv\.(available|retry)|replication\.reported)/;

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";
export type LogFormat = "json" | "pretty";

export interface LogOptions {
  /** Read for each event, so that it can change. */
  readonly level: () => LogLevel;
  readonly format: LogFormat;
  /** Milliseconds since the epoch. */
  readonly nowMs?: () => number;
  /** Standard error if absent. */
  readonly destination?: DestinationStream;
}

/** Trouble that repeats is one line a minute, with the number of lines that were left out. */
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
      // Setting it makes pino's functions again.
      if (log.level !== current) log.level = current;
      const atMs = nowMs();
      for (const line of repeated.due(atMs)) log.warn(line.fields, line.name);
      if (WARNINGS.test(name)) {
        const line = repeated.admit(name, fields, atMs);
        if (line !== undefined) log.warn(line, name);
      } else if (DETAILS.test(name)) log.debug(fields, name);
      else log.info(fields, name);
    },
  };
}

/** Colours of pino-pretty. It prints values as JSON, so no value contains one. */
const COLOUR = new RegExp(`(${String.fromCharCode(0x1b)}\\[\\d+m)`);

/** Values come from others, and logs are read on terminals. */
function escapedStream(written: DestinationStream): DestinationStream {
  const escaped = (part: string, index: number): string =>
    index % 2 === 0 ? escapeControls(part) : part;
  return { write: (line) => written.write(line.split(COLOUR).map(escaped).join("")) };
}

/** Without colours where nobody looks at a terminal. */
function prettyStream(written: DestinationStream, colorize: boolean): DestinationStream {
  const prettify = prettyFactory({
    messageKey: "event",
    colorize,
    singleLine: true,
    // The member `error` is a word here, no object.
    errorLikeObjectKeys: [],
    translateTime: "UTC:yyyy-mm-dd'T'HH:MM:ss.l'Z'",
  });
  return { write: (line) => written.write(prettify(line)) };
}
