/**
 * test/couchdb-replicator/README.md maps CouchDB's tests to our tests. Every file, title and name
 * on the page must exist.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const PAGE = new URL("./couchdb-replicator/README.md", import.meta.url);

function read(path: string): string | undefined {
  const file = fileURLToPath(
    new URL(path.startsWith("src/") ? `../${path}` : path, import.meta.url),
  );
  return existsSync(file) ? readFileSync(file, "utf8") : undefined;
}

/** Returns the references in a row of the table that do not refer to an existing test. */
function mistakes(row: string): string[] {
  const [, theirs = "", ours = ""] = row.split("|");
  const paths = [...ours.matchAll(/`([^`]+\.test\.ts)`/g)].map(([, path]) => String(path));
  const texts = paths.map((path) => read(path) ?? `missing: ${path}`);
  const found: string[] = texts.filter((text) => text.startsWith("missing: "));
  const titles = [...ours.matchAll(/\*([^*]+)\*/g)].map(([, title]) => String(title));
  const isWithout = /^\s*no counterpart: \S/.test(ours);
  if (paths.length === 0 && !isWithout) found.push(`neither a test nor a reason: ${theirs}`);
  const names = [...theirs.matchAll(/`([^`]+)`/g)].map(([, name]) => String(name));
  // If the row contains no title of our tests, our tests must have the names of CouchDB's tests.
  for (const name of isWithout || titles.length > 0 ? titles : names) {
    if (!texts.some((text) => text.includes(name))) found.push(`not found: ${name}`);
  }
  return found;
}

const rows = readFileSync(PAGE, "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| ") && !/^\| (---|CouchDB )/.test(line));

test("every test named in test/couchdb-replicator/README.md exists", () => {
  expect(rows.length).toBeGreaterThan(60);
  expect(rows.flatMap(mistakes)).toEqual([]);
});

test.each([
  ["| `t_nosuch` | `couchdb-replicator/jobs.test.ts` |", "not found: t_nosuch"],
  ["| `x` | `couchdb-replicator/jobs.test.ts`, *no such title* |", "not found: no such title"],
  [
    "| `x` | `couchdb-replicator/nosuch.test.ts`, *x* |",
    "missing: couchdb-replicator/nosuch.test.ts",
  ],
  ["| `x` | none yet |", "neither a test nor a reason:  `x` "],
])("a row with a mistake is rejected: %s", (row, mistake) => {
  expect(mistakes(row)).toContain(mistake);
});
