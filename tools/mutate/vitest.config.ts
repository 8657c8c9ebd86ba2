/** Runs the tests without building first: in a tree with a planted fault, or for the survey. */
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type Reporter, type TestCase, type TestModule } from "vitest/node";
import { LongestFirst } from "../../test/support/runner/longest-first.ts";
import config from "../../vitest.config.ts";

const ORDER = (process.env.MUTATE_FILES ?? "").split(",");
const { globalSetup: _, sequence, ...test } = config.test ?? {};

/** Runs the longest files last, so that an interrupted survey covers most files. */
class LongestLast extends LongestFirst {
  override async sort(files: Parameters<BaseSequencer["sort"]>[0]) {
    return (await super.sort(files)).reverse();
  }
}

/** Keeps the order in which the files were named. */
class AsNamed extends BaseSequencer {
  override async sort(files: Parameters<BaseSequencer["sort"]>[0]) {
    const place = (id: string): number => ORDER.findIndex((file) => id.endsWith(`/${file}`));
    return [...files].sort((left, right) => place(left.moduleId) - place(right.moduleId));
  }
}

/** Prints each failure on one line, which `mutate.mjs` reads. */
class FailureLines implements Reporter {
  onTestCaseResult(testCase: TestCase): void {
    const { state, errors } = testCase.result();
    if (state !== "failed") return;
    const isHang = errors?.some(({ message }) =>
      /^(Nothing has happened|Not over after|Asked \d+ times)/.test(message),
    );
    const name = `${testCase.module.relativeModuleId} > ${testCase.fullName}`;
    this.#print(isHang === true ? `${name} (waits in vain)` : name);
  }

  onTestModuleEnd(module: TestModule): void {
    const [error] = module.errors();
    if (error !== undefined) this.#print(`${module.relativeModuleId}: ${firstLine(error.message)}`);
  }

  onTestRunEnd(_: readonly TestModule[], errors: readonly { readonly message: string }[]): void {
    const [error] = errors;
    if (error !== undefined) this.#print(`unhandled: ${firstLine(error.message)}`);
  }

  #print(line: string): void {
    process.stdout.write(`FAILED ${line}\n`);
  }
}

const firstLine = (text: string): string => text.split("\n")[0] as string;

const isSurvey = process.env.MUTATE_SURVEY !== undefined;
const survey = isSurvey
  ? { setupFiles: [fileURLToPath(new URL("survey.ts", import.meta.url))] }
  : {};

export default defineConfig({
  test: {
    ...test,
    root: fileURLToPath(new URL("../..", import.meta.url)),
    projects: (test.projects ?? []).map((project) => {
      if (typeof project !== "object" || !("test" in project)) return project;
      return { ...project, test: { ...project.test, ...survey } };
    }),
    sequence: { ...sequence, sequencer: isSurvey ? LongestLast : AsNamed },
    reporters: [new FailureLines()],
  },
});
