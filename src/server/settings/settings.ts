/**
 * A setting: its place in the configuration, and how its text is read. Layers see settings as objects whose members are
 * read at each use (`liveSettings`), so that a change takes effect at once.
 */
import { OperationalError } from "../../base/index.ts";

/** A setting that cannot be used; the message names it, its value and what would be right. */
export class ConfigError extends OperationalError {
  override readonly name = "ConfigError";

  constructor(message: string, options?: ErrorOptions) {
    super("CONFIG_INVALID", message, {}, options);
  }
}

export interface Setting<T> {
  readonly section: string;
  readonly key: string;
  /** Of a key that is not set, or set to nothing: the default. Throws a ConfigError for a text that means nothing. */
  readonly read: (text: string | undefined) => T;
  /** The text of the default, where the default itself is not what a file would say. */
  readonly defaultText?: string;
  /** CouchDB's former place of the setting, which counts where this one is not set. */
  readonly former?: Setting<T>;
}

/** Where texts are found. */
export interface SettingTexts {
  get(section: string, key: string): string | undefined;
}

export function integerSetting(
  section: string,
  key: string,
  fallback: number,
  { min = 1, max = Number.MAX_SAFE_INTEGER }: { readonly min?: number; readonly max?: number } = {},
): Setting<number> {
  return setting(section, key, fallback, (text) => {
    const number = Number(text);
    if (/^\d+$/.test(text) && number >= min && number <= max) return number;
    const bound = max === Number.MAX_SAFE_INTEGER ? `at least ${min}` : `${min} to ${max}`;
    return `an integer of ${bound}`;
  });
}

/** A number above 0 and at most 1. */
export function coefficientSetting(
  section: string,
  key: string,
  fallback: number,
): Setting<number> {
  return setting(section, key, fallback, (text) => {
    const number = Number(text);
    return number > 0 && number <= 1 ? number : "a number above 0 and at most 1";
  });
}

export function booleanSetting(section: string, key: string, fallback: boolean): Setting<boolean> {
  return setting(section, key, fallback, (text) => {
    if (text === "true" || text === "false") return text === "true";
    return "true or false";
  });
}

export function textSetting<T extends string | undefined>(
  section: string,
  key: string,
  fallback: T,
): Setting<string | T> {
  return { section, key, read: (text) => (text === undefined || text === "" ? fallback : text) };
}

export function choiceSetting<const T extends string>(
  section: string,
  key: string,
  fallback: T,
  choices: readonly T[],
): Setting<T> {
  return {
    section,
    key,
    read(text) {
      if (text === undefined || text === "") return fallback;
      const found = choices.find((choice) => choice === text);
      if (found !== undefined) return found;
      throw unusable({ section, key }, text, `one of ${choices.join(", ")}`);
    },
  };
}

/** Texts with commas between them. */
export function listSetting(
  section: string,
  key: string,
  fallback: readonly string[],
): Setting<readonly string[]> {
  return {
    section,
    key,
    read(text) {
      if (text === undefined) return fallback;
      return text
        .split(",")
        .map((item) => item.trim())
        .filter((item) => item !== "");
    },
  };
}

/** `[section] key = text: expected …` */
export function unusable(
  { section, key }: { readonly section: string; readonly key: string },
  text: string,
  expected: string,
): ConfigError {
  return new ConfigError(`[${section}] ${key} = ${text}: expected ${expected}`);
}

export type SettingsOf<T> = { readonly [Name in keyof T]: Setting<T[Name]> };

/** An object whose members read the configuration when they are read. Copying it takes today's values. */
export function liveSettings<T extends object>(texts: SettingTexts, settings: SettingsOf<T>): T {
  const live = {};
  for (const [name, setting] of Object.entries<Setting<unknown>>(settings)) {
    Object.defineProperty(live, name, { enumerable: true, get: () => readSetting(texts, setting) });
  }
  return live as T;
}

export function readSetting<T>(texts: SettingTexts, { section, key, read, former }: Setting<T>): T {
  const text = texts.get(section, key);
  return text === undefined && former !== undefined ? readSetting(texts, former) : read(text);
}

/**
 * Settings that moved to other sections in CouchDB and are still read in their former ones. `settingsIn` makes them for
 * the sections that it is told.
 */
export function movedSettings<Sections extends object, T>(
  settingsIn: (sections: Sections) => SettingsOf<T>,
  { now, formerly }: { readonly now: Sections; readonly formerly: Sections },
): SettingsOf<T> {
  const former: Readonly<Record<string, Setting<unknown>>> = settingsIn(formerly);
  const moved = Object.entries<Setting<unknown>>(settingsIn(now)).map(([name, setting]) => {
    const before = former[name];
    const isMoved = before !== undefined && before.section !== setting.section;
    return [name, isMoved ? { ...setting, former: before } : setting] as const;
  });
  return Object.fromEntries(moved) as SettingsOf<T>;
}

/** `parse` answers the value, or says in words what it expected. */
function setting<T extends number | boolean>(
  section: string,
  key: string,
  fallback: T,
  parse: (text: string) => T | string,
): Setting<T> {
  return {
    section,
    key,
    read(text) {
      if (text === undefined || text === "") return fallback;
      const value = parse(text);
      if (typeof value === "string") throw unusable({ section, key }, text, value);
      return value;
    },
  };
}
