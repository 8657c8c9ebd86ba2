/**
 * `[couch_auto_purge_plugin]`: the purge of documents that were deleted some time ago; read on each
 * use.
 */
import { compilePattern, PatternError, parseTtl } from "../../protocol/index.ts";
import { liveSettings, type SettingTexts, sectionOf, type Values } from "./settings.ts";

const SECTION = "couch_auto_purge_plugin";
/** Section whose values are regular expressions. Its keys are arbitrary. */
export const SKIPPED_DATABASES_SECTION = `${SECTION}.skip_dbs`;
const ENABLED = { section: "couch_scanner_plugins", key: SECTION };

const { flag, parsed } = sectionOf(SECTION);

export const AUTO_PURGE_SETTINGS = {
  isEnabled: sectionOf(ENABLED.section).flag(ENABLED.key, false, {
    meaning:
      "whether deleted documents are [purged](api/databases.md#purge-deleted-documents-by-age) by age",
  }),
  ttlMs: parsed<number>("deleted_document_ttl", {
    default: Number.POSITIVE_INFINITY,
    defaultText: "infinity",
    values: "a period such as `90_days`, or `infinity`",
    meaning: "age for purging, in databases that do not set one",
    parse(text) {
      const value = parseTtl(text);
      return value === undefined
        ? { expected: "a period such as 90_days, or infinity" }
        : { value };
    },
  }),
  isDryRun: flag("dry_run", false, {
    meaning: "whether documents are only counted and logged, not purged",
  }),
};

export interface AutoPurgeSettings extends Values<typeof AUTO_PURGE_SETTINGS> {
  /**
   * Whether the database is skipped. This is the case if a pattern of
   * `[couch_auto_purge_plugin.skip_dbs]` matches its name, or if any of these patterns is invalid.
   */
  readonly skips: (database: string) => boolean;
  /** Registers a function that is called after `isEnabled` has changed. */
  readonly onSwitched: (effect: () => void) => void;
}

interface Texts extends SettingTexts {
  section(section: string): ReadonlyMap<string, string>;
  watch(section: string, effect: () => void): void;
}

export function autoPurgeSettings(texts: Texts): AutoPurgeSettings {
  return Object.assign(liveSettings(texts, AUTO_PURGE_SETTINGS), {
    skips: (database: string) =>
      [...texts.section(SKIPPED_DATABASES_SECTION).values()].some((pattern) =>
        matches(pattern, database),
      ),
    onSwitched: (effect: () => void) => texts.watch(ENABLED.section, effect),
  });
}

function matches(pattern: string, text: string): boolean {
  try {
    return compilePattern(pattern)(text);
  } catch (error) {
    if (error instanceof PatternError) return true;
    throw error;
  }
}
