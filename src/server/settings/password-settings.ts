/** Settings for hashes of new passwords: `[chttpd_auth]`, read live. */

import {
  type PasswordLimits,
  type PasswordSettings,
  PSEUDO_RANDOM_FUNCTIONS,
} from "../passwords.ts";
import { type PasswordRequirement, requirementsSetting } from "./password-requirements.ts";
import {
  booleanSetting,
  choiceSetting,
  integerSetting,
  liveSettings,
  type Setting,
  type SettingsOf,
  type SettingTexts,
} from "./settings.ts";

const SECTION = "chttpd_auth";

/** CouchDB's. */
const ITERATIONS_MAX = 1_000_000_000;

export interface PasswordRules extends PasswordSettings, PasswordLimits {
  /** What new passwords of users have to match. */
  readonly requirements: readonly PasswordRequirement[];
  /** Whether a user's password is hashed again, at a login, when these settings say another way. */
  readonly upgradesHashes: boolean;
}

const SETTINGS: SettingsOf<PasswordRules> = {
  scheme: choiceSetting(SECTION, "password_scheme", "pbkdf2", ["pbkdf2", "simple"]),
  pseudoRandomFunction: choiceSetting(SECTION, "pbkdf2_prf", "sha256", PSEUDO_RANDOM_FUNCTIONS),
  iterations: integerSetting(SECTION, "iterations", 600_000, { max: ITERATIONS_MAX }),
  iterationsMin: integerSetting(SECTION, "min_iterations", 1, { max: ITERATIONS_MAX }),
  iterationsMax: integerSetting(SECTION, "max_iterations", 2_000_000, { max: ITERATIONS_MAX }),
  requirements: requirementsSetting(SECTION, "password_regexp"),
  upgradesHashes: booleanSetting(SECTION, "upgrade_hash_on_auth", true),
};

export const PASSWORD_SETTINGS: readonly Setting<unknown>[] =
  Object.values<Setting<unknown>>(SETTINGS);

export function passwordSettings(texts: SettingTexts): PasswordRules {
  return liveSettings(texts, SETTINGS);
}
