/**
 * Builds `dist` before the first test, without type checking. Builds the modules and, unless only
 * unit tests in `src/` run, the programs and the dashboard. The programs and threads that tests
 * start must match the sources.
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const UNIT_TEST = /^(?:\.\/)?src\//;
const OPTIONS_WITH_VALUE = new Set(["--project", "-t", "--testNamePattern"]);

export default function setup(project: TestProject): void {
  // The command is `vitest run [options] [files]`.
  const files = process.argv.slice(3).filter((argument, index, all) => {
    return !argument.startsWith("-") && !OPTIONS_WITH_VALUE.has(all[index - 1] ?? "");
  });
  const isUnit = files.length > 0 && files.every((file) => UNIT_TEST.test(file));
  const tools = isUnit ? ["transpile"] : ["transpile", "bundle", "demo-data", "dashboard"];
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
