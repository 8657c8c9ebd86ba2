/** Runs each test with a limit of its own (`patience.ts`). */
import { type RunnerTestCase as Test, TestRunner } from "vitest";
import { patience } from "./patience.ts";

export default class PatientRunner extends TestRunner {
  async runTask(test: Test): Promise<void> {
    patience.heard();
    const run = TestRunner.getTestFn(test) as () => Promise<void>;
    await patience.until(`the test "${test.name}"`, Promise.resolve(run()));
  }
}
