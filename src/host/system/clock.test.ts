import { afterEach, expect, test, vi } from "vitest";
import { systemClock } from "./clock.ts";

afterEach(() => {
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
