import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import {
  checkCycles,
  checkFolders,
  checkOtherFolders,
  checkSource,
  checkSources,
} from "../tools/tidy.ts";

test("the sources follow the rules", () => {
  expect(checkSources(fileURLToPath(new URL("../src", import.meta.url)))).toEqual([]);
});

test("no folder contains more files than allowed", () => {
  expect(checkFolders(fileURLToPath(new URL("..", import.meta.url)))).toEqual([]);
});

test("a folder with more files than allowed is detected", () => {
  const root = mkdtempSync(join(tmpdir(), "tidy-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  for (const folder of ["src", "test/many", "bench", "tools"]) {
    mkdirSync(join(root, folder), { recursive: true });
  }
  for (let number = 0; number < 33; number++) {
    writeFileSync(join(root, `test/many/${number}.ts`), "");
  }
  expect(checkFolders(root)).toEqual(["test/many: 33 files; divide it by subject (32 at most)"]);
});

test("comments in test, bench and tools follow the rules", () => {
  expect(checkOtherFolders(fileURLToPath(new URL("..", import.meta.url)))).toEqual([]);
});

test("comments in test, bench and tools that break the rules are detected", () => {
  const root = mkdtempSync(join(tmpdir(), "tidy-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  for (const folder of ["bench", "test/kv", "tools"]) {
    mkdirSync(join(root, folder), { recursive: true });
  }
  writeFileSync(join(root, "bench/a.mjs"), "// Who reads waits.");
  writeFileSync(join(root, "test/kv/a.test.ts"), "/** The key, which nobody reads. */");
  writeFileSync(join(root, "tools/a.c"), `/* ${"x".repeat(98)} */`);
  expect(checkOtherFolders(root).map((problem) => problem.split(": ")[0])).toEqual([
    "bench/a.mjs:1",
    "test/kv/a.test.ts:1",
    "tools/a.c:1",
  ]);
});

test.each([
  ["an import of a higher layer", "kv/a.ts", 'import { x } from "../jobs/index.ts";'],
  ["an import past the index", "jobs/a.ts", 'import { x } from "../kv/tuple.ts";'],
  [
    "an import past the index from a nested folder",
    "api/jobs/a.ts",
    'import { x } from "../../kv/tuple.ts";',
  ],
  [
    "an import of the replicator by an ordinary resource",
    "api/edits.ts",
    'import { x } from "../replicator/index.ts";',
  ],
  ["use of the clock in the core", "jobs/a.ts", "const now = Date.now();"],
  ["use of randomness in the core", "base/a.ts", "Math.random();"],
  ["a FIXME comment", "cli/a.ts", "// FIXME"],
  ["JSON.parse in a file that is not listed", "cli/a.ts", "  return JSON.parse(text);"],
  ["an encoding function that throws", "cli/a.ts", "encodeURIComponent(id);"],
  ["a decoding function that throws", "cli/a.ts", "text.map(decodeURIComponent);"],
  ["a default export", "cli/a.ts", "export default 1;"],
  ["a comment that begins with What", "kv/a.ts", "/** What a commit wrote. */"],
  ["a comment of several lines that begins with Of", "kv/a.ts", "/**\n * Of one run.\n */"],
  ["a comment after slashes that begins with Who", "kv/a.ts", "  // Who reads waits."],
  ["a word to avoid", "kv/a.ts", "/** The key, which nobody reads. */"],
  ["a long comment", "kv/a.ts", `// ${"x".repeat(98)}`],
])("%s is detected", (_, path, text) => {
  expect(checkSource(path, text)).toHaveLength(1);
});

test("imports, calls and comments that follow the rules are accepted", () => {
  expect(checkSource("jobs/a.ts", 'import { x } from "../kv/index.ts";')).toEqual([]);
  expect(checkSource("replicator/run/a.ts", 'import { x } from "../jobs/b.ts";')).toEqual([]);
  expect(
    checkSource("api/replication/a.ts", 'import { x } from "../../replicator/index.ts";'),
  ).toEqual([]);
  expect(checkSource("base/json/json-value.ts", "JSON.parse(text)")).toEqual([]);
  expect(checkSource("api/a.ts", " * As `JSON.parse` does.")).toEqual([]);
  expect(checkSource("api/a.test.ts", "JSON.parse(text)")).toEqual([]);
  expect(checkSource("kv/a.ts", "/** The rows.\n * What follows is free. */")).toEqual([]);
  expect(checkSource("host/a.ts", "const now = Date.now();")).toEqual([]);
  expect(checkSource("kv/tuple.test.ts", 'import { x } from "../host/index.ts";')).toEqual([]);
});

test("a cycle of imports is detected, even if the files import only types", () => {
  const sources = new Map([
    ["documents/a.ts", 'import { b } from "./b.ts";\nexport { d } from "./d.ts";'],
    ["documents/b.ts", 'import type {\n  C,\n} from "./inner/c.ts";'],
    ["documents/inner/c.ts", 'import { a } from "../a.ts";'],
    ["documents/d.ts", 'import { b } from "./b.ts";'],
  ]);
  const cycle = "documents/a.ts > documents/b.ts > documents/inner/c.ts";
  expect(checkCycles(sources)).toEqual([`imports in a cycle: ${cycle}`]);
  expect(checkCycles(new Map([...sources].filter(([path]) => !path.endsWith("/c.ts"))))).toEqual(
    [],
  );
});

test.each([
  ["a module that is loaded later", 'const b = await import("./b.ts");'],
  ["a type of a module", 'type B = typeof import("./b.ts");'],
])("a cycle through %s is detected", (_, line) => {
  const sources = new Map([
    ["cli/a.ts", line],
    ["cli/b.ts", 'import type { A } from "./a.ts";'],
  ]);
  expect(checkCycles(sources)).toEqual(["imports in a cycle: cli/a.ts > cli/b.ts"]);
});

test("a cycle of folders is detected, even if their files do not form a cycle", () => {
  const sources = new Map([
    ["api/documents/a.ts", 'import { b } from "../queries/b.ts";'],
    ["api/queries/b.ts", 'import { shared } from "../shared.ts";'],
    ["api/queries/c.ts", 'import { d } from "../documents/d.ts";'],
    ["api/documents/d.ts", ""],
    ["api/shared.ts", ""],
  ]);
  expect(checkCycles(sources)).toEqual(["imports in a cycle: api/documents > api/queries"]);
  sources.delete("api/queries/c.ts");
  expect(checkCycles(sources)).toEqual([]);
});
