import { expect, test } from "vitest";
import { Waits } from "./waits.ts";

function open() {
  let nowMs = 0;
  const pauses: (() => void)[] = [];
  const waits = new Waits({ monotonicMs: () => nowMs });
  return {
    waits,
    pass: (durationMs: number) => {
      nowMs += durationMs;
    },
    begin: (reason: "budget" | "limiter") => {
      const over = waits.during(reason, new Promise<void>((resolve) => pauses.push(resolve)));
      return async () => {
        pauses.shift()?.();
        await over;
      };
    },
  };
}

test("a run is waiting if its requests are delayed for half of the time", async () => {
  const { waits, pass, begin } = open();
  const end = begin("budget");
  pass(500);
  await end();
  pass(500);
  expect(waits.take()).toBe("budget");
  pass(1000);
  expect(waits.take()).toBeUndefined();
});

test("a run is not waiting if a request is delayed briefly", async () => {
  const { waits, pass, begin } = open();
  const end = begin("budget");
  pass(499);
  await end();
  pass(501);
  expect(waits.take()).toBeUndefined();
});

test("concurrent waits count once, and a wait continues across checks", async () => {
  const { waits, pass, begin } = open();
  const [first, second] = [begin("limiter"), begin("limiter")];
  pass(300);
  await first();
  await second();
  pass(700);
  expect(waits.take()).toBeUndefined();
  const third = begin("limiter");
  pass(1000);
  expect(waits.take()).toBe("limiter");
  pass(1000);
  expect(waits.take()).toBe("limiter");
  await third();
});

test("a pause requested by a server is reported until it ends", () => {
  const { waits, pass } = open();
  waits.expect("limiter", 1500);
  pass(1000);
  expect(waits.take()).toBe("limiter");
  pass(1000);
  expect(waits.take()).toBe("limiter");
  pass(1000);
  expect(waits.take()).toBeUndefined();
});
