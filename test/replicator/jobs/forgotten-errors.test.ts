/** The count of a job's consecutive failures. A long run resets it. */
import { afterEach, expect, test } from "vitest";
import { parseReplication } from "../../../src/replicator/index.ts";
import { deferred } from "../../support/deferred.ts";
import { type Node, openNode } from "../../support/open-node.ts";
import { FAR_URL, openFarServer } from "../copying/far-server.fixture.ts";

const HEALTH_THRESHOLD_SEC = 1_000_000;
const USER = { userName: null, isAdmin: true };
const nodes: Node[] = [];

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

test.each([
  ["shorter than the health threshold counts as an additional failure", 0.9, 3],
  ["longer than the health threshold counts as the first failure again", 1.1, 1],
])("a failure that ends a run %s", async (_, thresholds, errorCount) => {
  let aheadMs = 0;
  let isLockedOut = false;
  let isFeedRead = false;
  const begun = deferred();
  const far = await openFarServer(async ({ url }, pass) => {
    const isFeed = url.includes("/source/_changes");
    // The run might request the first page of changes before it knows its start sequence.
    if (isFeed && isFeedRead) begun.resolve();
    const answer = await pass();
    if (isFeed && answer.status === 200) isFeedRead = true;
    return isLockedOut && url.includes("/source/") ? { ...answer, status: 403 } : answer;
  });
  const node = await openNode({
    fetch: far.fetch,
    config: { healthThresholdSec: HEALTH_THRESHOLD_SEC, penaltySecMin: 100_000 },
    runtimeOver: (system) => ({
      ...system,
      clock: { ...system.clock, nowMs: () => system.clock.nowMs() + aheadMs },
    }),
  });
  nodes.push(node);
  node.start();
  await node.createDatabase("b");
  const members = { source: `${FAR_URL}/source`, target: "b", continuous: true };
  const jobId = await node.replicator.start(parseReplication(members), USER);
  const count = (passes: (event: (typeof node.events)[number]) => boolean): number =>
    node.events.filter(passes).length;
  const crashed = (crashCount: number) =>
    node.event("replication.ended", () => {
      return count(({ fields: { state } }) => state === "crashing") === crashCount;
    });
  const errorCountNow = async () => (await node.replicator.find(jobId))?.data.errorCount;

  // The job fails twice because its source does not exist.
  await crashed(1);
  await node.replicator.commands.retry(jobId, { userName: null });
  await crashed(2);
  expect(await errorCountNow()).toBe(2);

  await far.ask("PUT /source");
  await node.replicator.commands.retry(jobId, { userName: null });
  await node.event("replication.started", () => {
    return count(({ name }) => name === "replication.started") === 3;
  });
  await begun.promise;
  aheadMs = thresholds * HEALTH_THRESHOLD_SEC * 1000;
  isLockedOut = true;
  // The change ends the feed's waiting request, and the feed's next request fails.
  await far.ask("PUT /source/one", { body: {} });
  await crashed(3);
  expect(await errorCountNow()).toBe(errorCount);
});
