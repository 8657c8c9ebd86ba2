/**
 * Makes the section of docs/configuration.md that lists the options of a replication from their table in the sources. `npm test`
 * fails when the section is stale; `npx vitest run test/replication-options.test.ts -u` updates it.
 */
import { type Option, REPLICATION_OPTIONS, WEIGHT } from "../src/replicator/index.ts";

const HEADING = "### Options of a replication\n";

/** The page with its section made again. */
export function withOptionsSection(page: string): string {
  const start = page.indexOf(HEADING);
  if (start < 0) throw new Error(`The page has no heading ${HEADING}`);
  const end = page.indexOf("\n#", start + HEADING.length);
  return page.slice(0, start) + optionsSection() + page.slice(end);
}

function optionsSection(): string {
  const lines = [
    "Fields of replication documents and of bodies of `_replicate`. The setting of the same name in `[replicator]` counts for",
    `replications that do not name the field; \`${WEIGHT.name}\` is a field only. A value that is not in the table is refused, in`,
    "documents, bodies and settings. `tools/replication-options.ts` makes this section from the code.",
    "",
    "| option | default | values | unit | meaning |",
    "| --- | --- | --- | --- | --- |",
    ...[...Object.values(REPLICATION_OPTIONS), WEIGHT].map(row),
  ];
  return `${HEADING}\n${lines.join("\n")}\n`;
}

function row(option: Option): string {
  const unit = option.kind === "integer" ? (option.unit ?? "") : "";
  const cells = [`\`${option.name}\``, String(option.default), values(option), unit];
  return `| ${[...cells, option.meaning].join(" | ")} |`.replaceAll("  ", " ");
}

function values(option: Option): string {
  if (option.kind === "boolean") return "true, false";
  if (option.kind === "choice") return option.choices.map((choice) => `\`${choice}\``).join(", ");
  const { min, max } = option;
  return max === undefined ? `${min} or more` : `${min} to ${max}`;
}
