import { expect, test } from "vitest";
import { createSystemRuntime } from "../../host/index.ts";
import { BodyBudget } from "./body-budget.ts";

const MIB = 1_048_576;
const never = new AbortController().signal;
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A budget whose clock only advances when `pass` is called. */
function open(bodyMemoryBytesMax: number) {
  const { clock } = createSystemRuntime();
  let nowMs = 0;
  const sleepers = new Set<() => void>();
  const stopped = {
    ...clock,
    monotonicMs: () => nowMs,
    sleep: (_: number, signal?: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        sleepers.add(resolve);
        signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
      }),
  };
  return {
    budget: new BodyBudget(stopped, { bodyMemoryBytesMax }),
    pass(ms: number): void {
      nowMs += ms;
      for (const wake of sleepers) wake();
    },
  };
}

test("bodies whose total size exceeds the budget wait until other requests are answered", async () => {
  const { budget } = open(4 * MIB);
  const [first, second, exceeding] = [budget.open(), budget.open(), budget.open()];
  await first.hold(3 * MIB, never);
  await exceeding.hold(2 * MIB, never);
  let isHeld = false;
  const waiting = second.hold(3 * MIB, never).then(() => {
    isHeld = true;
  });
  await settled();
  expect(isHeld).toBe(false);
  first.release();
  exceeding.release();
  await waiting;
  expect(budget.heldBytes).toBe(3 * MIB);
  second.release();
  second.release();
  expect(budget.heldBytes).toBe(0);
});

test("a body that waits longer than ten seconds is rejected because of overload", async () => {
  const { budget, pass } = open(4 * MIB);
  for (let body = 0; body < 2; body++) await budget.open().hold(4 * MIB, never);
  const waiting = budget.open().hold(MIB, never);
  await settled();
  pass(10_000);
  await expect(waiting).rejects.toMatchObject({ code: "API_OVERLOADED" });
});

test("short bodies never wait, and one body at a time can exceed the budget", async () => {
  const { budget } = open(MIB);
  const large = budget.open();
  await large.hold(64 * MIB, never);
  await budget.open().hold(65_536, never);
  large.release();
  expect(budget.heldBytes).toBe(0);
});

test("a disconnected client leaves the queue", async () => {
  const { budget } = open(MIB);
  for (let body = 0; body < 2; body++) await budget.open().hold(MIB, never);
  const leaving = new AbortController();
  const waiting = budget.open().hold(MIB, leaving.signal);
  leaving.abort(new Error("The client has disconnected"));
  await expect(waiting).rejects.toThrow("has disconnected");
});
