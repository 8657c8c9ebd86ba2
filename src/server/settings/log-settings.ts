/** `[log]`: the level, which can change at runtime, and the format. */
import type { IniSections } from "./ini.ts";
import { readSetting, type SettingTexts, sectionOf } from "./settings.ts";

export interface LogSettings {
  /** Level, which can change at any time. */
  readonly level: "debug" | "info" | "warn" | "error" | "silent";
  /** `auto`: depends on whether the log goes to a terminal. */
  readonly format: "auto" | "json" | "pretty";
}

/** CouchDB's level names and their equivalents here. */
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

const { choice } = sectionOf("log");
const LEVEL_NAMES = Object.keys(LEVELS) as (keyof typeof LEVELS)[];
const LEVEL = choice("level", "info", LEVEL_NAMES, { meaning: "minimum level of log lines" });
const FORMAT = choice("format", "auto", ["auto", "json", "pretty"], {
  meaning: "format of the log",
});

export const LOG_SETTINGS = { level: LEVEL, format: FORMAT };

export function logSettings(texts: SettingTexts): LogSettings {
  return {
    get level() {
      return LEVELS[readSetting(texts, LEVEL)];
    },
    format: readSetting(texts, FORMAT),
  };
}

/**
 * Returns the log settings from the environment. They take precedence over configuration files, but
 * not over runtime changes.
 */
export function environmentLog(
  environment: Readonly<Record<string, string | undefined>>,
): readonly { readonly variable: string; readonly sections: IniSections }[] {
  const format = environment.TANDEM_LOG_FORMAT === undefined ? "LOG_FORMAT" : "TANDEM_LOG_FORMAT";
  return [
    { variable: "TANDEM_LOG_LEVEL", key: LEVEL.key },
    { variable: format, key: FORMAT.key },
  ].flatMap(({ variable, key }) => {
    const text = environment[variable];
    return text === undefined
      ? []
      : [{ variable, sections: new Map([["log", new Map([[key, text]])]]) }];
  });
}
