/**
 * Many jobs lose the same server for hours, in virtual time: they are back soon after it is, and do not storm it.
 * `TANDEM_JOBS=1000` for more of them.
 */
import { afterEach, expect, test } from "vitest";
import { type Fetch, RequestFailedError } from "../../src/http-client/index.ts";
import { VirtualTime } from "../simulation/kernel/virtual-time.ts";
import { type Node, openNode } from "../support/open-node.ts";

const EPOCH_MS = Date.UTC(2026, 0, 1);
const JOB_COUNT = Number(process.env.TANDEM_JOBS ?? 500);
const OUTAGE_MS = 2 * 3_600_000;

const nodes: Node[] = [];
afterEach(async () => {
  for (const node of nodes.splice(0)) void node.stop();
});

/** A server with any number of empty databases, which is away until it comes back. */
function openServer(time: VirtualTime) {
  const server = {
    isAway: true,
    firstAnswerMs: undefined as number | undefined,
    /** When each database was asked for after the outage, for the first time. */
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

test(`of ${JOB_COUNT} jobs that lost a server for 2 h, 95 % run within 60 s of its first answer`, async () => {
  const time = new VirtualTime();
  const { server, fetch } = openServer(time);
  const node = await openNode({
    runtimeOver: (system) => ({
      ...system,
      clock: {
        nowMs: () => EPOCH_MS + time.nowMs,
        monotonicMs: () => time.nowMs,
        sleep: (durationMs, signal) => time.sleep(durationMs, signal),
      },
    }),
    fetch,
    // Pauses as long as CouchDB's: the outage's end must be noticed by other means.
    config: { penaltySecMin: 300, penaltySecMax: 172_800 },
  });
  nodes.push(node);
  const within = async (promise: Promise<unknown>): Promise<void> => {
    let isDone = false;
    const note = (): void => {
      isDone = true;
    };
    promise.then(note, note);
    expect(await time.run(time.nowMs + 600_000, () => isDone)).toBe(true);
    await promise;
  };
  await within(
    (async () => {
      await node.createDatabase("_replicator");
      await node.createDatabase("here");
      for (let number = 0; number < JOB_COUNT; number++) {
        const document = {
          source: `http://far/db-${number}`,
          target: "here",
          retries_per_request: 0,
          owner: null,
        };
        await node.put("_replicator", `job-${number}`, JSON.stringify(document));
      }
    })(),
  );
  node.start();
  await time.run(time.nowMs + OUTAGE_MS, () => false);
  const crashed = new Set(
    node.events
      .filter(({ name }) => name === "replication.crashed")
      .map(({ fields }) => fields.jobId),
  );
  expect(crashed.size).toBe(JOB_COUNT);
  // One question in five seconds for all of them.
  expect(server.probeCount).toBeLessThanOrEqual(OUTAGE_MS / 5000);
  expect(server.askedMs.size).toBe(0);
  server.isAway = false;
  await time.run(time.nowMs + 120_000, () => server.askedMs.size === JOB_COUNT);
  const first = server.firstAnswerMs ?? Number.NaN;
  const delays = [...server.askedMs.values()].map((ms) => ms - first).sort((a, b) => a - b);
  expect(delays[Math.ceil(JOB_COUNT * 0.95) - 1]).toBeLessThan(60_000);
  // Not all at once: no second has more than a tenth of them.
  const perSecond = new Map<number, number>();
  for (const ms of delays) {
    const second = Math.floor(ms / 1000);
    perSecond.set(second, (perSecond.get(second) ?? 0) + 1);
  }
  expect(Math.max(...perSecond.values())).toBeLessThanOrEqual(JOB_COUNT / 10);
});
