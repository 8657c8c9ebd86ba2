import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { builtSources } from "./test/support/built-sources.ts";
import { LongestFirst } from "./test/support/longest-first.ts";

/** A test that waits for what never comes has to end some time. A busy machine is no reason: it may be many times slower. */
const PATIENCE_MS = 1_800_000;

export default defineConfig({
  plugins: [builtSources()],
  test: {
    include: ["src/**/*.test.ts", "src/**/*.fuzz.ts", "test/**/*.test.ts"],
    globalSetup: "./test/support/build.ts",
    // Native modules and child processes want processes of their own.
    pool: "forks",
    // A process runs many files: loading the modules again for each took a fifth of the time. So no module of the tests may keep
    // anything of one file for the next.
    isolate: false,
    server: { deps: { external: [/\/dist\//] } },
    // Many tests wait for processes more than they compute.
    maxWorkers: availableParallelism() + 1,
    sequence: { sequencer: LongestFirst },
    testTimeout: PATIENCE_MS,
    hookTimeout: PATIENCE_MS,
    reporters: ["default", "./test/support/closing-line-reporter.ts"],
  },
});
