/** Writes announced events as JSON lines to standard error. */
import { type DestinationStream, pino } from "pino";
import type { EventName, Trace } from "../../base/index.ts";

/** Events that tell of trouble; all others are `info`, and those of single requests and of figures `debug`. */
const WARNINGS = /(failed|abandoned|crashed|expired|unavailable|refused|disk-full)$/;
const DETAILS =
  /^(api\.answered|counts\.told|http\.answered|http\.retry|kv\.(available|retry)|replication\.reported)/;

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

export function createLogWriter(level: LogLevel, destination?: DestinationStream): Trace {
  const log = pino({ level, base: null, messageKey: "event" }, destination ?? pino.destination(2));
  return {
    event: (name: EventName, fields: object) => {
      if (WARNINGS.test(name)) log.warn(fields, name);
      else if (DETAILS.test(name)) log.debug(fields, name);
      else log.info(fields, name);
    },
  };
}
