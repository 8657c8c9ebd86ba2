/** Settings of `[log]`: how much is logged, which can change while the node runs, and in which form. */
import type { IniSections } from "./ini.ts";
import { choiceSetting, type SettingTexts } from "./settings.ts";

export interface LogSettings {
  /** Read at each use. */
  readonly level: "debug" | "info" | "warn" | "error" | "silent";
  readonly format: "json" | "pretty";
}

/** CouchDB's names of levels, and what they are here. */
const LEVELS = {
  debug: "debug",
  info: "info",
  notice: "info",
  warn: "warn",
  warning: "warn",
  error: "error",
  err: "error",
  critical: "error",
  crit: "error",
  alert: "error",
  emergency: "error",
  emerg: "error",
  none: "silent",
  silent: "silent",
} as const;

const LEVEL = choiceSetting("log", "level", "info", Object.keys(LEVELS) as (keyof typeof LEVELS)[]);
const FORMAT = choiceSetting("log", "format", "json", ["json", "pretty"]);

export const LOG_SETTINGS = [LEVEL, FORMAT];

export function logSettings(texts: SettingTexts): LogSettings {
  return {
    get level() {
      return LEVELS[LEVEL.read(texts.get(LEVEL.section, LEVEL.key))];
    },
    format: FORMAT.read(texts.get(FORMAT.section, FORMAT.key)),
  };
}

/** What the environment says: it counts more than a configuration file, and less than what was set while a node ran. */
export function environmentLog(
  environment: Readonly<Record<string, string | undefined>>,
): IniSections {
  const level = environment.TANDEM_LOG_LEVEL;
  const format = environment.TANDEM_LOG_FORMAT ?? environment.LOG_FORMAT;
  const pairs = new Map<string, string>();
  if (level !== undefined) pairs.set(LEVEL.key, level);
  if (format !== undefined) pairs.set(FORMAT.key, format);
  return new Map([["log", pairs]]);
}
