import { afterEach, expect, test, vi } from "vitest";
import { SLICE_MS } from "../../base/index.ts";
import { systemClock } from "./clock.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

test.each([1, 1_000, 2 ** 31 - 1, 2 ** 31, 100 * 86_400_000])(
  "sleeps for %i ms, even for longer than a timer of Node.js can",
  async (durationMs) => {
    vi.useFakeTimers();
    let isOver = false;
    const sleeping = systemClock.sleep(durationMs).then(() => {
      isOver = true;
    });
    await vi.advanceTimersByTimeAsync(durationMs - 1);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(isOver).toBe(true);
    await sleeping;
  },
);

test.each([1_000, 2 ** 32])("a sleep of %i ms ends when its signal aborts", async (durationMs) => {
  vi.useFakeTimers();
  const stopping = new AbortController();
  const sleeping = systemClock.sleep(durationMs, stopping.signal);
  const ended = expect(sleeping).rejects.toThrow("enough");
  await vi.advanceTimersByTimeAsync(10);
  stopping.abort(new Error("enough"));
  await ended;
});

test.each([
  ["a whole time slice", SLICE_MS, 6],
  ["half a time slice", SLICE_MS / 2, 3],
  ["no time", 0, 2],
])(
  "three tasks that twice sleep for 0 ms and then use %s take turns",
  async (_, usedMs, turnCount) => {
    let nowMs = performance.now();
    vi.spyOn(performance, "now").mockImplementation(() => nowMs);
    const turns = new Set<number>();
    let turn = 0;
    let isOver = false;
    const count = (): void => {
      turn++;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const task = async (): Promise<void> => {
      for (let slice = 0; slice < 2; slice++) {
        await systemClock.sleep(0);
        turns.add(turn);
        await Promise.resolve();
        nowMs += usedMs;
      }
    };
    await Promise.all([task(), task(), task()]);
    isOver = true;
    expect(turns.size).toBe(turnCount);
  },
);

test("a sleep of 0 ms ends with its signal's reason", async () => {
  const stopping = new AbortController();
  const sleeping = systemClock.sleep(0, stopping.signal);
  stopping.abort(new Error("enough"));
  await expect(sleeping).rejects.toThrow("enough");
  await expect(systemClock.sleep(0, stopping.signal)).rejects.toThrow("enough");
});
