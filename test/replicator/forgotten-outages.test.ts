/**
 * Probes of an unreachable server. The node sends them only while a job waits for the server. In
 * virtual time.
 */
import { expect, test } from "vitest";
import { type Fetch, RequestFailedError } from "../../src/http-client/index.ts";
import { parseReplication } from "../../src/replicator/index.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const JOE = { userName: "joe", isAdmin: true };
const MINUTE_MS = 60_000;
/** Number of probes that the node sends to an unreachable server per minute. */
const PROBES_A_MINUTE = 12;
/** Number of jobs. It exceeds the number of jobs that one transaction reads. */
const JOB_COUNT = 120;

test("a server is no longer probed when the last job that waited for it is gone", async () => {
  let probeCount = 0;
  const fetch: Fetch = async ({ method, url }) => {
    if (url === "http://far/") probeCount++;
    throw new RequestFailedError({ method, url, cause: "ECONNREFUSED" });
  };
  const node = openVirtualNode({ fetch, config: { penaltySecMin: 300 } });
  const { world, replicator } = node;
  const stopping = new AbortController();
  const probing = node.outages.run(stopping.signal);
  await node.start();
  await node.createDatabase("here");
  const pass = (ms: number): Promise<boolean> => world.time.run(world.time.nowMs + ms);
  const body = { target: "here", continuous: true, retries_per_request: 0 };
  const ids: string[] = [];
  for (let number = 0; number < JOB_COUNT; number++) {
    const replication = parseReplication({ ...body, source: `http://far/db-${number}` });
    ids.push(await world.until(replicator.start(replication, JOE)));
  }
  await pass(MINUTE_MS);
  const [stays = "", ...others] = ids;
  const cancel = (id: string) => world.until(replicator.commands.cancel(id, JOE));
  for (const id of others) await cancel(id);
  await pass(MINUTE_MS);
  const before = probeCount;
  await pass(MINUTE_MS);
  expect(probeCount).toBe(before + PROBES_A_MINUTE);
  expect((await world.until(replicator.find(stays)))?.state).toBe("crashing");
  await cancel(stays);
  await pass(MINUTE_MS);
  const last = probeCount;
  await pass(60 * MINUTE_MS);
  expect(probeCount).toBe(last);
  stopping.abort(new Error("The test is over"));
  await world.until(probing);
  await node.stop();
});

/**
 * Statuses that only the server itself can send, and statuses that a gateway sends if the server
 * behind it is down.
 */
test.each([
  [200, true],
  [301, true],
  [401, true],
  [404, true],
  [500, true],
  [502, false],
  [503, false],
  [504, false],
  [599, false],
])(
  "a server that answers a probe with %i counts as reachable again: %s",
  async (status, isBack) => {
    let isAway = true;
    const requests: string[] = [];
    const fetch: Fetch = async ({ method, url }) => {
      requests.push(url);
      if (isAway || url !== "http://far/") {
        throw new RequestFailedError({ method, url, cause: "ECONNREFUSED" });
      }
      return { status, headers: new Map(), body: (async function* () {})(), discard: () => {} };
    };
    const node = openVirtualNode({ fetch, config: { penaltySecMin: 3_600 } });
    const { world, replicator } = node;
    const stopping = new AbortController();
    const probing = node.outages.run(stopping.signal);
    await node.start();
    await node.createDatabase("here");
    const pass = (ms: number): Promise<boolean> => world.time.run(world.time.nowMs + ms);
    const asked = { source: "http://far/db", target: "here", retries_per_request: 0 };
    await world.until(replicator.start(parseReplication({ ...asked, continuous: true }), JOE));
    await pass(MINUTE_MS);
    isAway = false;
    requests.length = 0;
    await pass(MINUTE_MS);
    expect(node.names.includes("replication.outage-over")).toBe(isBack);
    // A job whose server is reachable again runs long before its pause of an hour ends.
    expect(requests.some((url) => url.startsWith("http://far/db"))).toBe(isBack);
    stopping.abort(new Error("The test is over"));
    await world.until(probing);
    await node.stop();
  },
);
