/** `[couchdb]`: settings of databases and of the functions in them, read live. */
import type { Runtime } from "../../base/index.ts";
import { type Sandbox, SECURITY_ADMIN_ONLY } from "../../databases/index.ts";
import { type DesignFunctions, ValidationCodes } from "../../documents/index.ts";
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
}

const SETTINGS: SettingsOf<DatabaseTexts> = {
  defaultSecurity: choiceSetting("couchdb", "default_security", "admin_only", [
    "admin_only",
    "admin_local",
    "everyone",
  ]),
  processTimeoutMs: integerSetting("couchdb", "os_process_timeout", 5_000),
};

export const DATABASE_SETTINGS: readonly Setting<unknown>[] =
  Object.values<Setting<unknown>>(SETTINGS);

/** The security object of databases that have none. */
export function securityDefault(texts: SettingTexts): () => string {
  const settings = liveSettings(texts, SETTINGS);
  // CouchDB's `admin_local` opens databases to everyone on the port that we have.
  return () => (settings.defaultSecurity === "admin_only" ? SECURITY_ADMIN_ONLY : "{}");
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
    validationCodes: new ValidationCodes(),
    get timeoutMs() {
      return settings.processTimeoutMs;
    },
  };
}
