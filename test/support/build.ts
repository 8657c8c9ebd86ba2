/**
 * Builds `dist` before the first test, without checking types: the modules, and unless all wanted tests are unit tests in
 * `src/`, the programs and the dashboard. Programs and threads that tests start must be those of the sources.
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const UNIT_TEST = /^(?:\.\/)?src\//;

export default function setup(project: TestProject): void {
  const patterns = project.vitest.filenamePattern ?? [];
  const isUnit = patterns.length > 0 && patterns.every((pattern) => UNIT_TEST.test(pattern));
  const tools = isUnit ? ["transpile"] : ["transpile", "bundle", "dashboard"];
  build(tools);
  project.onTestsRerun(() => build(tools));
}

function build(tools: readonly string[]): void {
  for (const tool of tools) {
    const { status } = spawnSync(process.execPath, [`tools/${tool}.mjs`], {
      cwd: ROOT,
      stdio: "inherit",
    });
    if (status !== 0) throw new Error(`tools/${tool}.mjs failed: tests would run an old build`);
  }
}
