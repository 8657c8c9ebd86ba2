/** How new passwords are hashed: `[chttpd_auth]`, read live. */

import { type PasswordSettings, PSEUDO_RANDOM_FUNCTIONS } from "../passwords.ts";
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

export interface PasswordRules extends PasswordSettings {
  /** What new passwords of users have to match. */
  readonly requirements: readonly PasswordRequirement[];
  /** Whether a user's password is hashed anew, at a login, when these settings say another way. */
  readonly upgradesHashes: boolean;
}

const SETTINGS: SettingsOf<PasswordRules> = {
  scheme: choiceSetting(SECTION, "password_scheme", "pbkdf2", ["pbkdf2", "simple"]),
  pseudoRandomFunction: choiceSetting(SECTION, "pbkdf2_prf", "sha256", PSEUDO_RANDOM_FUNCTIONS),
  iterations: integerSetting(SECTION, "iterations", 600_000, { max: 1_000_000_000 }),
  requirements: requirementsSetting(SECTION, "password_regexp"),
  upgradesHashes: booleanSetting(SECTION, "upgrade_hash_on_auth", true),
};

export const PASSWORD_SETTINGS: readonly Setting<unknown>[] =
  Object.values<Setting<unknown>>(SETTINGS);

export function passwordSettings(texts: SettingTexts): PasswordRules {
  return liveSettings(texts, SETTINGS);
}
