/**
 * The table of settings, each with its place in the configuration, default, range and meaning. The
 * parser, the displayed defaults, `docs/configuration.md` and the dashboard are derived from it.
 * Layers see settings as objects whose members are read on each use (`liveSettings`), so that a
 * change takes effect immediately.
 */
import { forbidCopies, OperationalError } from "../../base/index.ts";

/**
 * Thrown for an invalid setting. The message contains the name, the value and the accepted values.
 */
export class ConfigError extends OperationalError {
  override readonly name = "ConfigError";

  constructor(message: string, options?: ErrorOptions) {
    super("CONFIG_INVALID", message, {}, options);
  }
}

/** A place in the configuration. */
export interface Place {
  readonly section: string;
  readonly key: string;
}

/** Descriptive facts about a setting. */
export interface SettingFacts {
  readonly meaning: string;
  readonly unit?: string;
  /** Description of the default, shown instead of a text that is empty or not informative. */
  readonly defaultWords?: string;
  /** Description of valid values. */
  readonly values?: string;
  /** Whether a change takes effect only at the next start of the node. */
  readonly waitsForStart?: boolean;
}

export interface Setting<T> extends Place, SettingFacts {
  /**
   * Parses the text of the setting. Returns the default for a key that is unset or empty. Throws a
   * ConfigError for an invalid text.
   */
  readonly read: (text: string | undefined) => T;
  /** The default as text in a file, if the text cannot be derived from the value. */
  readonly defaultText?: string;
  /** CouchDB's former place of the setting, used if the setting is not set at its current place. */
  readonly former?: Setting<T>;
}

/** Supplies the texts of settings. */
export interface SettingTexts {
  get(section: string, key: string): string | undefined;
}

/** Parsed value, or a description of what was expected. */
export type Parsed<T> = { readonly value: T } | { readonly expected: string; readonly at?: string };

interface Parser<T> extends SettingFacts {
  readonly default: T;
  readonly defaultText?: string;
  /** Called with an empty text only if `isEmptyText` is set. */
  readonly parse: (text: string) => Parsed<T>;
  /** Whether an empty text is a value rather than the default. */
  readonly isEmptyText?: boolean;
}

interface IntegerFacts extends SettingFacts {
  /** Minimum. Default: 1. */
  readonly min?: number;
  readonly max?: number;
}

interface SectionFacts extends Pick<SettingFacts, "waitsForStart"> {
  /** CouchDB's former section of these settings, which is also read. */
  readonly former?: string;
}

/** Returns builders for the settings of one section. */
export function sectionOf(section: string, { former, ...common }: SectionFacts = {}) {
  function parsed<T>(key: string, parser: Parser<T>): Setting<T> {
    const setting = parsedSetting(section, key, { ...common, ...parser });
    return former === undefined
      ? setting
      : { ...setting, former: parsedSetting(former, key, parser) };
  }
  return {
    parsed,
    integer(key: string, fallback: number, facts: IntegerFacts): Setting<number> {
      return parsed(key, { ...facts, default: fallback, ...integerValues(facts) });
    },
    /** A setting with a positive integer, or CouchDB's `infinity`. */
    limit(key: string, fallback: number, facts: SettingFacts): Setting<number> {
      const { parse, values } = integerValues({});
      return parsed(key, {
        ...facts,
        default: fallback,
        values: `${values}, infinity`,
        parse: (text) => (text === "infinity" ? { value: Number.POSITIVE_INFINITY } : parse(text)),
      });
    },
    coefficient(key: string, fallback: number, facts: SettingFacts): Setting<number> {
      return parsed(key, {
        ...facts,
        default: fallback,
        values: "above 0, at most 1",
        parse(text) {
          const value = Number(text);
          const isPart = value > 0 && value <= 1;
          return isPart ? { value } : { expected: "a number above 0 and at most 1" };
        },
      });
    },
    flag(key: string, fallback: boolean, facts: SettingFacts): Setting<boolean> {
      return parsed(key, {
        ...facts,
        default: fallback,
        values: "true, false",
        parse: (text) =>
          text === "true" || text === "false"
            ? { value: text === "true" }
            : { expected: "true or false" },
      });
    },
    text<T extends string | undefined>(
      key: string,
      fallback: T,
      facts: SettingFacts,
    ): Setting<string | T> {
      return parsed<string | T>(key, {
        ...facts,
        default: fallback,
        parse: (value) => ({ value }),
      });
    },
    choice<const T extends string>(
      key: string,
      fallback: T,
      choices: readonly T[],
      facts: SettingFacts,
    ): Setting<T> {
      return parsed<T>(key, {
        values: choices.map((choice) => `\`${choice}\``).join(", "),
        ...facts,
        default: fallback,
        parse(text) {
          const value = choices.find((choice) => choice === text);
          return value === undefined ? { expected: `one of ${choices.join(", ")}` } : { value };
        },
      });
    },
    /** A setting with comma-separated texts. */
    list(
      key: string,
      fallback: readonly string[],
      facts: SettingFacts,
    ): Setting<readonly string[]> {
      return parsed<readonly string[]>(key, {
        ...facts,
        default: fallback,
        isEmptyText: true,
        parse: (text) => ({ value: listed(text) }),
      });
    },
    /** A setting with at least one of the choices, comma-separated. */
    someOf<const T extends string>(
      key: string,
      fallback: readonly T[],
      choices: readonly T[],
      facts: SettingFacts,
    ): Setting<readonly T[]> {
      return parsed<readonly T[]>(key, {
        values: choices.map((choice) => `\`${choice}\``).join(", "),
        ...facts,
        default: fallback,
        parse(text) {
          const names = listed(text);
          const isKnown = names.every((name) => (choices as readonly string[]).includes(name));
          return isKnown && names.length > 0
            ? { value: names as readonly T[] }
            : { expected: `a list of ${choices.join(", ")}` };
        },
      });
    },
  };
}

/** Returns the items of a comma-separated text. */
export function listed(text: string): readonly string[] {
  return text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

/** Returns an error of the form `[section] key = text: expected …`. */
export function unusable({ section, key }: Place, text: string, expected: string): ConfigError {
  return new ConfigError(`[${section}] ${key} = ${text}: expected ${expected}`);
}

export type SettingsOf<T> = { readonly [Name in keyof T]: Setting<T[Name]> };

/** The values of a table of settings. */
export type Values<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends Setting<infer T> ? T : never;
};

/**
 * Returns an object whose members read the configuration on each access. Copying the object throws;
 * `valuesNow` returns a copy of the current values.
 */
export function liveSettings<T extends object>(texts: SettingTexts, settings: SettingsOf<T>): T {
  const live = {};
  for (const [name, setting] of Object.entries<Setting<unknown>>(settings)) {
    Object.defineProperty(live, name, { enumerable: true, get: () => readSetting(texts, setting) });
  }
  return forbidCopies(live) as T;
}

export function readSetting<T>(texts: SettingTexts, { section, key, read, former }: Setting<T>): T {
  const text = texts.get(section, key);
  return text === undefined && former !== undefined ? readSetting(texts, former) : read(text);
}

function parsedSetting<T>(section: string, key: string, parser: Parser<T>): Setting<T> {
  const { default: fallback, parse, isEmptyText = false, ...facts } = parser;
  return {
    section,
    key,
    ...facts,
    read(text) {
      if (text === undefined || (text === "" && !isEmptyText)) return fallback;
      const parsed = parse(text);
      if ("value" in parsed) return parsed.value;
      throw unusable({ section, key }, parsed.at ?? text, parsed.expected);
    },
  };
}

function integerValues({ min = 1, max = Number.MAX_SAFE_INTEGER }: Omit<IntegerFacts, "meaning">) {
  const hasMax = max < Number.MAX_SAFE_INTEGER;
  return {
    values: hasMax ? `${min} to ${max}` : `${min} or more`,
    parse(text: string): Parsed<number> {
      const value = Number(text);
      if (/^\d+$/.test(text) && value >= min && value <= max) return { value };
      return { expected: `an integer of ${hasMax ? `${min} to ${max}` : `at least ${min}`}` };
    },
  };
}
