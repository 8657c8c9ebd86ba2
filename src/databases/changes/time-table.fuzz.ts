/**
 * Checks that a reader that starts at a time receives every later change, even if clocks are set
 * back.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { Versionstamp } from "../../kv/index.ts";
import type { TimeEntry } from "../records/time-record.ts";
import { ENTRIES_MAX, ENTRY_INTERVAL_MS, entryBefore, withEntry } from "./time-table.ts";

const stamp = (step: number): Versionstamp => {
  const bytes = new Uint8Array(12);
  new DataView(bytes.buffer).setUint32(0, step);
  return Versionstamp.fromBytes(bytes);
};
const stepOf = ({ versionstamp }: TimeEntry): number =>
  new DataView(versionstamp.bytes.buffer).getUint32(0);

/**
 * At each step the clock advances, and a change or an entry is written. The clock can be set back
 * after an entry.
 */
const history = fc
  .array(
    fc.record({
      passedMs: fc.oneof(fc.nat(3), fc.nat(500), fc.constant(9_999_999)),
      isChange: fc.boolean(),
      setBackMs: fc.oneof(fc.constant(0), fc.nat(9_999_999)),
    }),
    { maxLength: 80 },
  )
  .map((steps) => {
    let nowMs = 0;
    return steps.map(({ passedMs, isChange, setBackMs }) => {
      const clockMs = nowMs + passedMs + 1;
      nowMs = isChange ? clockMs : Math.max(0, clockMs - setBackMs);
      return { clockMs, isChange };
    });
  });

test("the entry before a time precedes all changes since that time", () => {
  fc.assert(
    fc.property(history, fc.integer({ min: 1, max: 8 }), fc.nat(), (steps, countMax, at) => {
      let table: readonly TimeEntry[] = [];
      for (const [step, { clockMs, isChange }] of steps.entries()) {
        if (isChange) continue;
        table = withEntry(table, { timeMs: clockMs, versionstamp: stamp(step) }, countMax);
        expect(table.length).toBeLessThanOrEqual(countMax);
      }
      const resetAt = at % (steps.length + 1);
      for (const since of [-1, resetAt]) {
        const known = table.filter((entry) => stepOf(entry) > since);
        for (const { clockMs: timeMs } of steps) {
          const found = entryBefore(known, timeMs);
          if (found === undefined) continue;
          const missed = steps.findIndex(({ clockMs, isChange }, step) => {
            return isChange && step > since && step < stepOf(found) && clockMs >= timeMs;
          });
          expect(missed).toBe(-1);
        }
      }
    }),
    { numRuns: 2_000 },
  );
});

test("a clock that was ahead has no effect on a database whose times were reset afterwards", () => {
  let table: readonly TimeEntry[] = [];
  const add = (timeMs: number, step: number) => {
    table = withEntry(table, { timeMs, versionstamp: stamp(step) });
  };
  for (let step = 0; step < 200; step++) add(step * ENTRY_INTERVAL_MS, step);
  add(10 ** 14, 200);
  for (let step = 201; step < 1_000; step++) add(step * ENTRY_INTERVAL_MS, step);
  const timeMs = 998.5 * ENTRY_INTERVAL_MS;
  expect(stepOf(entryBefore(table, timeMs) as TimeEntry)).toBe(199);
  const known = table.filter((entry) => stepOf(entry) > 200);
  expect(stepOf(entryBefore(known, timeMs) as TimeEntry)).toBe(998);
});

test("the gap between two entries is at most a fifth of their age", () => {
  let table: readonly TimeEntry[] = [];
  const versionstamp = stamp(1);
  for (let step = 1; step <= 60_000; step++) {
    const nowMs = step * ENTRY_INTERVAL_MS;
    table = withEntry(table, { timeMs: nowMs, versionstamp });
    if (step % 5_000 !== 0) continue;
    expect(table.length).toBe(ENTRIES_MAX);
    expect(table[0]?.timeMs).toBe(ENTRY_INTERVAL_MS);
    for (const [index, { timeMs }] of table.slice(1).entries()) {
      const gapMs = timeMs - (table[index] as TimeEntry).timeMs;
      expect(gapMs).toBeLessThanOrEqual(Math.max(ENTRY_INTERVAL_MS, 0.2 * (nowMs - timeMs)));
    }
  }
});
