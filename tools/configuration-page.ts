/**
 * Generates the tables of docs/configuration.md from the sources: the settings of each section, the
 * options of a replication, and CouchDB's settings without effect. `npm test` fails if the page is
 * stale; `npx vitest run --project quick test/configuration-page.test.ts -u` updates it.
 */
import { DOCUMENT_OPTIONS, type Option } from "../src/contract/index.ts";
import { LISTED_SETTINGS } from "../src/server/settings/config.ts";
import { settingDefault } from "../src/server/settings/configuration.ts";
import {
  INEFFECTIVE_SETTINGS,
  type IneffectiveSettings,
} from "../src/server/settings/couchdb-settings.ts";
import type { Setting } from "../src/server/settings/settings.ts";

const BOOLEANS = "true, false";

/**
 * Returns the page with regenerated tables. Throws an Error for a section that the page does not
 * introduce.
 */
export function withTables(page: string): string {
  const sections = new Map<string, Setting<unknown>[]>();
  for (const setting of LISTED_SETTINGS) {
    sections.set(setting.section, [...(sections.get(setting.section) ?? []), setting]);
  }
  let made = page;
  for (const [section, settings] of sections) {
    made = withTable(made, `\`[${section}]\``, [
      "| key | default (values) | meaning |",
      ...settings.map(settingRow),
    ]);
  }
  const options = DOCUMENT_OPTIONS.map(optionRow);
  made = withTable(made, "Fields of replication documents", [
    "| option | default (values) | meaning |",
    ...options,
  ]);
  return withList(made, "All settings of CouchDB", ineffectiveItems());
}

/** Replaces the table after the paragraph that begins with `opening`. */
function withTable(page: string, opening: string, [head = "", ...rows]: string[]): string {
  for (let start = 0; ; start++) {
    start = page.indexOf(`\n${opening}`, start);
    if (start < 0)
      throw new Error(`The page has no table after a paragraph that begins ${opening}`);
    const tableStart = page.indexOf("\n\n", start + 1) + 2;
    if (!page.startsWith("|", tableStart)) continue;
    const rule = head.replace(/[^|]+/g, " --- ");
    const table = [head, rule, ...rows].join("\n").replaceAll("  ", " ");
    return page.slice(0, tableStart) + table + page.slice(page.indexOf("\n\n", tableStart));
  }
}

/** Replaces the list after the paragraph that begins with `opening`. */
function withList(page: string, opening: string, items: readonly string[]): string {
  const listStart = page.indexOf("\n\n", page.indexOf(`\n${opening}`) + 1) + 2;
  if (!page.startsWith("- ", listStart)) throw new Error(`The page has no list after ${opening}`);
  return page.slice(0, listStart) + items.join("\n") + page.slice(page.indexOf("\n\n", listStart));
}

function settingRow(setting: Setting<unknown>): string {
  const { key, values = "", unit = "", meaning, defaultWords } = setting;
  const standard = defaultWords ?? settingDefault(setting) ?? "";
  const shown = /[*{]/.test(standard) ? `\`${standard}\`` : standard;
  return row(`\`${key}\``, withValues(shown, withUnit(values, unit)), meaning);
}

function optionRow(option: Option): string {
  const unit = option.kind === "integer" ? (option.unit ?? "") : "";
  const standard = withValues(String(option.default), withUnit(optionValues(option), unit));
  return row(`\`${option.name}\``, standard, option.meaning);
}

function optionValues(option: Option): string {
  if (option.kind === "boolean") return BOOLEANS;
  if (option.kind === "choice") return option.choices.map((choice) => `\`${choice}\``).join(", ");
  const { min, max } = option;
  return max === undefined ? `${min} or more` : `${min} to ${max}`;
}

/**
 * Returns the default and accepted values. The values of booleans are omitted, because they are
 * obvious.
 */
function withValues(standard: string, values: string): string {
  return values === "" || values === BOOLEANS ? standard : `${standard} (${values})`.trim();
}

/** Abbreviates a range of numbers and appends its unit: `1 to 5` becomes `1–5 ms`. */
function withUnit(values: string, unit: string): string {
  const suffix = unit === "" ? "" : ` ${unit}`;
  return values
    .replace(/^(\d+) or more/, `≥ $1${suffix}`)
    .replace(/^(\d+) to (\d+)/, `$1–$2${suffix}`);
}

/** Items sorted by section. Settings with the same reason share an item. */
function ineffectiveItems(): readonly string[] {
  const places = new Map<string, string[]>();
  for (const { section, keys = [], why } of sortedIneffectiveSettings()) {
    const place = [`[${section}]`, ...keys].map((name) => `\`${name}\``).join(" ");
    places.set(why, [...(places.get(why) ?? []), place]);
  }
  return [...places].map(([why, names]) => `- ${names.join(", ")}: ${why}`);
}

function sortedIneffectiveSettings(): readonly IneffectiveSettings[] {
  return INEFFECTIVE_SETTINGS.toSorted((left, right) =>
    left.section < right.section ? -1 : Number(left.section > right.section),
  );
}

function row(...cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}
