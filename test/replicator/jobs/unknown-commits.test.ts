/**
 * Jobs on a store where the outcome of many commits is unknown. No job has to wait for its activity
 * timeout.
 */
import { afterEach, expect, test } from "vitest";
import { seededRandom } from "../../../src/databases/store.fixture.ts";
import { parseReplication } from "../../../src/replicator/index.ts";
import { type Node, openNode } from "../../support/open-node.ts";

const USER = { userName: null, isAdmin: true };
const IDS = Array.from({ length: 20 }, (_, number) => `doc-${number}`).sort();

let node: Node;
afterEach(() => node.stop());

test.each([1, 2, 3, 4, 5])(
  "a one-shot job runs to its end and a continuous job parks (seed %i)",
  async (seed) => {
    node = await openNode({
      faults: { random: seededRandom(seed), unknownRatio: 0.4 },
      config: { parkAfterSec: 0.01, statisticsIntervalSec: 0.01 },
    });
    node.start();
    await node.createDatabase("a");
    for (const id of IDS) await node.put("a", id, "{}");
    const once = { source: "a", target: "b", create_target: true };
    const jobId = await node.replicator.start(parseReplication(once), USER);
    const { kind } = await node.replicator.ended(jobId, new AbortController().signal);
    expect(kind).toBe("completed");
    expect(Object.keys(await node.content("b"))).toEqual(IDS);
    const forever = { ...once, target: "c", continuous: true };
    await node.replicator.start(parseReplication(forever), USER);
    await node.event("replication.parked");
    expect(Object.keys(await node.content("c"))).toEqual(IDS);
    const given = ["replication.abandoned", "service.failed"];
    expect(node.events.filter(({ name }) => given.includes(name))).toEqual([]);
  },
);
