import { expect, test } from "vitest";
import { allTogether, runInTurns, Semaphore } from "./concurrency.ts";

const FOREVER = new AbortController().signal;

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });

/**
 * Returns steps that the test completes by calling `next`. `underWay` is the number of unfinished
 * steps.
 */
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

test("runInTurns runs as many tasks concurrently as the current limit allows, until all tasks are done", async () => {
  const steps = openSteps();
  let left = 10;
  const turns = new Semaphore(2);
  const run = runInTurns(FOREVER, turns, async () => (left-- > 0 ? steps.step : undefined));
  const underWay = async (): Promise<number> => {
    await steps.next(0);
    return steps.underWay;
  };
  expect(await underWay()).toBe(2);
  turns.resize(4);
  expect(await underWay()).toBe(4);
  turns.resize(1);
  await steps.next(3);
  expect(await underWay()).toBe(1);
  await steps.next();
  expect(await underWay()).toBe(1);
  turns.resize(100);
  expect(await underWay()).toBe(6);
  await steps.next(6);
  await run;
  expect(turns.isIdle).toBe(true);
});

test("a failing task aborts the other tasks, and no more tasks are started", async () => {
  let begunCount = 0;
  let fail = (_error: Error): void => {};
  const failed = new Promise<never>((_, reject) => {
    fail = reject;
  });
  const run = runInTurns(FOREVER, new Semaphore(9), async () => {
    if (++begunCount > 3) return failed;
    if (begunCount < 3) return aborted;
    return async () => {
      fail(new Error("third"));
      throw new Error("third");
    };
  });
  await expect(run).rejects.toThrow("third");
  expect(begunCount).toBe(4);
});

test("aborting the signal of runInTurns aborts its tasks", async () => {
  const stopping = new AbortController();
  const { signal } = stopping;
  let isBegun = false;
  const run = runInTurns(signal, new Semaphore(2), async () => {
    if (isBegun) return aborted(signal);
    isBegun = true;
    return aborted;
  });
  await new Promise((resolve) => setImmediate(resolve));
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
