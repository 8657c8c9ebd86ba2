import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "src/**/*.fuzz.ts", "test/**/*.test.ts"],
    globalSetup: "./test/support/build.ts",
    // Native modules and child processes want processes of their own.
    pool: "forks",
    testTimeout: 30_000,
    hookTimeout: 30_000,
    reporters: ["default", "./test/support/closing-line-reporter.ts"],
  },
});
