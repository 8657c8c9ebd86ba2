/**
 * Many jobs cannot reach the same server for hours, in virtual time. They resume soon after the
 * server is reachable again, without overloading it. `TANDEM_JOBS=1000` sets the number of jobs.
 */
import { expect, test } from "vitest";
import { type Fetch, RequestFailedError } from "../../src/http-client/index.ts";
import type { VirtualTime } from "../simulation/kernel/virtual-time.ts";
import { World } from "../simulation/kernel/world.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const JOB_COUNT = Number(process.env.TANDEM_JOBS ?? 500);
const OUTAGE_MS = 2 * 3_600_000;

/** Opens a server with an empty database of every name. Requests fail while `isAway` is set. */
function openServer(time: VirtualTime) {
  const server = {
    isAway: true,
    firstAnswerMs: undefined as number | undefined,
    /** Time of the first request to each database after the outage, by database name. */
    askedMs: new Map<string, number>(),
    probeCount: 0,
  };
  const fetch: Fetch = async ({ method, url, signal }) => {
    await time.sleep(10, signal);
    const [, name = "", path = ""] = /^http:\/\/far\/([^/?]*)\/?(.*)$/.exec(url) ?? [];
    if (name === "") server.probeCount++;
    if (server.isAway) throw new RequestFailedError({ method, url, cause: "ECONNREFUSED" });
    server.firstAnswerMs ??= time.nowMs;
    if (name !== "" && !server.askedMs.has(name)) server.askedMs.set(name, time.nowMs);
    const answer = path.startsWith("_local")
      ? { status: 404, body: '{"error":"not_found"}' }
      : {
          status: 200,
          body: path.startsWith("_changes")
            ? '{"results":[],"last_seq":"0","pending":0}'
            : '{"update_seq":"0","instance_start_time":"0"}',
        };
    return {
      status: answer.status,
      headers: new Map(),
      body: (async function* () {
        yield new TextEncoder().encode(answer.body);
      })(),
      discard: () => {},
    };
  };
  return { server, fetch };
}

test(`95 % of ${JOB_COUNT} jobs run within 60 s of a server's first response after an outage of 2 h`, async () => {
  const world = new World("outages");
  const { time } = world;
  const { server, fetch } = openServer(time);
  // The pauses are as long as CouchDB's. The node therefore has to notice the end of the outage by
  // probes.
  const config = { penaltySecMin: 300, penaltySecMax: 172_800 };
  const node = openVirtualNode({ world, fetch, config });
  const crashed = new Set<unknown>();
  world.listeners.push((name, { jobId }) => {
    if (name === "replication.crashed") crashed.add(jobId);
  });
  await world.until(node.replicator.prepare());
  await node.createDatabase("_replicator");
  await node.createDatabase("here");
  for (let number = 0; number < JOB_COUNT; number++) {
    await node.put("_replicator", `job-${number}`, {
      source: `http://far/db-${number}`,
      target: "here",
      retries_per_request: 0,
      owner: null,
    });
  }
  const stopping = new AbortController();
  const probing = node.outages.run(stopping.signal);
  await node.start();
  await time.run(time.nowMs + OUTAGE_MS);
  expect(crashed.size).toBe(JOB_COUNT);
  // All jobs share one probe every five seconds.
  expect(server.probeCount).toBeLessThanOrEqual(OUTAGE_MS / 5000);
  expect(server.askedMs.size).toBe(0);
  server.isAway = false;
  await time.run(time.nowMs + 120_000, () => server.askedMs.size === JOB_COUNT);
  const first = server.firstAnswerMs ?? Number.NaN;
  const delays = [...server.askedMs.values()].map((ms) => ms - first).sort((a, b) => a - b);
  expect(delays[Math.ceil(JOB_COUNT * 0.95) - 1]).toBeLessThan(60_000);
  // Number of jobs that send their first request in each second. It must not exceed a tenth of all
  // jobs.
  const perSecond = new Map<number, number>();
  for (const ms of delays) {
    const second = Math.floor(ms / 1000);
    perSecond.set(second, (perSecond.get(second) ?? 0) + 1);
  }
  expect(Math.max(...perSecond.values())).toBeLessThanOrEqual(JOB_COUNT / 10);
  stopping.abort(new Error("The test is over"));
  await world.until(probing);
  await node.stop();
});
