/**
 * A clock that is an hour ahead and is corrected while jobs wait. See
 * docs/decisions/0190-due-times-are-wall-time.md.
 */
import { afterEach, describe, expect, test, vi } from "vitest";
import { type Fetch, RequestFailedError } from "../../src/http-client/index.ts";
import {
  ClockSteps,
  dueAfterStep,
  ParkedJobs,
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
} from "../../src/replicator/index.ts";
import { SUBSPACES } from "../../src/server/layout.ts";
import { VirtualTime } from "../simulation/kernel/virtual-time.ts";
import { type Node, openNode } from "../support/open-node.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const RIGHT_MS = Date.UTC(2026, 0, 1);
const HOUR_MS = 3_600_000;
const PAUSE_SEC = 300;

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

/** Creates a node's `ClockSteps`. `auditIntervalSec` is the maximum parking time. */
function clockStepsOf(
  node: Pick<Node, "runtime" | "kv" | "jobs">,
  auditIntervalSec = REPLICATOR_CONFIG_DEFAULT.auditIntervalSec,
): ClockSteps {
  const { runtime, kv, jobs } = node;
  const parked = new ParkedJobs(SUBSPACES.replicator, jobs);
  return new ClockSteps({ runtime, kv, jobs, parked, config: { auditIntervalSec } });
}

/**
 * Opens a node whose clock is an hour ahead, with a job that crashes repeatedly because its
 * source's server sends errors.
 */
async function openAhead(answer: Fetch, pauseSec = PAUSE_SEC) {
  const time = new VirtualTime();
  let aheadMs = HOUR_MS;
  const node: Node = await openNode({
    runtimeOver: (system) => ({
      ...system,
      clock: {
        nowMs: () => RIGHT_MS + aheadMs + time.nowMs,
        monotonicMs: () => time.nowMs,
        sleep: (durationMs, signal) => time.sleep(durationMs, signal),
      },
    }),
    fetch: answer,
    config: { penaltySecMin: pauseSec, penaltySecMax: 2 * pauseSec },
  });
  const stopping = new AbortController();
  stops.push(() => {
    stopping.abort(new Error("The test is over"));
    void node.stop();
  });
  let exists = false;
  const document = { source: "http://far/db", target: "here", retries_per_request: 0, owner: null };
  const adding = (async () => {
    await node.createDatabase("_replicator");
    await node.createDatabase("here");
    await node.put("_replicator", "job", JSON.stringify(document));
    exists = true;
  })();
  await time.run(60_000, () => exists);
  await adding;
  node.start();
  const crashCount = () => node.events.filter(({ name }) => name === "replication.crashed").length;
  await time.run(time.nowMs + 60_000, () => crashCount() > 0);
  expect(crashCount()).toBe(1);
  return {
    time,
    crashCount,
    watchClock: () => void clockStepsOf(node).run(stopping.signal),
    setRight: () => {
      aheadMs = 0;
    },
    /** Returns whether the job runs again within this number of seconds. */
    async runsAgain(withinSec: number): Promise<boolean> {
      const before = crashCount();
      await time.run(time.nowMs + withinSec * 1000, () => crashCount() > before);
      return crashCount() > before;
    },
  };
}

const failing: Fetch = async ({ method, url }) => ({
  status: 500,
  headers: new Map(),
  body: (async function* () {
    yield new TextEncoder().encode(`{"error":"broken","reason":"${method} ${url}"}`);
  })(),
  discard: () => {},
});

describe("a job that waits for a retry", () => {
  test("runs after its normal pause if the node's clock is corrected", async () => {
    const node = await openAhead(failing);
    node.watchClock();
    await node.time.run(node.time.nowMs + 30_000, () => false);
    node.setRight();
    // The job waits only for the rest of its normal pause.
    expect(await node.runsAgain(2 * PAUSE_SEC + 60)).toBe(true);
  });

  test("runs after its normal pause if the clock of the node that scheduled it was ahead", async () => {
    const node = await openAhead(failing);
    node.setRight();
    node.watchClock();
    expect(await node.runsAgain(2 * PAUSE_SEC + 60)).toBe(true);
  });

  test("runs when its server is reachable again, even if the last probe has a timestamp in the future", async () => {
    let isAway = true;
    const answer: Fetch = async (request) => {
      if (!isAway) return failing(request);
      throw new RequestFailedError({ ...request, cause: "ECONNREFUSED" });
    };
    const node = await openAhead(answer, 20_000);
    // After this time, the server is listed as unreachable.
    await node.time.run(node.time.nowMs + 30_000, () => false);
    node.setRight();
    isAway = false;
    expect(await node.runsAgain(60)).toBe(true);
  });
});

test.each([
  ["is not read by default", REPLICATOR_CONFIG_DEFAULT.auditIntervalSec, 0],
  ["is read if the job is due later than a job that parked now would be", 60, 1],
])("the data of a parked job %s", async (_, auditIntervalSec, readCount) => {
  const node = openVirtualNode({ config: { parkAfterSec: 10 } });
  const { world } = node;
  await node.start();
  for (const name of ["a", "b"]) await node.createDatabase(name);
  const body = { source: "a", target: "b", continuous: true };
  const user = { userName: null, isAdmin: true };
  await world.until(node.replicator.start(parseReplication(body), user));
  const isParked = () => node.names.includes("replication.parked");
  expect(await world.time.run(world.time.nowMs + 600_000, isParked)).toBe(true);
  const stopping = new AbortController();
  stops.push(() => {
    stopping.abort(new Error("The test is over"));
    void node.stop();
  });
  const read = vi.spyOn(node.jobs, "getMany");
  const { runtime } = node.simulated;
  void clockStepsOf({ ...node, runtime }, auditIntervalSec).run(stopping.signal);
  await world.time.run(world.time.nowMs + 5000);
  expect(read.mock.calls.length).toBe(readCount);
});

describe("the time at which a job is due", () => {
  const now = RIGHT_MS;
  const nowSec = now / 1000;
  const due = (dueInSec: number, aheadSec: number, schedule?: string, state = "crashing") => {
    const lastUpdatedMs = now + aheadSec * 1000;
    const replication = schedule === undefined ? undefined : { schedule };
    const job = { lastUpdatedMs, state, replication } as Parameters<typeof dueAfterStep>[1];
    const found = dueAfterStep(nowSec + dueInSec, job, now);
    return found === undefined ? undefined : found - nowSec;
  };

  test.each([
    ["moves by the amount by which the node's clock was ahead", due(3_700, 3_600), 100],
    ["becomes the current time if the job was due when it was last updated", due(3_500, 3_600), 0],
    ["stays if the clock was ahead by only a few seconds", due(3_700, 9), undefined],
    ["stays if the job was last updated in the past", due(3_700, -60), undefined],
    ["stays if the job is already due", due(-1, 3_600), undefined],
    ["stays if it is indefinite", due(2 ** 36 - nowSec, 3_600), undefined],
    [
      "moves for a job with an interval schedule",
      due(3_600 + 900, 3_600, "every 15m", "pending"),
      900,
    ],
    [
      "becomes the next time of the cron expression",
      due(7_200, 3_600, "30 * * * * UTC", "pending"),
      1_800,
    ],
    [
      "moves for a pause after a failure, even if the job has a schedule",
      due(3_660, 3_600, "30 * * * * UTC"),
      60,
    ],
    [
      "stays within the job's daily time window",
      due(3_660, 3_600, "between 04:00 and 05:00 UTC"),
      4 * 3_600,
    ],
  ])("%s", (_, found, expected) => {
    expect(found).toBe(expected);
  });
});
