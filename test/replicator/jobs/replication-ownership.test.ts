/**
 * Ownership of a replication. The first job that claims a replication owns it and keeps other jobs
 * from running it.
 */
import { beforeEach, expect, test } from "vitest";
import type { HeldJob } from "../../../src/jobs/index.ts";
import {
  parseReplication,
  REPLICATION_JOB_TYPE,
  ReplicationOwnership,
  type ReplicationState,
} from "../../../src/replicator/index.ts";
import { SUBSPACES } from "../../../src/server/layout.ts";
import { type Node, openNode } from "../../support/open-node.ts";

const ID = "0".repeat(32);
const REPLICATION = parseReplication({ source: "a", target: "b", continuous: true });

let node: Node;
let ownership: ReplicationOwnership;
let owner: string;

beforeEach(async () => {
  node = await openNode();
  ownership = new ReplicationOwnership(SUBSPACES.replicator, node.jobs);
  owner = await node.replicator.start(REPLICATION, { userName: "joe", isAdmin: true });
  expect((await claim(owner)).kind).toBe("owner");
});

const claim = (jobId: string) =>
  node.kv.transact((tx) => ownership.claim(tx, [ID], { jobId, userName: "joe" }));

const accept = () =>
  node.kv.transact(async (tx) => {
    const options = { dueBySec: 2 ** 36, countMax: 1 };
    const acceptance = await node.jobs.accept(tx, REPLICATION_JOB_TYPE, options);
    if (acceptance.kind === "none-due") throw new Error("No job is due");
    return acceptance.held[0] as HeldJob;
  });

/**
 * Starts the owner's run. Unless `state` is `running`, also ends the run, so that the job gets this
 * state.
 */
async function bringOwnerTo(state: ReplicationState | "parked"): Promise<void> {
  const held = await accept();
  const data = { ...(await node.kv.read((tx) => node.jobs.get(tx, held)))?.data, state };
  await node.kv.transact(async (tx) => {
    if (state === "running") return node.jobs.update(tx, held, data);
    if (["pending", "parked", "crashing"].includes(state)) await node.jobs.resubmit(tx, held, 5);
    await node.jobs.finish(tx, held, data);
  });
}

test.each(["pending", "running", "parked"] as const)(
  "a claim by another job returns the state of the owner: %s",
  async (state) => {
    await bringOwnerTo(state);
    expect(await claim("other")).toMatchObject({ kind: "duplicate", otherState: state });
  },
);

test("a job owns its replication even before its first run", async () => {
  expect(await claim("other")).toEqual({
    kind: "duplicate",
    otherJobId: owner,
    otherIsPersistent: false,
    otherState: "pending",
    otherName: expect.any(String),
  });
  expect((await claim(owner)).kind).toBe("owner");
});

test.each([
  ["pending", "duplicate"],
  ["running", "duplicate"],
  ["crashing", "owner"],
  ["completed", "owner"],
  ["failed", "owner"],
] as const)(
  "while the owner is %s, another job that claims the replication becomes its %s",
  async (state, expected) => {
    await bringOwnerTo(state);
    expect((await claim("other")).kind).toBe(expected);
    const jobOf = await node.kv.read((tx) => ownership.jobOf(tx, ID));
    expect(jobOf).toBe(expected === "owner" ? "other" : owner);
  },
);

test("a removed owner does not keep another job from running", async () => {
  await node.kv.transact((tx) => node.jobs.remove(tx, { type: REPLICATION_JOB_TYPE, id: owner }));
  expect((await claim("other")).kind).toBe("owner");
});
