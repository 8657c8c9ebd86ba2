/** Settings for hashes of new passwords: `[chttpd_auth]`, read on each use. */
import { PSEUDO_RANDOM_FUNCTIONS } from "../passwords.ts";
import { type PasswordRequirement, parseRequirements } from "./password-requirements.ts";
import { liveSettings, type SettingTexts, sectionOf, type Values } from "./settings.ts";

/** Upper bound of the iterations. Equal to CouchDB's default of `max_iterations`. */
const ITERATIONS_MAX = 1_000_000_000;

const { choice, integer, parsed } = sectionOf("chttpd_auth", { former: "couch_httpd_auth" });

export const PASSWORD_SETTINGS = {
  scheme: choice("password_scheme", "pbkdf2", ["pbkdf2", "simple"], {
    meaning: "`simple`: salted SHA-1, only for old clients of the database",
  }),
  pseudoRandomFunction: choice("pbkdf2_prf", "sha256", PSEUDO_RANDOM_FUNCTIONS, {
    meaning: "the hash of `pbkdf2`; `sha` is SHA-1",
  }),
  iterations: integer("iterations", 600_000, {
    max: ITERATIONS_MAX,
    meaning: "iterations of new hashes",
  }),
  iterationsMin: integer("min_iterations", 1, {
    max: ITERATIONS_MAX,
    meaning: "minimum hash iterations in `_users`, checked at writes and logins",
  }),
  iterationsMax: integer("max_iterations", 2_000_000, {
    max: ITERATIONS_MAX,
    meaning: "maximum hash iterations in `_users`; CouchDB: 1000000000",
  }),
  requirements: parsed<readonly PasswordRequirement[]>("password_regexp", {
    default: [],
    defaultWords: "none",
    meaning:
      'patterns that new passwords must match, such as `["[0-9]", {".{10,}", "At least 10 characters."}]`',
    parse(text) {
      const value = text.trim() === "" ? [] : parseRequirements(text);
      return value === undefined
        ? { expected: 'a list such as ["[0-9]", {".{10,}", "At least 10 characters."}]' }
        : { value };
    },
  }),
  upgradesHashes: sectionOf("chttpd_auth").flag("upgrade_hash_on_auth", true, {
    meaning: "whether logins rehash passwords whose hashes do not meet these settings",
  }),
};
export type PasswordRules = Values<typeof PASSWORD_SETTINGS>;

export function passwordSettings(texts: SettingTexts): PasswordRules {
  return liveSettings(texts, PASSWORD_SETTINGS);
}
