import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import accepted from "../tools/accepted-advisories.json" with { type: "json" };
import {
  type AcceptedAdvisory,
  dependencyFaults,
  type LockedPackages,
  openAdvisories,
  productionPackages,
} from "../tools/dependencies.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const read = (file: string) => JSON.parse(readFileSync(`${root}${file}`, "utf8"));
const { packages }: { packages: LockedPackages } = read("package-lock.json");

test("production packages have a known licence and a checksum, but no install script", () => {
  expect(dependencyFaults(packages)).toEqual([]);
});

test("an unknown licence, a missing checksum, or an install script is detected", () => {
  const odd: LockedPackages = {
    "": {},
    "node_modules/a": { license: "GPL-3.0", integrity: "sha512-x" },
    "node_modules/a/node_modules/@scope/b": { license: "MIT", hasInstallScript: true },
    "node_modules/c": { dev: true, resolved: "https://registry.example/c.tgz" },
  };
  expect(dependencyFaults(odd)).toEqual([
    "a: licence GPL-3.0",
    "@scope/b: no checksum",
    "@scope/b: has an install script",
    "node_modules/c: contains the registry address",
  ]);
});

test("package.json declares exact versions", () => {
  const { dependencies, devDependencies } = read("package.json");
  for (const version of Object.values({ ...dependencies, ...devDependencies })) {
    expect(version).toMatch(/^\d+\.\d+\.\d+$/);
  }
});

test("the bill of materials lists exactly the production packages", () => {
  const { status, stdout } = spawnSync("npm", ["run", "--silent", "sbom"], {
    cwd: root,
    encoding: "utf8",
  });
  expect(status).toBe(0);
  const { bomFormat, components } = JSON.parse(stdout);
  expect(bomFormat).toBe("CycloneDX");
  const installed = new Set(productionPackages(packages).keys());
  const named = components.map(({ group, name }: { group?: string; name: string }) =>
    group === undefined ? name : `${group}/${name}`,
  );
  // Optional packages for other platforms are listed, but not installed here.
  expect(named.filter((name: string) => !installed.has(name))).toEqual([]);
  expect(named).toEqual(expect.arrayContaining(Object.keys(read("package.json").dependencies)));
});

test("an advisory is reported, unless the project states why it accepts the advisory", () => {
  const report = {
    vulnerabilities: {
      a: { severity: "high", via: [{ url: "https://x/advisories/GHSA-1", title: "leaks" }] },
      b: { severity: "high", via: ["a"] },
    },
  };
  expect(openAdvisories(report, [])).toEqual(["a: high: leaks (https://x/advisories/GHSA-1)"]);
  expect(openAdvisories(report, [{ id: "GHSA-1", reason: "not used" }])).toEqual([]);
  expect(() => openAdvisories({}, [])).toThrow("no report");
  for (const { id, reason } of accepted as readonly AcceptedAdvisory[]) {
    expect([id, reason]).toEqual([expect.stringMatching(/^GHSA-/), expect.stringMatching(/\w{3}/)]);
  }
});
