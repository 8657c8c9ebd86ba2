import fc from "fast-check";
import { expect, test } from "vitest";
import { LagMeter } from "./lag-meter.ts";

/** An event that happens `afterMs` after the previous event. */
const step = fc.record({
  kind: fc.constantFrom("read", "arrived", "announced"),
  count: fc.nat(20),
  afterMs: fc.nat(5000),
});

/** Reference implementation: records the discovery time of each change. */
class Model {
  readonly #knownAtMs: number[] = [];
  readCount = 0;
  arrivedCount = 0;

  know(count: number, nowMs: number): void {
    while (this.#knownAtMs.length < count) this.#knownAtMs.push(nowMs);
  }

  forget(count: number): void {
    this.#knownAtMs.length = Math.min(this.#knownAtMs.length, count);
  }

  get sinceMs(): number | undefined {
    return this.#knownAtMs[this.arrivedCount];
  }
}

test("measures how long the oldest change has been pending, accurate to a second", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const meter = new LagMeter();
      const model = new Model();
      let nowMs = 1_000_000;
      for (const { kind, count, afterMs } of steps) {
        nowMs += afterMs;
        if (kind === "read") {
          meter.read(count, nowMs);
          model.readCount += count;
          model.know(model.readCount, nowMs);
        } else if (kind === "arrived") {
          const arrivedCount = Math.min(count, model.readCount - model.arrivedCount);
          meter.arrived(arrivedCount);
          model.arrivedCount += arrivedCount;
        } else {
          meter.announced(meter.arrivedCount, count, nowMs);
          const known = Math.max(model.readCount, model.arrivedCount + count);
          model.forget(known);
          model.know(known, nowMs);
        }
        const { sinceMs } = meter;
        expect(sinceMs === undefined).toBe(model.sinceMs === undefined);
        if (sinceMs === undefined || model.sinceMs === undefined) continue;
        expect(sinceMs).toBeLessThanOrEqual(model.sinceMs);
        expect(model.sinceMs - sinceMs).toBeLessThan(1000);
      }
    }),
  );
});

test("a job that never catches up has the lag of its oldest pending change", () => {
  const meter = new LagMeter();
  for (let second = 0; second < 10_000; second++) {
    meter.read(10, second * 1000);
    if (second >= 30) meter.arrived(10);
  }
  const lagMs = 9_999_000 - (meter.sinceMs ?? 0);
  expect(lagMs).toBeGreaterThanOrEqual(29_000);
  expect(lagMs).toBeLessThanOrEqual(31_000);
});

test("overestimates the lag if discovery times had to be dropped", () => {
  const meter = new LagMeter();
  for (let second = 0; second < 1000; second++) meter.read(1, second * 1000);
  for (let arrived = 1; arrived < 1000; arrived++) {
    meter.arrived(1);
    expect(meter.sinceMs).toBeLessThanOrEqual(arrived * 1000);
    expect(meter.sinceMs).toBeGreaterThan((arrived - 33) * 1000);
  }
  meter.arrived(1);
  expect(meter.sinceMs).toBeUndefined();
});

test("changes left over from earlier runs stay pending until they arrive or the source reports no pending changes", () => {
  const arrived = new LagMeter({ sinceMs: 5, pending: 3 });
  arrived.read(3, 1000);
  arrived.arrived(2);
  expect(arrived.sinceMs).toBe(5);
  arrived.arrived(1);
  expect(arrived.sinceMs).toBeUndefined();

  const unknown = new LagMeter({ sinceMs: 5, pending: undefined });
  unknown.read(3, 1000);
  unknown.arrived(3);
  expect(unknown.sinceMs).toBe(5);
  unknown.announced(3, 0, 2000);
  expect(unknown.sinceMs).toBeUndefined();
});

test("the lag is unknown before the first read or announcement", () => {
  const meter = new LagMeter();
  expect(meter.isKnown).toBe(false);
  meter.announced(0, undefined, 10);
  expect([meter.isKnown, meter.sinceMs]).toEqual([true, undefined]);
});
