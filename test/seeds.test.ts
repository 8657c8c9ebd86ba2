/** docs/spec/seeds.md says where each requirement is met, and which test fails without it: what it names is there. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const PAGE = new URL("../docs/spec/seeds.md", import.meta.url);
const ROOT = new URL("../", import.meta.url);

function pathOf(path: string, base: URL): string {
  return fileURLToPath(new URL(path, base));
}

/** What a row says of our tests that is not so: titles are those of the file before them. */
function testMistakes(cell: string): string[] {
  const found: string[] = [];
  let text = "";
  for (const [, file, title] of cell.matchAll(/`([^`]+)`|\*([^*]+)\*/g)) {
    if (title !== undefined) {
      if (!text.includes(title)) found.push(`not found: ${title}`);
      continue;
    }
    const path = pathOf(`${file?.startsWith("src/") ? "" : "test/"}${file}`, ROOT);
    text = existsSync(path) ? readFileSync(path, "utf8") : "";
    if (text === "") found.push(`missing: ${file}`);
  }
  return found;
}

/** What a row says that is not so. */
function mistakes(row: string): string[] {
  const cells = row.split("|").map((cell) => cell.trim());
  const [, requirement = "", source = "", places = "", tests = "", verdict = ""] = cells;
  const found = testMistakes(tests);
  if (!/`[^`]+\.test\.ts`/.test(tests)) found.push(`no test: ${requirement}`);
  if (cells.length !== 7 || source === "") found.push(`not five cells: ${requirement}`);
  const files = [...places.matchAll(/`([^`]+)`/g)].map(([, file]) => String(file));
  if (files.length === 0) found.push(`no place: ${requirement}`);
  for (const file of files) {
    const isThere = file.startsWith("src/") && existsSync(pathOf(file, ROOT));
    if (!isThere) found.push(`missing: ${file}`);
  }
  const [, decision] = /^\[differs\]\((\.\.\/decisions\/\d{4}-[^)]+\.md)\)$/.exec(verdict) ?? [];
  if (decision === undefined && verdict !== "holds") found.push(`no verdict: ${requirement}`);
  if (decision !== undefined && !existsSync(pathOf(decision, PAGE)))
    found.push(`missing: ${decision}`);
  return found;
}

const rows = readFileSync(PAGE, "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| ") && !/^\| (---|requirement )/.test(line));

test("all that the page names is there", () => {
  expect(rows.length).toBeGreaterThan(130);
  expect(rows.flatMap(mistakes)).toEqual([]);
});

const HERE = "`seeds.test.ts`, *all that the page names*";

test.each([
  [`| A. | S | \`src/nosuch.ts\` | ${HERE} | holds |`, "missing: src/nosuch.ts"],
  [`| A. | S | | ${HERE} | holds |`, "no place: A."],
  ["| A. | S | `src/base/page.ts` | awaited | holds |", "no test: A."],
  ["| A. | S | `src/base/page.ts` | `nosuch.test.ts` | holds |", "missing: nosuch.test.ts"],
  ["| A. | S | `src/base/page.ts` | `tidy.test.ts`, *nosuch* | holds |", "not found: nosuch"],
  [
    `| A. | S | \`src/base/page.ts\` | ${HERE}; \`tidy.test.ts\`, *that the page names* | holds |`,
    "not found: that the page names",
  ],
  [`| A. | S | \`src/base/page.ts\` | ${HERE} | partly |`, "no verdict: A."],
  [`| A. | S | \`src/base/page.ts\` | ${HERE} | differs |`, "no verdict: A."],
  [
    `| A. | S | \`src/base/page.ts\` | ${HERE} | [differs](../decisions/0000-nosuch.md) |`,
    "missing: ../decisions/0000-nosuch.md",
  ],
  [`| A. | \`src/base/page.ts\` | ${HERE} | holds |`, "not five cells: A."],
])("a row that is wrong is noticed: %s", (row, mistake) => {
  expect(mistakes(row)).toContain(mistake);
});
