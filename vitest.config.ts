import { availableParallelism } from "node:os";
import { defineConfig, type TestProjectInlineConfiguration } from "vitest/config";
import { builtSources } from "./test/support/built-sources.ts";
import { LONG_TESTS } from "./test/support/runner/long-tests.ts";
import { LongestFirst } from "./test/support/runner/longest-first.ts";

/**
 * Time limit that ends a run whose event loop is blocked. Each test and hook has a lower limit, in
 * ticks (`test/support/runner/patience.ts`).
 */
const PATIENCE_MS = 1_800_000;

function filesOf(
  name: string,
  files: { include: string[]; exclude?: string[] },
): TestProjectInlineConfiguration {
  return {
    plugins: [builtSources()],
    test: {
      name,
      ...files,
      // Native modules and child processes require separate processes.
      pool: "forks",
      // A process runs many files without loading the modules again, which would take a fifth of
      // the time. Test modules must therefore not carry state from one file to the next.
      isolate: false,
      runner: "./test/support/runner/patient-runner.ts",
      server: { deps: { external: [/\/dist\//] } },
      testTimeout: PATIENCE_MS,
      hookTimeout: PATIENCE_MS,
    },
  };
}

export default defineConfig({
  test: {
    projects: [
      filesOf("quick", {
        include: ["src/**/*.test.ts", "src/**/*.fuzz.ts", "test/**/*.test.ts"],
        exclude: [...LONG_TESTS],
      }),
      filesOf("long", { include: [...LONG_TESTS] }),
    ],
    globalSetup: "./test/support/build.ts",
    // Many tests mostly wait for other processes, so one more worker than cores is useful.
    maxWorkers: availableParallelism() + 1,
    sequence: { sequencer: LongestFirst },
    reporters: ["default", "./test/support/runner/closing-line-reporter.ts"],
  },
});
