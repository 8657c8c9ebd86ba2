import { expect, test } from "vitest";
import { createSystemRuntime } from "../../host/index.ts";
import { BudgetMeter } from "./budget-meter.ts";

/**
 * Creates a meter whose reservations can be used immediately. Also returns the reserved amounts.
 */
function openMeter(perSec: number) {
  const reserved: number[] = [];
  const meter = new BudgetMeter({
    clock: createSystemRuntime().clock,
    rate: () => perSec,
    reserve: async (amount) => {
      reserved.push(amount);
      return 0;
    },
    changed: () => new AbortController().signal,
  });
  return { meter, reserved };
}

test("spends only reserved amounts, and reserves enough for a tenth of a second", async () => {
  const { meter, reserved } = openMeter(20);
  const { signal } = new AbortController();
  await meter.spend(1, signal);
  expect(reserved).toEqual([2]);
  await meter.spend(1, signal);
  expect(reserved).toEqual([2]);
  await meter.spend(5, signal);
  expect(reserved).toEqual([2, 5]);
  await meter.spend(1, signal);
  expect(reserved).toEqual([2, 5, 2]);
});
