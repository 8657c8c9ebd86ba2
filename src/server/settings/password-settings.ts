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
  movedSettings,
  type Setting,
  type SettingTexts,
} from "./settings.ts";

/** CouchDB's. */
const ITERATIONS_MAX = 1_000_000_000;

export interface PasswordRules extends PasswordSettings, PasswordLimits {
  /** What new passwords of users have to match. */
  readonly requirements: readonly PasswordRequirement[];
  /** Whether a user's password is hashed again, at a login, when these settings say another way. */
  readonly upgradesHashes: boolean;
}

const SETTINGS = movedSettings<{ readonly auth: string }, PasswordRules>(
  ({ auth }) => ({
    scheme: choiceSetting(auth, "password_scheme", "pbkdf2", ["pbkdf2", "simple"]),
    pseudoRandomFunction: choiceSetting(auth, "pbkdf2_prf", "sha256", PSEUDO_RANDOM_FUNCTIONS),
    iterations: integerSetting(auth, "iterations", 600_000, { max: ITERATIONS_MAX }),
    iterationsMin: integerSetting(auth, "min_iterations", 1, { max: ITERATIONS_MAX }),
    iterationsMax: integerSetting(auth, "max_iterations", 2_000_000, { max: ITERATIONS_MAX }),
    requirements: requirementsSetting(auth, "password_regexp"),
    upgradesHashes: booleanSetting("chttpd_auth", "upgrade_hash_on_auth", true),
  }),
  { now: { auth: "chttpd_auth" }, formerly: { auth: "couch_httpd_auth" } },
);

export const PASSWORD_SETTINGS: readonly Setting<unknown>[] =
  Object.values<Setting<unknown>>(SETTINGS);

export function passwordSettings(texts: SettingTexts): PasswordRules {
  return liveSettings(texts, SETTINGS);
}
