/** Tests and hooks that wait indefinitely. `patience.test.ts` runs them. */
import { afterAll, beforeAll, beforeEach, describe, onTestFinished, test } from "vitest";
import { askUntil, patience } from "./patience.ts";

const never = new Promise<void>(() => {});

describe("a hook", () => {
  beforeAll(() => never);
  test("is never reached", () => {});
});

describe("a last hook", () => {
  afterAll(() => never);
  test("passes", () => {});
});

describe("a hook of each test", () => {
  beforeEach(() => never);
  test("is not reached either", () => {});
});

test("waits for nothing", () => never);

test("ends late", () => {
  onTestFinished(() => never);
});

test("asks without end", async () => {
  const changed = () => () => new Promise<void>((resolve) => setTimeout(resolve, 50));
  const ask = async () => {
    patience.heard();
    return 7;
  };
  await askUntil("an answer", { ask, passes: () => false, changed });
});
