/**
 * docs/spec/seeds.md lists the source and the test of each requirement. Every reference must exist.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";

const PAGE = new URL("../docs/spec/seeds.md", import.meta.url);
const ROOT = new URL("../", import.meta.url);

function pathOf(path: string, base: URL): string {
  return fileURLToPath(new URL(path, base));
}

/**
 * Returns the titles of the tests in a file: the first arguments of `test(…)`, `test.each(…)(…)`
 * and similar calls.
 */
function titlesOf(path: string): readonly string[] {
  const known = titlesByPath.get(path);
  if (known !== undefined) return known;
  const titles: string[] = [];
  if (existsSync(path)) {
    const source = ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest);
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node) && isTest(node.expression)) {
        const title = textOf(node.arguments[0]);
        if (title !== undefined)
          titles.push(title, ...titlesOfRows(title, node.expression, source));
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  titlesByPath.set(path, titles);
  return titles;
}

/** Returns the text of a string literal. For a template, returns the text between its values. */
function textOf(node: ts.Node | undefined): string | undefined {
  if (node === undefined) return undefined;
  if (ts.isStringLiteralLike(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return undefined;
  return [node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)].join("…");
}

/**
 * Returns the titles that `test.each` generates from a title with `%s` and the first string of each
 * row.
 */
function titlesOfRows(
  title: string,
  callee: ts.Expression,
  source: ts.SourceFile,
): readonly string[] {
  if (!title.includes("%s") || !ts.isCallExpression(callee)) return [];
  const [given] = callee.arguments;
  const table =
    given !== undefined && ts.isIdentifier(given) ? constantOf(given.text, source) : given;
  const rows = table === undefined ? [] : unwrapped(table);
  return rows.flatMap((row) => {
    const text = textOf(ts.isArrayLiteralExpression(row) ? row.elements[0] : row);
    return text === undefined ? [] : [title.replace("%s", () => text)];
  });
}

function unwrapped(table: ts.Expression): readonly ts.Expression[] {
  if (ts.isAsExpression(table)) return unwrapped(table.expression);
  return ts.isArrayLiteralExpression(table) ? table.elements : [];
}

/** Returns the value of a constant in the file. */
function constantOf(name: string, source: ts.SourceFile): ts.Expression | undefined {
  const declared = source.statements
    .filter((statement) => ts.isVariableStatement(statement))
    .flatMap(({ declarationList }) => declarationList.declarations)
    .find((it) => ts.isIdentifier(it.name) && it.name.text === name);
  return declared?.initializer;
}

const titlesByPath = new Map<string, readonly string[]>();

/**
 * Returns whether the callee is `test`, a member of `test`, or the result of calling such a member.
 * Members that skip tests do not count.
 */
function isTest(callee: ts.Expression): boolean {
  if (ts.isIdentifier(callee)) return callee.text === "test";
  if (ts.isCallExpression(callee)) return isTest(callee.expression);
  if (!ts.isPropertyAccessExpression(callee)) return false;
  return !["skip", "todo"].includes(callee.name.text) && isTest(callee.expression);
}

/**
 * Returns a row's references to tests that do not exist. A title is looked up in the file named
 * before it.
 */
function testMistakes(cell: string): string[] {
  const found: string[] = [];
  let titles: readonly string[] = [];
  for (const [, file, title] of cell.matchAll(/`([^`]+)`|\*([^*]+)\*/g)) {
    if (title !== undefined) {
      if (!titles.some((it) => it.includes(title))) found.push(`not found: ${title}`);
      continue;
    }
    const path = pathOf(`${file?.startsWith("src/") ? "" : "test/"}${file}`, ROOT);
    titles = titlesOf(path);
    if (titles.length === 0) found.push(`missing: ${file}`);
  }
  return found;
}

/** Returns all mistakes in a row. */
function mistakes(row: string): string[] {
  const cells = row.split("|").map((cell) => cell.trim());
  const [, first = "", places = "", tests = ""] = cells;
  const [, requirement = first, source] = /^(.*[.]) \((.+)\)$/.exec(first) ?? [];
  const [, named = tests, link] = /^(.*?)(?:; (\[differs\].*))?$/.exec(tests) ?? [];
  const found = testMistakes(named);
  if (!/`[^`]+\.test\.ts`/.test(named)) found.push(`no test: ${requirement}`);
  if (cells.length !== 5) found.push(`not three cells: ${requirement}`);
  if (source === undefined) found.push(`no source: ${requirement}`);
  const files = [...places.matchAll(/`([^`]+)`/g)].map(([, file]) => String(file));
  if (files.length === 0) found.push(`no place: ${requirement}`);
  for (const file of files) {
    const exists = file.startsWith("src/") && existsSync(pathOf(file, ROOT));
    if (!exists) found.push(`missing: ${file}`);
  }
  const [, decision] = /^\[differs\]\((\.\.\/decisions\/\d{4}-[^)]+\.md)\)$/.exec(link ?? "") ?? [];
  if (link !== undefined && decision === undefined) found.push(`no decision: ${requirement}`);
  if (decision !== undefined && !existsSync(pathOf(decision, PAGE)))
    found.push(`missing: ${decision}`);
  return found;
}

const rows = readFileSync(PAGE, "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| ") && !/^\| (---|requirement )/.test(line));

test("every reference in docs/spec/seeds.md exists", () => {
  expect(rows.length).toBeGreaterThan(130);
  expect(rows.flatMap(mistakes)).toEqual([]);
});

const HERE = "`seeds.test.ts`, *every reference on the page*";

test.each([
  [`| A. (S) | \`src/nosuch.ts\` | ${HERE} |`, "missing: src/nosuch.ts"],
  [`| A. (S) | | ${HERE} |`, "no place: A."],
  ["| A. (S) | `src/base/page.ts` | awaited |", "no test: A."],
  ["| A. (S) | `src/base/page.ts` | `nosuch.test.ts` |", "missing: nosuch.test.ts"],
  ["| A. (S) | `src/base/page.ts` | `tidy.test.ts`, *nosuch* |", "not found: nosuch"],
  [
    `| A. (S) | \`src/base/page.ts\` | ${HERE}; \`tidy.test.ts\`, *reference on the page* |`,
    "not found: reference on the page",
  ],
  [
    // The file contains this text, but not as a title.
    `| A. (S) | \`src/base/page.ts\` | \`tidy.test.ts\`, *fileURLToPath* |`,
    "not found: fileURLToPath",
  ],
  [`| A. (S) | \`src/base/page.ts\` | ${HERE}; [differs] |`, "no decision: A."],
  [
    `| A. (S) | \`src/base/page.ts\` | ${HERE}; [differs](../decisions/0000-nosuch.md) |`,
    "missing: ../decisions/0000-nosuch.md",
  ],
  [`| A. (S) | \`src/base/page.ts\` | ${HERE} | |`, "not three cells: A."],
  [`| A. | \`src/base/page.ts\` | ${HERE} |`, "no source: A."],
])("a row with a mistake is rejected: %s", (row, mistake) => {
  expect(mistakes(row)).toContain(mistake);
});
