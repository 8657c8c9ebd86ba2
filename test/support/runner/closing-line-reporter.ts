/** Ends the test output with a machine-readable line: `N passed, N failed`. */
import type { Reporter, TestModule, TestRunEndReason } from "vitest/node";

export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(
    modules: readonly TestModule[],
    unhandledErrors: readonly unknown[],
    reason: TestRunEndReason,
  ): void {
    const counts = { passed: 0, failed: 0, skipped: 0, pending: 0 };
    for (const module of modules) {
      for (const test of module.children.allTests()) counts[test.result().state]++;
      // A file that failed to load has no tests, but counts as a failure.
      counts.failed += module.errors().length;
    }
    const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : "";
    const failedCount = counts.failed + counts.pending + unhandledErrors.length;
    // If a run ended before its first test, it has not passed.
    const failed = reason === "passed" ? failedCount : Math.max(1, failedCount);
    // The default reporter prints its summary in the same tick. This line has to come after the
    // summary.
    process.once("exit", () => {
      process.stdout.write(`${counts.passed} passed, ${failed} failed${skipped}\n`);
    });
  }
}
