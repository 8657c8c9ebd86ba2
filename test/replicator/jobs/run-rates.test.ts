/**
 * Statistics of runs for each minute of the last hour. Each process counts its runs and stores the
 * counts in its report, and readers add up the reports.
 */
import { expect, test } from "vitest";
import { Notifier } from "../../../src/base/index.ts";
import { NodeReporter, type RunCounts } from "../../../src/replicator/index.ts";
import { RunMinutes } from "../../../src/replicator/nodes/run-rates.ts";
import { replicatorKeys } from "../../../src/replicator/replicator-keys.ts";
import { SUBSPACES } from "../../../src/server/layout.ts";
import { RunTally } from "../../../src/server/metrics/run-tally.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const counts = (startCount: number, failureCount: number, documentCount: number): RunCounts => ({
  startCount,
  failureCount,
  documentCount,
});

test("a change is counted in the minute in which the process notices it", () => {
  const minutes = new RunMinutes();
  expect(minutes.note(counts(2, 0, 10), 61_000)).toEqual({
    startMs: 60_000,
    counts: counts(2, 0, 10),
  });
  expect(minutes.note(counts(3, 1, 15), 119_000).counts).toEqual(counts(3, 1, 15));
  expect(minutes.note(counts(3, 2, 20), 120_000)).toEqual({
    startMs: 120_000,
    counts: counts(0, 1, 5),
  });
});

test("a process derives the counts from the events of its runs", () => {
  const heard: string[] = [];
  const tally = new RunTally({ event: (name) => void heard.push(name) });
  const jobId = "a";
  const failure = { jobId, error: "e", reason: "r" };
  tally.event("replication.started", { jobId, replicationId: "r", hasSucceeded: false });
  tally.event("replication.copied", { jobId, documentCount: 7, byteCount: 0 });
  tally.event("replication.copied", { jobId, documentCount: 5, byteCount: 0 });
  tally.event("replication.crashed", { ...failure, pauseSec: 2 });
  tally.event("replication.failed", failure);
  tally.event("replication.stalled", { jobId, stallCount: 1, reason: "r" });
  tally.event("replication.reported", { jobId });
  expect(tally.totals).toEqual(counts(1, 3, 12));
  expect(heard).toHaveLength(7);
});

test("the hour includes the counts of all processes, even stopped ones, and drops older minutes", async () => {
  const own = openVirtualNode({});
  const { world, simulated, replicator, cleanUp } = own;
  await world.until(replicator.prepare());
  const { runtime, kv } = simulated;
  const totals = [counts(0, 0, 0), counts(0, 0, 0)];
  const stopping = [new AbortController(), new AbortController()];
  const running = totals.map((_, index) =>
    new NodeReporter({
      runtime,
      kv,
      subspace: SUBSPACES.replicator,
      identity: { node: "tandem@test", processId: String(index), version: "1" },
      scheduler: {
        worker: undefined,
        registered: new Notifier(),
        slots: 1,
        runningCount: 0,
        setDraining: () => {},
      },
      measureProcess: () => ({ memoryBytes: 1, eventLoopDelayMs: 0 }),
      measureHosts: () => [],
      measureRuns: () => totals[index] ?? counts(0, 0, 0),
    }).run((stopping[index] as AbortController).signal),
  );
  const hour = () => world.until(replicator.nodes.rates());
  const rowCount = async (): Promise<number> => {
    const range = replicatorKeys(SUBSPACES.replicator).runRate.range();
    return (await world.until(kv.read((tx) => tx.getRangePage(range)))).entries.length;
  };
  const last = async () => (await hour()).findLast((minute) => minute.counts !== undefined);

  totals[0] = counts(3, 1, 100);
  totals[1] = counts(2, 0, 11);
  await world.time.run(world.time.nowMs + 10_000);
  expect(await last()).toMatchObject({ counts: counts(5, 1, 111) });

  // The last report of a stopped process still counts.
  totals[1] = counts(2, 2, 11);
  stopping[1]?.abort();
  await world.until(running[1] as Promise<void>);
  expect(await last()).toMatchObject({ counts: counts(5, 3, 111) });
  const rows = await hour();
  expect(rows).toHaveLength(60);
  expect(rows[0]?.counts).toBeUndefined();

  // After a minute, the counts belong to the previous minute. After an hour, the clean-up removes
  // them from the store.
  await world.time.run(world.time.nowMs + 60_000);
  expect((await hour()).at(-2)).toMatchObject({ counts: counts(5, 3, 111) });
  await world.time.run(world.time.nowMs + 3_600_000);
  const before = await rowCount();
  await world.until(cleanUp.once());
  // Both processes have a row for the first minute.
  expect(await rowCount()).toBeLessThan(before);
  expect(await rowCount()).toBeLessThanOrEqual(61);
  expect((await hour()).every((minute) => minute.counts?.documentCount === 0)).toBe(true);
  stopping[0]?.abort();
  await world.until(running[0] as Promise<void>);
});
