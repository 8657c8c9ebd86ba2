/** Runs each test and each hook with its own limit (`patience.ts`). */
import { type RunnerTestSuite as Suite, type RunnerTestCase as Test, TestRunner } from "vitest";
import { patience, TEST_TICKS_MAX } from "./patience.ts";

type Hook = (...parts: never[]) => unknown;

const HOOKS = ["beforeAll", "beforeEach", "afterEach", "afterAll"] as const;

export default class PatientRunner extends TestRunner {
  override async onBeforeRunSuite(suite: Suite): Promise<void> {
    const hooks = TestRunner.getSuiteHooks(suite);
    for (const name of HOOKS) limitEach(hooks[name] as Hook[], `${name} of "${suite.name}"`);
    await super.onBeforeRunSuite(suite);
  }

  async runTask(test: Test): Promise<void> {
    const run = TestRunner.getTestFn(test) as () => Promise<void>;
    try {
      await limited(`the test "${test.name}"`, run)();
    } finally {
      // Vitest's types do not declare `onFinished`.
      const { onFinished = [] } = test as { readonly onFinished?: Hook[] };
      limitEach(onFinished, `onTestFinished of "${test.name}"`);
    }
  }
}

/**
 * Replaces each hook in a list by a hook with a time limit. Keeps Vitest's metadata, which is
 * stored on the hook function.
 */
function limitEach(hooks: Hook[], what: string): void {
  for (const [index, hook] of hooks.entries()) {
    hooks[index] = Object.assign(limited(what, hook), hook);
  }
}

function limited(what: string, run: Hook): Hook {
  return (...parts) => {
    patience.heard();
    return patience.until(what, (async () => run(...parts))(), TEST_TICKS_MAX);
  };
}
