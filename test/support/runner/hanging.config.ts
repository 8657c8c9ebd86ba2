/** Configuration for running the tests and hooks of `hanging.fixture.ts`, which never finish. */
import { defineConfig } from "vitest/config";

const PATIENCE_MS = 120_000;

export default defineConfig({
  test: {
    include: ["test/support/runner/hanging.fixture.ts"],
    runner: "./test/support/runner/patient-runner.ts",
    reporters: ["default"],
    testTimeout: PATIENCE_MS,
    hookTimeout: PATIENCE_MS,
  },
});
