/** The modules that the built program loads at startup. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const PROGRAM = fileURLToPath(new URL("../dist/program", import.meta.url));

/** Returns the packages that `file` and its static imports need. */
function packagesOf(file: string, seen = new Set<string>()): string[] {
  if (seen.has(file)) return [];
  seen.add(file);
  const text = readFileSync(join(PROGRAM, file), "utf8");
  const specifiers = [...text.matchAll(/^import .*?"([^"]+)";$/gm)].map((match) => match[1] ?? "");
  const packages = specifiers.filter((name) => !name.startsWith("./") && !name.startsWith("node:"));
  const own = specifiers.filter((name) => name.startsWith("./"));
  return [...packages, ...own.flatMap((name) => packagesOf(name.slice(2), seen))];
}

test.each([
  ["main.js", ["commander"]],
  ["committer-thread.js", ["lmdb"]],
  ["lmdb-lease-thread.js", ["lmdb"]],
  ["selector-thread.js", ["re2js"]],
  ["function-thread.js", ["@jitl/quickjs-wasmfile-release-sync", "quickjs-emscripten-core"]],
])("%s loads only the packages %j", (file, packages) => {
  expect([...new Set(packagesOf(file))].sort()).toEqual(packages);
});

test("the modules of the host import neither the API nor the replicator", () => {
  const host = fileURLToPath(new URL("../dist/host", import.meta.url));
  const files = readdirSync(host, { recursive: true, encoding: "utf8" });
  const loaded = files
    .filter((file) => file.endsWith(".js"))
    .flatMap(
      (file) =>
        readFileSync(join(host, file), "utf8").match(/"(\.\.\/)+[a-z-]+\/index\.js"/g) ?? [],
    );
  const layers = loaded.map((specifier) => specifier.split("/").at(-2));
  expect(layers).toContain("kv");
  expect(layers).not.toContain("api");
  expect(layers).not.toContain("replicator");
});
