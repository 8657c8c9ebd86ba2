/** How new passwords are hashed: `[chttpd_auth]`, read live. */
import { type PasswordSettings, PSEUDO_RANDOM_FUNCTIONS } from "./passwords.ts";
import {
  choiceSetting,
  integerSetting,
  liveSettings,
  type Setting,
  type SettingsOf,
  type SettingTexts,
} from "./settings.ts";

const SECTION = "chttpd_auth";

const SETTINGS: SettingsOf<PasswordSettings> = {
  scheme: choiceSetting(SECTION, "password_scheme", "pbkdf2", ["pbkdf2", "simple"]),
  pseudoRandomFunction: choiceSetting(SECTION, "pbkdf2_prf", "sha256", PSEUDO_RANDOM_FUNCTIONS),
  iterations: integerSetting(SECTION, "iterations", 600_000, { max: 1_000_000_000 }),
};

export const PASSWORD_SETTINGS: readonly Setting<unknown>[] =
  Object.values<Setting<unknown>>(SETTINGS);

export function passwordSettings(texts: SettingTexts): PasswordSettings {
  return liveSettings(texts, SETTINGS);
}
