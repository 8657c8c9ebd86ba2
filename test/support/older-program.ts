/**
 * The program of an earlier commit, built from git. This commit is the last tag before the current
 * commit. If there are no tags, it is the last commit whose stores have format 2.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const LAST_OF_FORMAT_2 = "dae1dd37edc04beeb3a75dbb2d2b5453cd36b826";

/** Builds the program in an empty folder, and returns the folder. */
export function buildOlderProgram(directory: string): string {
  const files = ["bin", "src", "tools", "package.json", "tsconfig.base.json"];
  const archive = execFileSync("git", ["archive", olderCommit(), ...files], {
    cwd: ROOT,
    maxBuffer: 2 ** 28,
  });
  execFileSync("tar", ["-x", "-C", directory], { input: archive });
  symlinkSync(join(ROOT, "node_modules"), join(directory, "node_modules"));
  for (const tool of ["transpile", "bundle"]) {
    execFileSync(process.execPath, [`tools/${tool}.mjs`], { cwd: directory });
  }
  return directory;
}

function olderCommit(): string {
  const { status, stdout } = spawnSync("git", ["describe", "--tags", "--abbrev=0", "HEAD^"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  return status === 0 ? stdout.trim() : LAST_OF_FORMAT_2;
}
