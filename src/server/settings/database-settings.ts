/** `[couchdb]`: settings of databases and of functions in them, read on each use. */
import type { Runtime } from "../../base/index.ts";
import { type Sandbox, SECURITY_ADMIN_ONLY } from "../../databases/index.ts";
import { DesignCodes, type DesignFunctions } from "../../documents/index.ts";
import { readSetting, type SettingTexts, sectionOf } from "./settings.ts";

const { choice, integer } = sectionOf("couchdb");

export const DATABASE_SETTINGS = {
  keepOldBodiesSec: integer("keep_old_bodies_sec", 3_600, {
    min: 0,
    unit: "s",
    meaning: "time that bodies of superseded revisions stay readable",
  }),
  defaultSecurity: choice(
    "default_security",
    "admin_only",
    ["admin_only", "admin_local", "everyone"],
    {
      meaning:
        "access to databases without a security object: server admins (`admin_only`), or everyone",
    },
  ),
  timeMinSec: integer("time_seq_min_time", 1_754_006_400, {
    min: 0,
    unit: "s since 1970",
    meaning: "earliest time recorded for [`since`](api/changes.md#since-a-time)",
  }),
  processTimeoutMs: integer("os_process_timeout", 5_000, {
    unit: "ms",
    meaning: "time limit for a run of a design document's function",
  }),
};

/** Returns the security object of databases without one. */
export function securityDefault(texts: SettingTexts): () => string {
  // `admin_local` has the same effect as `everyone`: in CouchDB, it lets everyone access databases
  // on the main port, and this server has only a main port.
  return () =>
    readSetting(texts, DATABASE_SETTINGS.defaultSecurity) === "admin_only"
      ? SECURITY_ADMIN_ONLY
      : "{}";
}

/**
 * Returns a function that returns how many milliseconds the body of a superseded revision is kept.
 */
export function keepOldBodiesMs(texts: SettingTexts): () => number {
  return () => readSetting(texts, DATABASE_SETTINGS.keepOldBodiesSec) * 1000;
}

/**
 * Returns a function that returns the earliest plausible time. A clock that shows an earlier time
 * is assumed to be wrong.
 */
export function timeMinMs(texts: SettingTexts): () => number {
  return () => readSetting(texts, DATABASE_SETTINGS.timeMinSec) * 1000;
}

export function designFunctions(
  runtime: Runtime,
  sandbox: Sandbox,
  texts: SettingTexts,
): DesignFunctions {
  return {
    runtime,
    sandbox,
    codes: new DesignCodes(),
    get timeoutMs() {
      return readSetting(texts, DATABASE_SETTINGS.processTimeoutMs);
    },
  };
}
