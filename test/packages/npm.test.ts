/** The npm package, installed with its dependencies outside the checkout. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packPackage } from "../support/packages/packed.ts";
import { run } from "../support/packages/run.ts";

const directory = mkdtempSync(join(tmpdir(), "tandem-test-"));
const temporary = join(directory, "tmp");
/**
 * A cache with the downloads of this user's cache, but without the packages that npx has installed.
 */
const cache = join(directory, "cache");
const env = {
  ...process.env,
  TMPDIR: temporary,
  npm_config_cache: cache,
  npm_config_prefer_offline: "true",
};
let tarball: string;

beforeAll(() => {
  for (const folder of [temporary, cache]) mkdirSync(folder);
  const own = execFileSync("npm", ["config", "get", "cache"], { encoding: "utf8" }).trim();
  mkdirSync(join(own, "_cacache"), { recursive: true });
  symlinkSync(join(own, "_cacache"), join(cache, "_cacache"));
  tarball = packPackage(directory).tarball;
});
afterAll(() => rmSync(directory, { recursive: true }));

test("npm install --global installs a command whose demo copies and verifies databases", async () => {
  const prefix = join(directory, "prefix");
  const install = ["install", "--global", "--prefix", prefix, tarball];
  expect(await run("npm", install, { cwd: directory, env })).toMatchObject({ code: 0 });
  expect(readdirSync(join(prefix, "bin"))).toEqual(["tandem"]);
  expectCopies(await run(join(prefix, "bin/tandem"), ["demo"], { cwd: directory, env }));
});

test("npx runs the demo of the package without installing it", async () => {
  // Without this folder, npx would resolve the path from the nearest parent folder with packages.
  mkdirSync(join(directory, "node_modules"), { recursive: true });
  expectCopies(
    await run("npx", ["--yes", `./${basename(tarball)}`, "demo"], { cwd: directory, env }),
  );
});

function expectCopies({ code, output }: { readonly code: number | null; readonly output: string }) {
  expect([code, code === 0 ? "" : output]).toEqual([0, ""]);
  for (const database of ["films", "countries"]) {
    expect(output).toMatch(new RegExp(`${database}: .*no differences`));
  }
  expect(readdirSync(temporary).filter((name) => name.startsWith("tandem"))).toEqual([]);
}
