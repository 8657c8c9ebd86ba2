/**
 * Preparing a run, which includes reading the filter on which the job's id depends. The sources in
 * these tests are slow or never respond. In virtual time.
 */
import { expect, test } from "vitest";
import { type Fetch, RequestFailedError } from "../../../src/http-client/index.ts";
import { parseReplication } from "../../../src/replicator/index.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const USER = { userName: "joe", isAdmin: false };
const FOREVER = new AbortController().signal;
const BODY = { source: "http://source.test:5984/a", target: "b", filter: "d/f" };
/** Option with a request timeout that is longer than all time limits of the run. */
const PATIENT = { connection_timeout: 10_000_000 };

/** A server that accepts requests and never responds. `gone` is the number of aborted requests. */
function silentServer(): {
  readonly fetch: Fetch;
  readonly counts: { asked: number; gone: number };
} {
  const counts = { asked: 0, gone: 0 };
  return {
    counts,
    fetch: ({ signal }) =>
      new Promise((_, reject) => {
        counts.asked++;
        signal.addEventListener("abort", () => {
          counts.gone++;
          reject(signal.reason);
        });
      }),
  };
}

test("a job whose source does not send the filter keeps its lock, and fails within the time limit", async () => {
  const { fetch, counts } = silentServer();
  const node = openVirtualNode({ fetch, config: { activityTimeoutSec: 8, stallTimeoutSec: 60 } });
  const { world, replicator } = node;
  await node.start();
  const id = await world.until(replicator.start(parseReplication({ ...BODY, ...PATIENT }), USER));
  expect(await world.until(replicator.ended(id, FOREVER))).toEqual({
    kind: "failed",
    failure: {
      error: "timeout",
      reason:
        "The filter in `_design/d` of the source `http://source.test:5984/a/` could not be read within 60 s",
    },
  });
  expect(world.time.nowMs).toBeGreaterThanOrEqual(60_000);
  expect(world.time.nowMs).toBeLessThan(65_000);
  expect(counts).toEqual({ asked: 1, gone: 1 });
  expect(node.names).not.toContain("jobs.expired");
  await node.stop();
});

test("a continuous job whose source does not send the filter counts an error and pauses before the next run", async () => {
  const { fetch } = silentServer();
  const node = openVirtualNode({
    fetch,
    config: { activityTimeoutSec: 8, stallTimeoutSec: 60, penaltySecMin: 100 },
  });
  const { world, replicator } = node;
  await node.start();
  const body = { ...BODY, ...PATIENT, continuous: true };
  const id = await world.until(replicator.start(parseReplication(body), USER));
  await world.time.run(30_000);
  expect((await world.until(replicator.find(id)))?.state).toBe("running");
  await world.time.run(70_000);
  const entry = await world.until(replicator.find(id));
  expect(entry).toMatchObject({ state: "crashing", data: { errorCount: 1 } });
  expect(entry?.data.failure?.error).toBe("timeout");
  await node.stop();
});

test("removing a job that is reading its filter aborts the request immediately", async () => {
  const { fetch, counts } = silentServer();
  const node = openVirtualNode({ fetch });
  const { world, replicator } = node;
  await node.start();
  const id = await world.until(replicator.start(parseReplication({ ...BODY, ...PATIENT }), USER));
  await world.time.run(5000, () => counts.asked === 1);
  await world.until(replicator.cancel(id, USER));
  await world.time.run(world.time.nowMs + 100, () => counts.gone === 1);
  expect(counts).toEqual({ asked: 1, gone: 1 });
  expect(node.names).toContain("replication.halted");
  await node.stop();
});

test("pausing a job that is reading its filter takes effect immediately", async () => {
  const { fetch, counts } = silentServer();
  const node = openVirtualNode({ fetch });
  const { world, replicator } = node;
  await node.start();
  const body = { ...BODY, ...PATIENT, continuous: true };
  const id = await world.until(replicator.start(parseReplication(body), USER));
  await world.time.run(5000, () => counts.asked === 1);
  expect(await world.until(replicator.commands.pause(id, { userName: "joe" }))).toBe("done");
  await world.time.run(world.time.nowMs + 100, () => counts.gone === 1);
  expect(counts).toEqual({ asked: 1, gone: 1 });
  await world.time.run(world.time.nowMs + 1000);
  expect(await world.until(replicator.find(id))).toMatchObject({ state: "pending" });
  await node.stop();
});

test("a job keeps its lock during its startup jitter", async () => {
  const refusing: Fetch = async ({ method, url }) => {
    throw new RequestFailedError({ method, url, cause: "ECONNREFUSED" });
  };
  const node = openVirtualNode({
    fetch: refusing,
    config: { activityTimeoutSec: 8, startupJitterMs: 1_000_000 },
  });
  const { world, replicator } = node;
  await node.start();
  const { filter: _, ...unfiltered } = BODY;
  await world.until(replicator.start(parseReplication(unfiltered), USER));
  await world.time.run(400_000);
  expect(node.names).not.toContain("jobs.expired");
  await node.stop();
});

test("an ended job stays ended if its node shuts down before it retries the job's failed documents", async () => {
  const { fetch } = silentServer();
  const node = openVirtualNode({ fetch, config: { startupJitterMs: 1_000_000 } });
  const { world, kv, jobs, replicator } = node;
  await world.until(replicator.prepare());
  const id = await world.until(replicator.start(parseReplication(BODY), USER));
  const name = { type: "replication", id };
  const ended = kv.transact(async (tx) => {
    const job = await jobs.get(tx, name);
    await jobs.resubmit(tx, name, 0, { ...job?.data, state: "completed", result: {} });
  });
  await world.until(ended);
  await node.start();
  await world.time.run(1000, () => node.names.includes("replication.accepted"));
  await node.stop();
  expect(await world.until(replicator.find(id))).toMatchObject({
    state: "completed",
    data: { result: {} },
  });
});

test("a continuous job keeps its lock even if its source does not change for a long time", async () => {
  const node = openVirtualNode({ config: { activityTimeoutSec: 8, parkAfterSec: 0 } });
  const { world, replicator } = node;
  await node.start();
  await node.createDatabase("a");
  const body = { source: "a", target: "b", create_target: true, continuous: true };
  const id = await world.until(
    replicator.start(parseReplication(body), { userName: "joe", isAdmin: true }),
  );
  await world.time.run(400_000);
  expect((await world.until(replicator.find(id)))?.state).toBe("running");
  expect(node.names.filter((name) => name === "replication.started")).toHaveLength(1);
  expect(node.names).not.toContain("jobs.expired");
  await node.stop();
});
