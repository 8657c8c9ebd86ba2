/** When logins are refused after wrong passwords: `[chttpd_auth_lockout]`, read live. */
import {
  choiceSetting,
  integerSetting,
  liveSettings,
  type Setting,
  type SettingsOf,
  type SettingTexts,
} from "./settings.ts";

export interface LockoutSettings {
  readonly mode: "off" | "warn" | "enforce";
  /** Failures after which a login is refused. */
  readonly threshold: number;
  /** Pairs of users and addresses that are counted; the oldest are forgotten. */
  readonly countedMax: number;
  readonly lifetimeMs: number;
}

const SECTION = "chttpd_auth_lockout";

const SETTINGS: SettingsOf<LockoutSettings> = {
  mode: choiceSetting(SECTION, "mode", "enforce", ["off", "warn", "enforce"]),
  threshold: integerSetting(SECTION, "threshold", 5),
  countedMax: integerSetting(SECTION, "max_objects", 10_000),
  lifetimeMs: integerSetting(SECTION, "max_lifetime", 300_000),
};

export const LOCKOUT_SETTINGS: readonly Setting<unknown>[] =
  Object.values<Setting<unknown>>(SETTINGS);

export function lockoutSettings(texts: SettingTexts): LockoutSettings {
  return liveSettings(texts, SETTINGS);
}
