/** `[couch_peruser]`: a database for each user, read live. */
import { isDatabaseName } from "../../databases/index.ts";
import {
  booleanSetting,
  liveSettings,
  type Setting,
  type SettingsOf,
  type SettingTexts,
  unusable,
} from "./settings.ts";

export interface UserDatabaseSettings {
  readonly isEnabled: boolean;
  /** Whether a user's database is deleted with the user. */
  readonly deletesDatabases: boolean;
  /** What the names of the databases begin with, before the bytes of the user's name as hex digits. */
  readonly prefix: string;
}

export const USER_DATABASES_SECTION = "couch_peruser";
const PREFIX_DEFAULT = "userdb-";

const SETTINGS: SettingsOf<UserDatabaseSettings> = {
  isEnabled: booleanSetting(USER_DATABASES_SECTION, "enable", false),
  deletesDatabases: booleanSetting(USER_DATABASES_SECTION, "delete_dbs", false),
  prefix: { section: USER_DATABASES_SECTION, key: "database_prefix", read: readPrefix },
};

export const USER_DATABASE_SETTINGS: readonly Setting<unknown>[] =
  Object.values<Setting<unknown>>(SETTINGS);

export function userDatabaseSettings(texts: SettingTexts): UserDatabaseSettings {
  return liveSettings(texts, SETTINGS);
}

/** A system database is no prefix: its own hooks would judge what users write. */
function readPrefix(text: string | undefined): string {
  if (text === undefined || text === "") return PREFIX_DEFAULT;
  if (isDatabaseName(text) && !text.startsWith("_")) return text;
  const expected = "the beginning of a database name";
  throw unusable({ section: USER_DATABASES_SECTION, key: "database_prefix" }, text, expected);
}
