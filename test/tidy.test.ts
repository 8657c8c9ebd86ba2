import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { checkSource, checkSources } from "../tools/tidy.ts";

test("the sources keep the rules", () => {
  expect(checkSources(fileURLToPath(new URL("../src", import.meta.url)))).toEqual([]);
});

test.each([
  ["an import against the direction", "kv/a.ts", 'import { x } from "../jobs/index.ts";'],
  ["an import past the index", "jobs/a.ts", 'import { x } from "../kv/tuple.ts";'],
  ["the clock in the core", "jobs/a.ts", "const now = Date.now();"],
  ["chance in the core", "base/a.ts", "Math.random();"],
  ["a forgotten mark", "cli/a.ts", "// FIXME"],
  ["a default export", "cli/a.ts", "export default 1;"],
])("%s is noticed", (_, path, text) => {
  expect(checkSource(path, text)).toHaveLength(1);
});

test("what is allowed is not noticed", () => {
  expect(checkSource("jobs/a.ts", 'import { x } from "../kv/index.ts";')).toEqual([]);
  expect(checkSource("host/a.ts", "const now = Date.now();")).toEqual([]);
  expect(checkSource("kv/tuple.test.ts", 'import { x } from "../host/index.ts";')).toEqual([]);
});
