/**
 * The configuration of a node at runtime, with CouchDB's sections and keys. Values are read on each
 * use, and changed one at a time.
 *
 * Values set at runtime are in the last file, `local.ini` in the data folder, and take precedence
 * over the other files. Deleting such a value restores the value of the other files (CouchDB's
 * `config`). Code that only reads uses a live view (`liveSettings`). Code that must act on a change
 * watches a section. Secrets in the local file are sealed.
 */
import { randomUUID } from "node:crypto";
import {
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { OperationalError, type Seal } from "../../base/index.ts";
import { isCurrentText, openText, sealText } from "../secrets/sealed-forms.ts";
import { type IniSections, parseIni, withIniValue } from "./ini.ts";
import { isSecretSetting } from "./secret-settings.ts";
import { ConfigError, type Setting, type SettingTexts } from "./settings.ts";

export interface ConfigurationChange {
  readonly section: string;
  readonly key: string;
  /** New text of the setting; undefined if the setting was removed. */
  readonly value: string | undefined;
}

export type ConfigurationListener = (change: ConfigurationChange) => void;

export interface ConfigurationParts {
  /** Settings from files and the environment; later sources take precedence. */
  readonly given: readonly IniSections[];
  /** Reads the `given` sources again. Default: the sources do not change. */
  readonly readGiven?: () => readonly IniSections[];
  /** Names of the `given` sources in messages, in the same order; undefined for unnamed ones. */
  readonly givenNames?: readonly (string | undefined)[];
  /** File that stores changes, if any. It need not exist yet. */
  readonly localFile: string | undefined;
  /** Settings whose values are validated. */
  readonly settings: readonly Setting<unknown>[];
  /** Seals secrets in the local file. Default: stored unsealed. */
  readonly seal?: Seal;
}

type Sections = Map<string, Map<string, string>>;

export class Configuration implements SettingTexts {
  readonly #parts: ConfigurationParts;
  readonly #settings: ReadonlyMap<string, Setting<unknown>>;
  readonly #listeners = new Map<string, Set<ConfigurationListener>>();
  readonly #listenersOfAll = new Set<ConfigurationListener>();
  #given: readonly IniSections[];
  #values: Sections;
  /** Modification time of the local file when it was last read. */
  #modifiedAtMs: number | undefined;

  /** Throws a ConfigError if a file is unreadable, or a known setting has an invalid value. */
  constructor(parts: ConfigurationParts) {
    this.#parts = parts;
    this.#given = parts.given;
    this.#settings = new Map(
      parts.settings
        .flatMap((known) => (known.former === undefined ? [known] : [known, known.former]))
        .map((known) => [nameOf(known), known]),
    );
    this.#values = this.#load(this.#given);
  }

  get(section: string, key: string): string | undefined {
    return this.#values.get(section)?.get(key);
  }

  section(section: string): ReadonlyMap<string, string> {
    return this.#values.get(section) ?? new Map();
  }

  /** Returns all values by section and key, sorted by section name. */
  sections(): IniSections {
    return new Map([...this.#values].sort(([left], [right]) => (left < right ? -1 : 1)));
  }

  /** The settings that this version uses, including their former names. */
  get known(): readonly Setting<unknown>[] {
    return [...this.#settings.values()];
  }

  /** The settings that this version uses, with their current names only. */
  get table(): readonly Setting<unknown>[] {
    return this.#parts.settings;
  }

  /**
   * Sets a value. The value is in effect when this returns, and is saved to disk unless `persist`
   * is false. Throws a ConfigError if the text is invalid for the setting, and an error with the
   * code CONFIG_NOT_SAVED if the file cannot be written; in both cases nothing is changed.
   */
  set(section: string, key: string, text: string, { persist = true } = {}): void {
    checkWritable(section, key, text);
    this.#settings.get(nameOf({ section, key }))?.read(text);
    if (persist) this.#write(section, key, text);
    this.#change(section, key, text);
  }

  /** Removes the value set at runtime, so that the value of another source applies again. */
  delete(section: string, key: string, { persist = true } = {}): void {
    if (persist) this.#write(section, key, undefined);
    const given = this.#given.map((sections) => sections.get(section)?.get(key));
    this.#change(
      section,
      key,
      given.findLast((text) => text !== undefined),
    );
  }

  /**
   * Reads all files again. Returns the changes. If a file is unusable, throws a ConfigError and
   * changes nothing.
   */
  reload(): readonly ConfigurationChange[] {
    const before = this.#values;
    const given = this.#parts.readGiven?.() ?? this.#given;
    this.#values = this.#load(given);
    this.#given = given;
    const changes = keysOf(before, this.#values)
      .map(({ section, key }) => ({ section, key, value: this.get(section, key) }))
      .filter(({ section, key, value }) => before.get(section)?.get(key) !== value);
    for (const change of changes) this.#announce(change);
    return changes;
  }

  /**
   * Marks the local file as changed, so that the other processes of the data folder reload their
   * files too. Throws an error with the code CONFIG_NOT_SAVED if the file cannot be written.
   */
  markChanged(): void {
    const { localFile } = this.#parts;
    if (localFile === undefined) return;
    try {
      mkdirSync(dirname(localFile), { recursive: true });
      writeFileSync(localFile, "", { mode: 0o600, flag: "a" });
      const now = new Date();
      utimesSync(localFile, now, now);
      this.#modifiedAtMs = this.#fileTime();
    } catch (error) {
      const reason = `${localFile}: ${(error as Error).message}`;
      throw new OperationalError("CONFIG_NOT_SAVED", NOT_MARKED, { reason }, { cause: error });
    }
  }

  /**
   * Reloads the files if another process has changed the local file. Returns whether they were
   * reloaded.
   */
  reloadIfChanged(): boolean {
    if (this.#fileTime() === this.#modifiedAtMs) return false;
    this.reload();
    return true;
  }

  /**
   * Reseals secrets in the local file that are unsealed or sealed with an outdated key. Returns the
   * number of resealed secrets.
   */
  renewSecrets(): number {
    const { localFile, seal } = this.#parts;
    if (localFile === undefined || seal === undefined || this.#fileTime() === undefined) return 0;
    let renewedCount = 0;
    for (const [section, pairs] of readIni(localFile)) {
      for (const [key, text] of pairs) {
        if (!isSecretSetting(section, key) || isCurrentText(seal, text)) continue;
        this.#write(section, key, openText(seal, text, placeOf(section, key)));
        renewedCount++;
      }
    }
    return renewedCount;
  }

  /** Calls `listener` after each change in the section, until the returned function is called. */
  watch(section: string, listener: ConfigurationListener): () => void {
    const listeners = this.#listeners.get(section) ?? new Set();
    this.#listeners.set(section, listeners);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  /** Calls `listener` after each change, until the returned function is called. */
  watchAll(listener: ConfigurationListener): () => void {
    this.#listenersOfAll.add(listener);
    return () => this.#listenersOfAll.delete(listener);
  }

  #load(given: readonly IniSections[]): Sections {
    const { localFile } = this.#parts;
    const modifiedAtMs = this.#fileTime();
    const hasLocal = localFile !== undefined && modifiedAtMs !== undefined;
    const local = hasLocal ? [this.#readLocal(localFile)] : [];
    const values: Sections = new Map();
    for (const sections of [...given, ...local]) {
      for (const [name, pairs] of sections) {
        values.set(name, new Map([...(values.get(name) ?? []), ...pairs]));
      }
    }
    for (const known of this.#settings.values()) {
      checkText(known, values.get(known.section)?.get(known.key), () =>
        this.#originOf(known, given, local[0]),
      );
    }
    this.#modifiedAtMs = modifiedAtMs;
    return values;
  }

  /** Returns the name of the source of the value in effect. */
  #originOf(
    { section, key }: Setting<unknown>,
    given: readonly IniSections[],
    local: IniSections | undefined,
  ) {
    const { givenNames = [], localFile } = this.#parts;
    const isThere = (sections?: IniSections): boolean => sections?.get(section)?.has(key) === true;
    return isThere(local) ? localFile : givenNames[given.findLastIndex(isThere)];
  }

  #readLocal(localFile: string): IniSections {
    const sections = readIni(localFile);
    const { seal } = this.#parts;
    if (seal === undefined) return sections;
    try {
      return opened(sections, seal);
    } catch (error) {
      throw new ConfigError(`config file ${localFile}: ${(error as Error).message}`, {
        cause: error,
      });
    }
  }

  #fileTime(): number | undefined {
    const { localFile } = this.#parts;
    if (localFile === undefined) return undefined;
    return statSync(localFile, { throwIfNoEntry: false })?.mtimeMs;
  }

  /**
   * Sets or removes one pair in the local file, and replaces the file atomically. Changes that
   * another process made to the file are read first.
   */
  #write(section: string, key: string, text: string | undefined): void {
    const { localFile } = this.#parts;
    if (localFile === undefined) return;
    const draft = `${localFile}.${randomUUID()}`;
    try {
      this.reloadIfChanged();
      const before = this.#fileTime() === undefined ? "" : readFileSync(localFile, "utf8");
      const after = withIniValue(before, { section, key }, this.#stored(section, key, text));
      mkdirSync(dirname(localFile), { recursive: true });
      writeFileSync(draft, after, { mode: 0o600 });
      renameSync(draft, localFile);
      this.#modifiedAtMs = this.#fileTime();
    } catch (error) {
      removeDraft(draft);
      // The error is in a file that another process wrote, so it is reported unchanged.
      if (error instanceof ConfigError) throw error;
      const reason = `${localFile}: ${(error as Error).message}`;
      if (!isSystemError(error)) throw new ConfigError(reason, { cause: error });
      throw new OperationalError("CONFIG_NOT_SAVED", NOT_SAVED, { reason }, { cause: error });
    }
  }

  #stored(section: string, key: string, text: string | undefined): string | undefined {
    const { seal } = this.#parts;
    const isSealed = seal !== undefined && isSecretSetting(section, key);
    return isSealed && text ? sealText(seal, text, placeOf(section, key)) : text;
  }

  #change(section: string, key: string, value: string | undefined): void {
    const pairs = this.#values.get(section) ?? new Map<string, string>();
    if (value === undefined) pairs.delete(key);
    else pairs.set(key, value);
    if (pairs.size === 0) this.#values.delete(section);
    else this.#values.set(section, pairs);
    this.#announce({ section, key, value });
  }

  #announce(change: ConfigurationChange): void {
    for (const listener of this.#listeners.get(change.section) ?? []) listener(change);
    for (const listener of this.#listenersOfAll) listener(change);
  }
}

/** Checks the text of a setting. Throws a ConfigError that also names the source of the text. */
function checkText(
  { read }: Setting<unknown>,
  text: string | undefined,
  originOf: () => string | undefined,
): void {
  try {
    read(text);
  } catch (error) {
    const origin = originOf();
    if (!(error instanceof ConfigError) || origin === undefined) throw error;
    throw new ConfigError(`${error.message} (${origin})`, { cause: error });
  }
}

const NOT_MARKED = "The files were reloaded in this process only; others could not be notified";
const NOT_SAVED = "The setting could not be saved and is unchanged";

/**
 * Whether the error comes from the system, such as a full disk or a read-only folder. The setting
 * is then valid and can be saved later.
 */
function isSystemError(error: unknown): boolean {
  return typeof (error as NodeJS.ErrnoException).syscall === "string";
}

/**
 * Removes the temporary file after an error, because it contains settings. If the removal fails,
 * only the first error is reported.
 */
function removeDraft(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {
    // The folder is not writable, so it contains no temporary file.
  }
}

/** Returns the sections with unsealed secrets. */
function opened(sections: IniSections, seal: Seal): IniSections {
  const open = (section: string, key: string, text: string): string =>
    isSecretSetting(section, key) ? openText(seal, text, placeOf(section, key)) : text;
  return new Map(
    [...sections].map(([section, pairs]) => [
      section,
      new Map([...pairs].map(([key, text]) => [key, open(section, key, text)])),
    ]),
  );
}

/** Returns the associated data that binds a sealed value to its setting. */
function placeOf(section: string, key: string): string {
  return JSON.stringify(["setting", section, key]);
}

export function readIni(file: string): IniSections {
  try {
    return parseIni(decodeText(readFileSync(file)));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") {
      throw new ConfigError(`config file ${file}: no such file`, { cause: error });
    }
    throw new ConfigError(`config file ${file}: ${(error as Error).message}`, { cause: error });
  }
}

/** Decodes UTF-8. Rejects files in another encoding, because passwords would be misread. */
function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new Error("the text is not UTF-8", { cause: error });
  }
}

/**
 * Returns the default as the text of a setting, or `undefined` if no text expresses the default.
 */
export function settingDefault({ read, defaultText }: Setting<unknown>): string | undefined {
  return defaultText ?? textOf(read(undefined));
}

/**
 * Returns the value as the text of a setting, or `undefined` if there is no value or no text
 * expresses it.
 */
function textOf(value: unknown): string | undefined {
  if (Array.isArray(value) && value.every(isPlain)) return value.join(",") || undefined;
  if (value === Number.POSITIVE_INFINITY) return "infinity";
  return isPlain(value) ? String(value) : undefined;
}

function isPlain(value: unknown): boolean {
  return ["string", "number", "boolean"].includes(typeof value);
}

function nameOf({ section, key }: { readonly section: string; readonly key: string }): string {
  return `${section}\n${key}`;
}

function keysOf(...all: readonly IniSections[]): { section: string; key: string }[] {
  const names = all.flatMap((sections) =>
    [...sections].flatMap(([section, pairs]) =>
      [...pairs.keys()].map((key) => nameOf({ section, key })),
    ),
  );
  return [...new Set(names)].map((name) => {
    const [section = "", key = ""] = name.split("\n");
    return { section, key };
  });
}

/** Checks that a pair can be read back unchanged. The messages are CouchDB's. */
function checkWritable(section: string, key: string, text: string): void {
  if (!isReadAsWritten(section, "key", "value")) {
    throw new ConfigError("Invalid configuration section");
  }
  if (/[[\]]/.test(key) || !isReadAsWritten("section", key, "value")) {
    throw new ConfigError("Invalid configuration key");
  }
  if (!isReadAsWritten("section", "key", text.trim())) {
    throw new ConfigError("Invalid configuration value");
  }
  // A key that contains an equals sign cannot have an empty value: the line would be read back with
  // a different key.
  if (!isReadAsWritten(section, key, text.trim())) {
    throw new ConfigError("Invalid configuration key");
  }
}

/** Whether a file with only this pair is read back unchanged. */
function isReadAsWritten(section: string, key: string, text: string): boolean {
  try {
    const sections = parseIni(withIniValue("", { section, key }, text));
    const pairs = sections.get(section);
    return sections.size === 1 && pairs?.size === 1 && pairs.get(key) === text;
  } catch {
    return false;
  }
}
