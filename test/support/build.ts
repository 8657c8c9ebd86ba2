/**
 * Builds `dist` before the first test: the programs and threads that tests start run from there, and must be those of the sources.
 * What has not changed is not built again.
 */
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const COMPILER = createRequire(import.meta.url).resolve("typescript/bin/tsc");

export default function setup(project: TestProject): void {
  build();
  project.onTestsRerun(build);
}

function build(): void {
  for (const step of [[COMPILER, "-b"], ["tools/bundle.mjs"], ["tools/dashboard.mjs"]]) {
    const { status } = spawnSync(process.execPath, step, { cwd: ROOT, stdio: "inherit" });
    if (status !== 0) throw new Error("The sources do not compile: tests would run an old build");
  }
}
