import { expect, test } from "vitest";
import { RunMeter } from "./run-meter.ts";

const INSTALMENT_SEC = 15;
const FIRST = { type: "test", id: "first", lock: "1" };
const SECOND = { type: "test", id: "second", lock: "2" };

function open() {
  let nowMs = 5_000;
  const clock = { nowMs: () => 0, monotonicMs: () => nowMs, sleep: async () => {} };
  const pass = (durationSec: number): void => {
    nowMs += durationSec * 1000;
  };
  return { meter: new RunMeter(clock, INSTALMENT_SEC), pass };
}

test("a running job is charged once for each second beyond its prepayment", () => {
  const { meter, pass } = open();
  meter.start(FIRST, "g");
  pass(INSTALMENT_SEC);
  expect([...meter.takeBill()]).toEqual([]);
  pass(5);
  expect([...meter.takeBill()]).toEqual([["g", 5]]);
  expect([...meter.takeBill()]).toEqual([]);
  pass(40);
  expect([...meter.takeBill()]).toEqual([["g", 40]]);
  pass(2);
  meter.end(FIRST);
  expect([...meter.takeBill()]).toEqual([["g", 2]]);
  pass(100);
  expect([...meter.takeBill()]).toEqual([]);
});

test("a job that ends is refunded the unused prepayment", () => {
  const { meter, pass } = open();
  meter.start(FIRST, "g");
  pass(4);
  expect(meter.hasEnded).toBe(false);
  meter.end(FIRST);
  meter.end(FIRST);
  expect(meter.hasEnded).toBe(true);
  expect([...meter.takeBill()]).toEqual([["g", 4 - INSTALMENT_SEC]]);
  expect(meter.hasEnded).toBe(false);
});

test("a group is charged the sum of the run times of its jobs; jobs without a group are not charged", () => {
  const { meter, pass } = open();
  meter.start(FIRST, "g");
  pass(10);
  meter.start(SECOND, "g");
  meter.start({ ...SECOND, id: "plain" }, undefined);
  pass(20);
  expect([...meter.groups().keys()]).toEqual(["g"]);
  // The two jobs exceeded their prepaid instalments by 15 s and 5 s.
  expect([...meter.takeBill()]).toEqual([["g", 20]]);
});
