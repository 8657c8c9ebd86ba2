/** The configuration as administrators read and change it over HTTP: without secrets, and with new passwords hashed. */
import type { NodeConfiguration, ShownSetting } from "../../api/index.ts";
import { ProtocolError } from "../../protocol/index.ts";
import {
  formatAdminHash,
  hashFault,
  hashPassword,
  type PasswordLimits,
  type PasswordSettings,
  parseAdminHash,
} from "../passwords.ts";
import type { Configuration } from "./configuration.ts";
import { SHARES_SECTION } from "./replicator-settings.ts";
import { isHiddenSetting } from "./secret-settings.ts";
import { ConfigError, unusable } from "./settings.ts";

/** What stands for a secret; it cannot be set. */
const MASK = "****";

/** Every key of them has a meaning. */
const NAMED_SECTIONS = new Set(["admins", "jwt_keys", SHARES_SECTION]);

/** As in CouchDB, the handlers of authentication cannot be changed over HTTP. */
const READ_ONLY_SECTIONS = new Set([
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

  /** `passwords` says how new ones are hashed; read at each use. */
  constructor(configuration: Configuration, passwords: PasswordSettings & PasswordLimits) {
    this.#configuration = configuration;
    this.#passwords = passwords;
  }

  sections(): ReadonlyMap<string, ReadonlyMap<string, string>> {
    const names = [...this.#configuration.sections().keys()];
    return new Map(names.map((name) => [name, this.section(name)]));
  }

  section(section: string): ReadonlyMap<string, string> {
    const pairs = [...this.#configuration.section(section)];
    return new Map(pairs.map(([key, text]) => [key, shown(section, key, text)]));
  }

  get(section: string, key: string): string | undefined {
    const text = this.#configuration.get(section, key);
    return text === undefined ? undefined : shown(section, key, text);
  }

  settings(): readonly ShownSetting[] {
    const known = this.#configuration
      .defaults()
      .map(({ section, key, value }) => [nameOf(section, key), textOf(value)] as const);
    const set = [...this.sections()].flatMap(([section, pairs]) =>
      [...pairs].map(([key, text]) => [nameOf(section, key), text] as const),
    );
    const defaults = new Map(known);
    const values = new Map(set);
    const names = [...new Set([...defaults.keys(), ...values.keys()])].sort();
    return names.map((name) => {
      const [section, key] = JSON.parse(name) as [string, string];
      const fallback = defaults.get(name);
      return {
        section,
        key,
        value: values.get(name),
        fallback,
        isKnown: defaults.has(name) || NAMED_SECTIONS.has(section),
      };
    });
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
    if (before !== undefined) this.#configuration.delete(section, key, options);
    return before;
  }

  async reload(): Promise<void> {
    this.#configuration.reload();
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

function nameOf(section: string, key: string): string {
  return JSON.stringify([section, key]);
}

/** As a file would have it; undefined: there is no default, or no text for it. */
function textOf(value: unknown): string | undefined {
  if (Array.isArray(value)) return value.every(isPlain) ? value.join(",") : undefined;
  if (value === Number.POSITIVE_INFINITY) return "infinity";
  return isPlain(value) ? String(value) : undefined;
}

function isPlain(value: unknown): boolean {
  return ["string", "number", "boolean"].includes(typeof value);
}

function shown(section: string, key: string, text: string): string {
  return text !== "" && isHiddenSetting(section, key) ? MASK : text;
}

function checkSection(section: string): void {
  if (!READ_ONLY_SECTIONS.has(section)) return;
  const reason = "Config section blacklisted for modification over HTTP API.";
  throw new ProtocolError(403, "forbidden", reason);
}
