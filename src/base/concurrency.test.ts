import { expect, test } from "vitest";
import { allTogether, Lanes, Semaphore } from "./concurrency.ts";

const FOREVER = new AbortController().signal;

/** Steps that the test completes by calling `next`; `underWay` is the number not completed yet. */
function openSteps() {
  const waiting: (() => void)[] = [];
  return {
    get underWay() {
      return waiting.length;
    },
    step: () => new Promise<void>((resolve) => waiting.push(resolve)),
    async next(count = 1) {
      for (const resolve of waiting.splice(0, count)) resolve();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test("a semaphore admits waiting tasks when it grows, and runs fewer tasks after it shrinks", async () => {
  const steps = openSteps();
  const semaphore = new Semaphore(1);
  const all = Promise.all(Array.from({ length: 5 }, () => semaphore.run(steps.step)));
  await steps.next(0);
  expect(steps.underWay).toBe(1);
  semaphore.resize(3);
  await steps.next(0);
  expect(steps.underWay).toBe(3);
  semaphore.resize(1);
  await steps.next();
  expect(steps.underWay).toBe(2);
  await steps.next();
  await steps.next();
  expect(steps.underWay).toBe(1);
  await steps.next();
  await steps.next();
  await all;
});

test("the number of lanes follows the limit, and all lanes end when no work is left", async () => {
  const steps = openSteps();
  let left = 10;
  const lanes = new Lanes(2, async () => {
    if (left === 0) return false;
    left--;
    await steps.step();
    return true;
  });
  const run = lanes.run(FOREVER);
  expect(steps.underWay).toBe(2);
  lanes.resize(4);
  expect(steps.underWay).toBe(4);
  lanes.resize(1);
  await steps.next(3);
  expect(steps.underWay).toBe(1);
  await steps.next();
  expect(steps.underWay).toBe(1);
  lanes.resize(100);
  expect(steps.underWay).toBe(6);
  await steps.next(6);
  await run;
  expect(left).toBe(0);
});

test("if several lanes finish a step together, only the excess ones end", async () => {
  const steps = openSteps();
  let isOver = false;
  const lanes = new Lanes(2, async () => {
    await steps.step();
    return !isOver;
  });
  const run = lanes.run(FOREVER);
  lanes.resize(1);
  await steps.next(2);
  expect(steps.underWay).toBe(1);
  isOver = true;
  await steps.next();
  await run;
});

test("a failing lane aborts the others, and no other begins", async () => {
  let begunCount = 0;
  const lanes: Lanes = new Lanes(3, async (signal) => {
    if (++begunCount === 3) throw new Error("third");
    await new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
    return true;
  });
  const run = lanes.run(FOREVER);
  await expect(run).rejects.toThrow("third");
  lanes.resize(9);
  expect(begunCount).toBe(3);
});

test("lanes abort with the signal of their run", async () => {
  const stopping = new AbortController();
  const lanes = new Lanes(1, async (signal) => {
    await new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    });
    return true;
  });
  const run = lanes.run(stopping.signal);
  stopping.abort(new Error("stopped"));
  await expect(run).rejects.toThrow("stopped");
});

test("concurrent tasks return their results in order, and the first failure aborts the others", async () => {
  const later = async (): Promise<number> => {
    await Promise.resolve();
    return 1;
  };
  const [number, text] = await allTogether(FOREVER, [later, async () => "two"]);
  expect([number, text]).toEqual([1, "two"]);
  const ended: unknown[] = [];
  const waiting = (taskSignal: AbortSignal) =>
    new Promise<void>((_, reject) => {
      taskSignal.addEventListener("abort", () => {
        ended.push(taskSignal.reason);
        reject(taskSignal.reason);
      });
    });
  const failure = new Error("No");
  const failing = allTogether(FOREVER, [waiting, () => Promise.reject(failure)]);
  await expect(failing).rejects.toBe(failure);
  expect(ended).toEqual([failure]);
});
