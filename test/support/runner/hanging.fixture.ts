/** Tests and hooks that wait indefinitely. `patience.test.ts` runs them. */
import { afterAll, beforeAll, beforeEach, describe, onTestFinished, test } from "vitest";
import { askUntil, patience } from "./patience.ts";

const never = new Promise<void>(() => {});

describe("a hanging beforeAll hook", () => {
  beforeAll(() => never);
  test("prevents the tests of its group", () => {});
});

describe("a hanging afterAll hook", () => {
  afterAll(() => never);
  test("does not prevent the tests of its group", () => {});
});

describe("a hanging beforeEach hook", () => {
  beforeEach(() => never);
  test("prevents each test", () => {});
});

test("never ends", () => never);

test("has a cleanup that never ends", () => {
  onTestFinished(() => never);
});

test("polls indefinitely", async () => {
  const changed = () => () => new Promise<void>((resolve) => setTimeout(resolve, 50));
  const ask = async () => {
    patience.heard();
    return 7;
  };
  await askUntil("an answer", { ask, passes: () => false, changed });
});
