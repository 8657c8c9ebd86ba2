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
      "| key | default | values | unit | meaning |",
      ...settings.map(settingRow),
    ]);
  }
  const options = DOCUMENT_OPTIONS.map(optionRow);
  made = withTable(made, "Fields of replication documents", [
    "| option | default | values | unit | meaning |",
    ...options,
  ]);
  return withTable(made, "Every other setting of CouchDB", [
    "| section | keys | why |",
    ...INEFFECTIVE_SETTINGS.toSorted((left, right) =>
      left.section < right.section ? -1 : Number(left.section > right.section),
    ).map(ineffectiveRow),
  ]);
}

/** Replaces the table after the paragraph with this beginning. */
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

function settingRow(setting: Setting<unknown>): string {
  const { key, values = "", unit = "", meaning, defaultWords } = setting;
  const standard = defaultWords ?? settingDefault(setting) ?? "";
  const shown = /[*{]/.test(standard) ? `\`${standard}\`` : standard;
  return `| ${[`\`${key}\``, shown, values, unit, meaning].join(" | ")} |`;
}

function optionRow(option: Option): string {
  const unit = option.kind === "integer" ? (option.unit ?? "") : "";
  const cells = [`\`${option.name}\``, String(option.default), optionValues(option), unit];
  return `| ${[...cells, option.meaning].join(" | ")} |`;
}

function optionValues(option: Option): string {
  if (option.kind === "boolean") return "true, false";
  if (option.kind === "choice") return option.choices.map((choice) => `\`${choice}\``).join(", ");
  const { min, max } = option;
  return max === undefined ? `${min} or more` : `${min} to ${max}`;
}

function ineffectiveRow({ section, keys, why }: IneffectiveSettings): string {
  const named = keys === undefined ? "all" : keys.map((key) => `\`${key}\``).join(", ");
  return `| \`[${section}]\` | ${named} | ${why} |`;
}
