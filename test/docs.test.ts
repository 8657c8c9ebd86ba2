/**
 * Checks the documentation: links, the index of pages, the form of decisions, and versions of
 * FoundationDB.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const DECISIONS = join(ROOT, "docs/decisions");

const pages = [
  ...["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map((name) => join(ROOT, name)),
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join(ROOT, "docs", name)),
];

/** Returns the anchors of a page's headings, as GitHub generates them. */
function anchorsOf(page: string): Set<string> {
  const headings = readFileSync(page, "utf8").matchAll(/^#+ (.+)$/gm);
  return new Set(
    [...headings].map(([, heading]) =>
      (heading as string)
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

/** Returns the broken links of a page with their locations. */
function brokenLinks(page: string, text: string): string[] {
  return [...text.matchAll(/\]\((?!https?:)([^)\s]+)\)/g)].flatMap(([, link]) => {
    const [file = "", anchor] = (link as string).split("#");
    const target = file === "" ? page : join(dirname(page), file);
    const exists = existsSync(target) && (anchor === undefined || anchorsOf(target).has(anchor));
    return exists ? [] : [`${page.slice(ROOT.length)}: ${link}`];
  });
}

test("every link in the documentation leads to an existing page and heading", () => {
  expect(pages.flatMap((page) => brokenLinks(page, readFileSync(page, "utf8")))).toEqual([]);
  expect(brokenLinks(join(ROOT, "README.md"), "[a](docs/nosuch.md) [b](#nosuch)")).toHaveLength(2);
});

test("docs/index.md links to every page of docs", () => {
  const index = readFileSync(join(ROOT, "docs/index.md"), "utf8");
  const names = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md"));
  const missing = names.filter((name) => !index.includes(`](${name})`));
  expect(missing).toEqual(["index.md"]);
});

const PARTS = ["Context", "Decision", "Consequences"];

const decisions = readdirSync(DECISIONS).filter((name) => name !== "README.md");

test("the index of decisions lists each decision once", () => {
  const index = readFileSync(join(DECISIONS, "README.md"), "utf8");
  const listed = [...index.matchAll(/\]\((\d{4}-[^)]+\.md)\)/g)].map(([, name]) => name);
  expect(listed.toSorted()).toEqual(decisions.toSorted());
});

test.each(decisions)("decision %s has all sections", (name) => {
  const text = readFileSync(join(DECISIONS, name), "utf8");
  expect(text).toMatch(new RegExp(`^# ${Number(name.slice(0, 4))}\\. [A-Z]`));
  const parts = [...text.matchAll(/^\*\*(\w+)\.\*\*/gm)].map(([, part]) => part);
  expect(parts.filter((part) => part !== "Alternatives")).toEqual(PARTS);
});

test("every page and example names only FoundationDB versions that clusters.md lists as tested, and installs one package", () => {
  const clusters = readFileSync(join(ROOT, "docs/clusters.md"), "utf8");
  const [, header = ""] = /^\| \| FoundationDB (.+)$/m.exec(clusters) ?? [];
  const tried = versionsIn(header);
  expect(tried).toHaveLength(4);
  const [install, ...others] = new Set(clusters.match(INSTALLATION));
  expect([install, others]).toEqual([expect.stringContaining("--omit=dev"), []]);
  const examples = readdirSync(join(ROOT, "examples"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  const message = join(ROOT, "src/host/foundationdb/package.ts");
  const named = [...pages.filter((page) => !page.startsWith(DECISIONS)), ...examples, message];
  for (const page of named) {
    const text = readFileSync(page, "utf8");
    expect(
      versionsIn(text).filter((version) => !tried.includes(version)),
      page,
    ).toEqual([]);
    for (const command of text.match(INSTALLATION) ?? []) expect(command, page).toBe(install);
  }
});

const INSTALLATION = /npm install [^\n]*foundationdb@[\d.]+/g;

/** Returns the versions of FoundationDB's release series that a text names. */
function versionsIn(text: string): readonly string[] {
  return text.match(/(?<![\d.])(?:6\.[23]|7\.[1-4])\.\d+(?![\d.]*\d)/g) ?? [];
}
