/** `[chttpd_auth_lockout]`: when logins are refused after wrong passwords; read on each use. */
import { liveSettings, type SettingTexts, sectionOf, type Values } from "./settings.ts";

const { choice, integer } = sectionOf("chttpd_auth_lockout");

export const LOCKOUT_SETTINGS = {
  mode: choice("mode", "enforce", ["off", "warn", "enforce"], {
    meaning: "`warn` only logs lockouts; `off` does not count wrong passwords",
  }),
  threshold: integer("threshold", 5, {
    unit: "passwords",
    meaning: "number of wrong passwords after which logins are rejected",
  }),
  countedMax: integer("max_objects", 10_000, {
    unit: "pairs",
    meaning: "maximum number of pairs of user and address with counts; the oldest are dropped",
  }),
  lifetimeMs: integer("max_lifetime", 300_000, {
    unit: "ms",
    meaning: "a count is reset this long after its first wrong password",
  }),
};
export type LockoutSettings = Values<typeof LOCKOUT_SETTINGS>;

export function lockoutSettings(texts: SettingTexts): LockoutSettings {
  return liveSettings(texts, LOCKOUT_SETTINGS);
}
