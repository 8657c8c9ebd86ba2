import { expect, test } from "vitest";
import { askPending } from "./job-life.ts";
import { LagMeter } from "./lag-meter.ts";

test("a failed request for the number of pending changes does not make the lag known", async () => {
  const lag = new LagMeter();
  const ended = new AbortController();
  /** Whether the lag was known before each request. */
  const known: boolean[] = [];
  const source = {
    pendingChangeCount: async () => {
      known.push(lag.isKnown);
      if (known.length === 1) throw new Error("unreachable");
      if (known.length === 3) ended.abort();
      return 0;
    },
  };
  const counts: unknown[] = [];
  const job = {
    parts: { runtime: { clock: { sleep: async () => {}, nowMs: () => 1000 } } },
    noteChangesPending: (count: unknown) => counts.push(count),
  };
  const measured = { lag, run: { hasBegun: true, progress: {} }, changesPending: undefined };
  await askPending(
    job as never,
    [measured] as never,
    measured as never,
    source as never,
    ended.signal,
  );
  expect(known).toEqual([false, false, true]);
  expect(counts).toEqual([undefined, 0]);
});
