/** Two jobs that want the same replication (RFC 016, "Replication ID collisions"). In virtual time. */
import { expect, test } from "vitest";
import type { DatabaseHook } from "../../src/databases/index.ts";
import { parseReplication } from "../../src/replicator/index.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const FOREVER = new AbortController().signal;
const BODY = { source: "a", target: "b", continuous: true };
const JOE = { userName: "joe", isAdmin: false };
const ANN = { userName: "ann", isAdmin: false };

type Kind = "persistent" | "transient";

/** A node on which a job runs, and that starts a second one for the same replication, with which it answers. */
async function collide({ first, second }: { readonly first: Kind; readonly second: Kind }) {
  const node = openVirtualNode({});
  const { world, replicator } = node;
  await node.start();
  for (const name of ["_replicator", "a", "b"]) await node.createDatabase(name);
  const start = async (kind: Kind, name: string, requester: typeof JOE): Promise<string> => {
    if (kind === "transient") {
      return world.until(replicator.start(parseReplication(BODY), requester));
    }
    await node.put("_replicator", name, BODY);
    return (await node.document(name, () => true)).jobId;
  };
  const firstId = await start(first, "first", JOE);
  await world.until(replicator.started(firstId, FOREVER));
  const secondId = await start(second, "second", ANN);
  const find = (id: string) => world.until(replicator.find(id));
  const settled = async () => {
    for (;;) {
      const entry = await find(secondId);
      if (entry?.data.failure !== undefined) return entry;
      await world.time.run(world.time.nowMs + 100);
    }
  };
  const firstStopped = async (): Promise<void> => {
    await world.until(replicator.commands.cancel(firstId, { userName: null }));
  };
  return { node, firstId, secondId, find, settled, firstStopped };
}

test.each([
  { first: "persistent", second: "persistent", state: "failed" },
  { first: "persistent", second: "transient", state: "failed" },
  { first: "transient", second: "persistent", state: "crashing" },
  { first: "transient", second: "transient", state: "crashing" },
] as const)(
  "while a $first job runs, a $second one is $state",
  async ({ first, second, state }) => {
    const { node, firstId, find, settled } = await collide({ first, second });
    expect(await settled()).toMatchObject({
      state,
      data: { failure: { error: "duplicate_job", reason: `Duplicate job running: ${firstId}` } },
    });
    expect((await find(firstId))?.state).toBe("running");
    await node.stop();
  },
);

test.each(["persistent", "transient"] as const)(
  "a $0 job that waits for a transient one runs when that has ended",
  async (second) => {
    const { node, secondId, settled, find, firstStopped } = await collide({
      first: "transient",
      second,
    });
    await settled();
    await firstStopped();
    await node.world.time.run(node.world.time.nowMs + 20_000);
    const entry = await find(secondId);
    expect([entry?.state, entry?.data.failure]).toEqual(["running", undefined]);
    await node.stop();
  },
);

test("two users who ask for one copy at the same time both get it, and both find their job by its replication id", async () => {
  let letIn = (): void => {};
  const gate = new Promise<void>((resolve) => {
    letIn = resolve;
  });
  // The first copy takes until we let it in.
  const slow: DatabaseHook = {
    appliesTo: (database) => database === "b",
    beforeWrite: async (_tx, _database, edit) => {
      await gate;
      return { edit };
    },
  };
  const node = openVirtualNode({ hooks: [slow] });
  const { world, replicator } = node;
  await node.start();
  for (const name of ["a", "b"]) await node.createDatabase(name);
  await node.put("a", "doc", {});
  const replication = parseReplication({ source: "a", target: "b" });
  const joes = await world.until(replicator.start(replication, JOE));
  await world.until(replicator.started(joes, FOREVER));
  const anns = await world.until(replicator.start(replication, ANN));
  const both = Promise.all([joes, anns].map((id) => replicator.ended(id, FOREVER)));
  await world.time.run(world.time.nowMs + 5000);
  expect((await world.until(replicator.find(anns)))?.state).toBe("crashing");
  letIn();
  expect(await world.until(both)).toMatchObject([
    { kind: "completed", result: { history: [{ docs_written: 1 }] } },
    { kind: "completed", result: { no_changes: true } },
  ]);
  const replicationId = (await world.until(replicator.find(joes)))?.data.replicationId as string;
  const found = async (userName: string | null) =>
    (await world.until(replicator.find(replicationId, { userName })))?.jobId;
  expect([await found("joe"), await found("ann"), await found("eve")]).toEqual([joes, anns, anns]);
  // When the owner goes, the id still leads to the other one.
  await world.until(replicator.commands.cancel(anns, { userName: null }));
  expect([await found("joe"), await found("ann")]).toEqual([joes, joes]);
  await node.stop();
});
