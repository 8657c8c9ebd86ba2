/**
 * Makes the section of docs/configuration.md that lists CouchDB's settings without effect from their table in the sources. `npm test`
 * fails when the section is stale; `npx vitest run test/server/settings-advice.test.ts -u` updates it.
 */
import {
  INEFFECTIVE_SETTINGS,
  type IneffectiveSettings,
} from "../src/server/settings/couchdb-settings.ts";

const HEADING = "## CouchDB's settings that have no effect\n";

/** The page with its section made again. */
export function withIneffectiveSettings(page: string): string {
  const start = page.indexOf(HEADING);
  if (start < 0) throw new Error(`The page has no heading ${HEADING}`);
  const end = page.indexOf("\n#", start + HEADING.length);
  return page.slice(0, start) + section() + page.slice(end);
}

function section(): string {
  const lines = [
    "Every other setting of CouchDB 3.5 has the effect that it has there, as this page says. A node logs a warning for each",
    "setting of this table, and for each name that it does not know, with the name that was probably meant",
    "(`configuration.setting-ignored`): when it starts, and when the setting is changed.",
    "`tools/ineffective-settings.ts` makes this section from the code.",
    "",
    "| section | keys | why |",
    "| --- | --- | --- |",
    ...INEFFECTIVE_SETTINGS.map(row),
  ];
  return `${HEADING}\n${lines.join("\n")}\n`;
}

function row({ section: name, keys, why }: IneffectiveSettings): string {
  const named = keys === undefined ? "all" : keys.map((key) => `\`${key}\``).join(", ");
  return `| \`[${name}]\` | ${named} | ${why} |`;
}
