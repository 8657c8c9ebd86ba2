/** `[couch_peruser]`: settings of the per-user databases, read on each use. */
import { isDatabaseName } from "../../databases/index.ts";
import { liveSettings, type SettingTexts, sectionOf, type Values } from "./settings.ts";

export const USER_DATABASES_SECTION = "couch_peruser";

const { flag, parsed } = sectionOf(USER_DATABASES_SECTION);

export const USER_DATABASE_SETTINGS = {
  isEnabled: flag("enable", false, {
    meaning: "whether a database is created for each user",
  }),
  deletesDatabases: flag("delete_dbs", false, {
    meaning: "whether the database is deleted with the user",
  }),
  /** The prefix is followed by the user's name, each byte in hex. */
  prefix: parsed<string>("database_prefix", {
    default: "userdb-",
    meaning: "prefix of the database name",
    // Rejects a leading underscore: such names belong to system databases, which have their own
    // rules for writes.
    parse: (value) =>
      isDatabaseName(value) && !value.startsWith("_")
        ? { value }
        : { expected: "the beginning of a database name" },
  }),
};
export type UserDatabaseSettings = Values<typeof USER_DATABASE_SETTINGS>;

export function userDatabaseSettings(texts: SettingTexts): UserDatabaseSettings {
  return liveSettings(texts, USER_DATABASE_SETTINGS);
}
