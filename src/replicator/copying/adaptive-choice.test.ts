import { expect, test } from "vitest";
import { AdaptiveChoice } from "./adaptive-choice.ts";

const BULK_GET = { decay: 0.25, vainRatioMax: 0.5 };

function afterUses(count: number, usedOfTen: number, choice = new AdaptiveChoice(BULK_GET)) {
  for (let number = 0; number < count; number++) choice.record(10, usedOfTen, 0);
  return choice;
}

test("skips a request that was mostly useless, and retries it after 37 s", () => {
  const choice = afterUses(10, 1);
  expect(choice.isWorthwhile(0)).toBe(false);
  expect(choice.isWorthwhile(37_000)).toBe(false);
  expect(choice.isWorthwhile(37_001)).toBe(true);
});

test("decides by the latest results whether to repeat a request", () => {
  expect(afterUses(10, 9).isWorthwhile(0)).toBe(true);
  expect(afterUses(10, 9, afterUses(10, 0)).isWorthwhile(0)).toBe(true);
  expect(afterUses(10, 0, afterUses(10, 10)).isWorthwhile(0)).toBe(false);
});

test("skips a request immediately after one attempt without a response", () => {
  const choice = new AdaptiveChoice(BULK_GET);
  expect(choice.isGivenUp).toBe(false);
  choice.giveUp(0);
  expect(choice.isWorthwhile(1)).toBe(false);
  expect(choice.isGivenUp).toBe(true);
  choice.record(10, 0, 2);
  expect(choice.isGivenUp).toBe(false);
});

test("does not count a request for zero items as useless", () => {
  const choice = new AdaptiveChoice(BULK_GET);
  choice.record(0, 0, 0);
  expect(choice.isWorthwhile(0)).toBe(true);
});

test("skips a request that was marked as useless before the first attempt", () => {
  const choice = new AdaptiveChoice(BULK_GET);
  choice.expectVain(0);
  expect(choice.isWorthwhile(1)).toBe(false);
  expect(choice.isGivenUp).toBe(false);
  expect(choice.isWorthwhile(37_001)).toBe(true);
});
