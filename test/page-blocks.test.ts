/**
 * Every shell block in README and docs is either run by a test, or listed with the reason why no
 * test runs it.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { documentationPages, obsoleteReasons, shellBlocks } from "./support/pages/page-blocks.ts";

/** Tests that run all blocks of their pages, and fail if they omit a block. */
const ALL_OF_ITS_PAGES = [
  "test/end-to-end/api-examples.test.ts",
  "test/end-to-end/page-commands.test.ts",
];
/** Tests that run the blocks of one page individually. The value contains the number of blocks. */
const BLOCKS_OF: Readonly<Record<string, readonly [test: string, count: number]>> = {
  "docs/coming-from-couchdb.md": ["test/end-to-end/operations/move.test.ts", 2],
  "docs/per-user-databases.md": ["test/end-to-end/operations/per-user-databases.test.ts", 4],
  "docs/whole-servers.md": ["test/end-to-end/operations/rules.test.ts", 4],
};

const pages = documentationPages().filter((page) =>
  shellBlocks(page).some(({ whyNotRun }) => whyNotRun === undefined),
);

test.each(pages)("a test runs the commands of %s", (page) => {
  const [name, count] = BLOCKS_OF[page] ?? [];
  if (name !== undefined) {
    expect(sourceOf(name)).toContain(page);
    expect(shellBlocks(page)).toHaveLength(count as number);
    return;
  }
  const isExample = page.startsWith("docs/api/");
  const tests = ALL_OF_ITS_PAGES.filter((each) => sourceOf(each).includes(`"${page}"`));
  expect(isExample ? ["api-examples"] : tests).toHaveLength(1);
});

test("every block that is listed with a reason exists", () => {
  expect(obsoleteReasons()).toEqual([]);
});

function sourceOf(name: string): string {
  const path = fileURLToPath(new URL(`../${name}`, import.meta.url));
  expect(existsSync(path)).toBe(true);
  return readFileSync(path, "utf8");
}
