import { expect, test } from "vitest";
import { openClock } from "../../http-client/fetch.fixture.ts";
import type { Endpoint } from "../endpoints/endpoint.ts";
import { onceQuiet } from "./when-quiet.ts";

test("does not report a run as idle if it copied a change while its source was queried", async () => {
  const clock = openClock();
  const startMs = clock.monotonicMs();
  const run = { hasWork: false, quietSinceMs: startMs, progress: { highestSequence: 7 } };
  const askedAtMs: number[] = [];
  const source = {
    info: async () => {
      askedAtMs.push(clock.monotonicMs() - startMs);
      // Simulates a change that arrives and is copied during the first query of the source.
      if (askedAtMs.length === 1) run.quietSinceMs = clock.monotonicMs();
      return { updateSequence: askedAtMs.length };
    },
    pendingChangeCount: async () => 0,
  } as unknown as Endpoint;
  const { signal } = new AbortController();
  const config = { parkAfterSec: 10 };
  expect(
    await onceQuiet(clock, [{ run: run as never, source }], config, () => false, signal),
  ).toEqual([2]);
  expect(askedAtMs).toEqual([10_000, 20_000]);
});
