/** The script that builds and tags a release, run in a clone of the repository. */
import { execFileSync, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PARTS = ["--without", "deb", "--without", "image"];

let clone: string;

beforeAll(() => {
  clone = mkdtempSync(join(tmpdir(), "tandem-clone-"));
  execFileSync("git", ["clone", "--quiet", ROOT, clone]);
  git("config", "user.name", "Release");
  git("config", "user.email", "release@example.com");
});

afterAll(() => {
  rmSync(clone, { recursive: true, force: true });
});

function git(...flags: readonly string[]): string {
  return execFileSync("git", flags, { cwd: clone, encoding: "utf8" }).trim();
}

function release(...flags: readonly string[]) {
  const { status, stderr } = spawnSync("node", ["tools/release.mjs", ...flags], {
    cwd: clone,
    encoding: "utf8",
  });
  return { status, stderr };
}

test.each([
  [["1.0"], 'the version is "1.0"; expected MAJOR.MINOR.PATCH'],
  [["9.9.9"], "CHANGELOG.md has no section ## [9.9.9]"],
  [["0.1.0", "--without", "docs"], "--without docs; expected deb or image"],
])("release %j is refused: %s", (flags, reason) => {
  const head = git("rev-parse", "HEAD");
  expect(release(...flags)).toMatchObject({ status: 1, stderr: `release: ${reason}\n` });
  expect(git("rev-parse", "HEAD")).toBe(head);
  expect(git("status", "--porcelain")).toBe("");
});

test("a changed work tree is refused", () => {
  writeFileSync(join(clone, "new-file"), "");
  expect(release("0.1.0").stderr).toContain("the work tree has changes");
  rmSync(join(clone, "new-file"));
});

test("a release has a package, its bill of materials, checksums, provenance and a tag", () => {
  expect(release("0.1.0", ...PARTS)).toMatchObject({ status: 0 });
  const folder = join(clone, "dist/release");
  expect(readdirSync(folder).sort()).toEqual([
    "NOTES.md",
    "SHA256SUMS",
    "couch-tandem-0.1.0.cdx.json",
    "couch-tandem-0.1.0.tgz",
    "provenance.json",
  ]);
  execFileSync("sha256sum", ["--check", "SHA256SUMS"], { cwd: folder });
  const sums = readFileSync(join(folder, "SHA256SUMS"), "utf8");
  const { subject, predicate } = JSON.parse(readFileSync(join(folder, "provenance.json"), "utf8"));
  for (const { name, digest } of subject) expect(sums).toContain(`${digest.sha256}  ${name}\n`);
  expect(subject).toHaveLength(2);
  const lock = readFileSync(join(clone, "package-lock.json"));
  expect(predicate.buildDefinition.resolvedDependencies).toEqual([
    { name: "source", digest: { gitCommit: git("rev-parse", "v0.1.0^{commit}") } },
    {
      name: "package-lock.json",
      digest: { sha256: createHash("sha256").update(lock).digest("hex") },
    },
  ]);
  const bill = JSON.parse(readFileSync(join(folder, "couch-tandem-0.1.0.cdx.json"), "utf8"));
  const names = bill.components.map(({ name }: { readonly name: string }) => name);
  expect(names).toContain("lmdb");
  expect(names).not.toContain("vitest");
  expect(readFileSync(join(clone, "CHANGELOG.md"), "utf8")).toMatch(/## \[0\.1\.0\] - \d{4}-/);
  expect(git("tag", "--list", "--format=%(contents)", "v0.1.0")).toContain("### Replication");

  expect(release("0.1.0", ...PARTS).stderr).toBe("release: the tag v0.1.0 exists\n");
});
