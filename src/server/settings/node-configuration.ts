/**
 * The configuration as administrators read and change it over HTTP. Secrets are hidden, and new
 * passwords are hashed.
 */
import type { NodeConfiguration } from "../../api/index.ts";
import type { SettingRow } from "../../contract/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import {
  formatAdminHash,
  hashFault,
  hashPassword,
  type PasswordLimits,
  type PasswordSettings,
  parseAdminHash,
} from "../passwords.ts";
import { type Configuration, settingDefault } from "./configuration.ts";
import { IDENTITIES_SECTION } from "./identity-settings.ts";
import { checkShares, SHARES_SECTION } from "./replicator-settings.ts";
import { isHiddenSetting } from "./secret-settings.ts";
import { ConfigError, type Place, type Setting, unusable } from "./settings.ts";
import { ineffectiveness } from "./settings-advice.ts";

/** Placeholder for a secret; not accepted as a value. */
const MASK = "****";

/** Sections in which every key counts as a known setting, because users choose the keys. */
const NAMED_SECTIONS = new Set(["admins", IDENTITIES_SECTION, "jwt_keys", SHARES_SECTION]);

/**
 * Sections that cannot be changed over HTTP: those that CouchDB protects, and `[identities]`, which
 * determines the servers that may receive tokens of this machine.
 */
const READ_ONLY_SECTIONS = new Set([
  IDENTITIES_SECTION,
  "daemons",
  "external",
  "httpd_design_handlers",
  "httpd_db_handlers",
  "httpd_global_handlers",
  "native_query_servers",
  "os_daemons",
  "query_servers",
  "feature_flags",
]);

export class MaskedConfiguration implements NodeConfiguration {
  readonly #configuration: Configuration;
  readonly #passwords: PasswordSettings & PasswordLimits;

  /** `passwords` are the settings for hashing new passwords. They are read on each use. */
  constructor(configuration: Configuration, passwords: PasswordSettings & PasswordLimits) {
    this.#configuration = configuration;
    this.#passwords = passwords;
  }

  sections(): ReadonlyMap<string, ReadonlyMap<string, string>> {
    const names = [
      ...this.#configuration.sections().keys(),
      ...this.#defaults().map(({ section }) => section),
    ];
    return new Map([...new Set(names)].sort().map((name) => [name, this.section(name)]));
  }

  section(section: string): ReadonlyMap<string, string> {
    const defaults = this.#defaults().filter((setting) => setting.section === section);
    const pairs = [
      ...defaults.map(({ key, text }) => [key, text] as const),
      ...this.#configuration.section(section),
    ];
    return new Map(pairs.map(([key, text]) => [key, shown(section, key, text)]));
  }

  get(section: string, key: string): string | undefined {
    return this.section(section).get(key);
  }

  settings(): readonly SettingRow[] {
    const configuration = this.#configuration;
    const rowOf = (place: Place, setting?: Setting<unknown>): SettingRow => {
      const { section, key } = place;
      const value = configuration.get(section, key);
      return {
        section,
        key,
        value: value === undefined ? null : shown(section, key, value),
        default: (setting && settingDefault(setting)) ?? null,
        default_words: plainText(setting?.defaultWords),
        known: NAMED_SECTIONS.has(section) || configuration.known.some(isAt(place)),
        meaning: plainText(setting?.meaning) ?? ineffectiveness(place, configuration.known) ?? null,
        values: plainText(setting?.values),
        unit: setting?.unit ?? null,
        live: setting?.waitsForStart !== true,
      };
    };
    const others = [...configuration.sections()]
      .flatMap(([section, pairs]) => [...pairs.keys()].map((key) => ({ section, key })))
      .filter((place) => !configuration.table.some(isAt(place)));
    return [
      ...configuration.table.map((setting) => rowOf(setting, setting)),
      ...others.map((place) => rowOf(place)),
    ].sort(bySectionAndKey);
  }

  async set(
    section: string,
    key: string,
    text: string,
    options: { readonly persist: boolean },
  ): Promise<string> {
    checkSection(section);
    if (isHiddenSetting(section, key) && text === MASK) {
      throw new ConfigError(`[${section}] ${key} = ${MASK}: expected the secret itself`);
    }
    if (section === SHARES_SECTION) checkShares(key, text);
    const stored = section === "admins" ? await this.#hashed(key, text) : text;
    const before = this.get(section, key) ?? "";
    this.#configuration.set(section, key, stored, options);
    return before;
  }

  async delete(
    section: string,
    key: string,
    options: { readonly persist: boolean },
  ): Promise<string | undefined> {
    checkSection(section);
    const before = this.get(section, key);
    const isSet = this.#configuration.get(section, key) !== undefined;
    if (isSet) this.#configuration.delete(section, key, options);
    return before;
  }

  async reload(): Promise<readonly string[]> {
    const changes = this.#configuration.reload();
    this.#configuration.markChanged();
    const waiting = this.#configuration.known.filter(({ waitsForStart }) => waitsForStart);
    return changes
      .filter((change) => waiting.some(isAt(change)))
      .map(({ section, key }) => `${section}/${key}`);
  }

  /** Returns the defaults that a file can express. */
  #defaults(): readonly (Place & { readonly text: string })[] {
    return this.#configuration.table.flatMap((setting) => {
      const text = settingDefault(setting);
      return text ? [{ section: setting.section, key: setting.key, text }] : [];
    });
  }

  async #hashed(name: string, password: string): Promise<string> {
    if (password === "") throw unusable({ section: "admins", key: name }, '""', "a password");
    const hash = parseAdminHash(password);
    const fault = hash && hashFault(hash, this.#passwords);
    if (fault !== undefined) throw new ConfigError(`[admins] ${name}: ${fault}`);
    if (hash !== undefined) return password;
    return formatAdminHash(await hashPassword(password, this.#passwords));
  }
}

function isAt({ section, key }: Place): (place: Place) => boolean {
  return (place) => place.section === section && place.key === key;
}

/** Returns the text without Markdown's links and backticks. */
function plainText(markdown: string | undefined): string | null {
  if (markdown === undefined) return null;
  return markdown.replace(/\[([^\]]+)\]\([^)]*\)/g, "$1").replaceAll("`", "");
}

function bySectionAndKey(left: Place, right: Place): number {
  if (left.section !== right.section) return left.section < right.section ? -1 : 1;
  return left.key < right.key ? -1 : 1;
}

function shown(section: string, key: string, text: string): string {
  return text !== "" && isHiddenSetting(section, key) ? MASK : text;
}

function checkSection(section: string): void {
  if (!READ_ONLY_SECTIONS.has(section)) return;
  const reason = "Config section blacklisted for modification over HTTP API.";
  throw new ProtocolError(403, "forbidden", reason);
}
