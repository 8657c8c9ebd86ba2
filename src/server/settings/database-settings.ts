/** `[couchdb]`: settings of databases and of the functions in them, read live. */
import type { Runtime } from "../../base/index.ts";
import { type Sandbox, SECURITY_ADMIN_ONLY } from "../../databases/index.ts";
import { DesignCodes, type DesignFunctions } from "../../documents/index.ts";
import {
  choiceSetting,
  integerSetting,
  liveSettings,
  type Setting,
  type SettingsOf,
  type SettingTexts,
} from "./settings.ts";

interface DatabaseTexts {
  readonly defaultSecurity: "admin_only" | "admin_local" | "everyone";
  readonly processTimeoutMs: number;
  readonly keepOldBodiesSec: number;
}

const SETTINGS: SettingsOf<DatabaseTexts> = {
  defaultSecurity: choiceSetting("couchdb", "default_security", "admin_only", [
    "admin_only",
    "admin_local",
    "everyone",
  ]),
  processTimeoutMs: integerSetting("couchdb", "os_process_timeout", 5_000),
  keepOldBodiesSec: integerSetting("couchdb", "keep_old_bodies_sec", 3_600, { min: 0 }),
};

export const DATABASE_SETTINGS: readonly Setting<unknown>[] =
  Object.values<Setting<unknown>>(SETTINGS);

/** The security object of databases that have none. */
export function securityDefault(texts: SettingTexts): () => string {
  const settings = liveSettings(texts, SETTINGS);
  // CouchDB's `admin_local` opens databases to everyone on the port that we have.
  return () => (settings.defaultSecurity === "admin_only" ? SECURITY_ADMIN_ONLY : "{}");
}

/** How long the body of a revision is kept that another one follows. */
export function keepOldBodiesMs(texts: SettingTexts): () => number {
  const settings = liveSettings(texts, SETTINGS);
  return () => settings.keepOldBodiesSec * 1000;
}

export function designFunctions(
  runtime: Runtime,
  sandbox: Sandbox,
  texts: SettingTexts,
): DesignFunctions {
  const settings = liveSettings(texts, SETTINGS);
  return {
    runtime,
    sandbox,
    codes: new DesignCodes(),
    get timeoutMs() {
      return settings.processTimeoutMs;
    },
  };
}
