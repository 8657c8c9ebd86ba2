/** Scheduled retries of failed documents, in virtual time. */
import { expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import type { DatabaseHook, DocumentEdit } from "../../../src/databases/index.ts";
import { World } from "../../simulation/kernel/world.ts";
import { composeNode } from "../../support/compose-node.ts";
import { ADMIN } from "../../support/open-node.ts";

test("a job retries failed documents even if its runs are shorter than `failure_retry_sec`", async () => {
  const world = new World("failure-retry");
  let isRefusing = true;
  const refusing: DatabaseHook = {
    appliesTo: (database) => database === "target",
    beforeWrite: async (_tx, _database, edit) =>
      isRefusing ? { rejected: "forbidden", reason: "not now" } : { edit },
  };
  const { runtime, kv } = world.openNode();
  // Two jobs share one slot, and each runs for about two seconds at a time.
  const config = { jobsMax: 1, intervalSec: 1, runSecMin: 1 };
  const { databases, scheduler, replicator } = composeNode({
    runtime,
    kv,
    config,
    hooks: [refusing],
  });
  await world.until(replicator.prepare());
  const put = (name: string, id: string, body: object) => {
    const text = Utf8Text.of(JSON.stringify(body));
    const common = { id, deleted: false, body: text, attachments: [], parent: undefined };
    const edit: DocumentEdit = { ...common, mode: "interactive" };
    const write = kv.transact(async (tx) =>
      (await databases.open(tx, name)).write(tx, edit, ADMIN),
    );
    return world.until(write);
  };
  for (const name of ["_replicator", "source", "target", "other"]) {
    await world.until(kv.transact((tx) => databases.create(tx, name)));
  }
  await put("source", "late", {});
  for (const target of ["target", "other"]) {
    const body = { source: "source", target, continuous: true, failure_retry_sec: 10 };
    await put("_replicator", `to-${target}`, body);
  }
  const seen = { refusedCount: 0, turnCount: 0 };
  world.listeners.push((name) => {
    if (name === "replication.refused") seen.refusedCount++;
    if (name === "replication.rotated") seen.turnCount++;
  });
  const stopping = new AbortController();
  const running = scheduler.run(stopping.signal);
  await world.time.run(world.time.nowMs + 60_000, () => seen.refusedCount > 0);
  isRefusing = false;
  const refusedAtMs = world.time.nowMs;
  await world.time.run(refusedAtMs + 60_000);
  const arrived = await world.until(
    kv.read(async (tx) => (await databases.open(tx, "target")).documents.read(tx, "late")),
  );
  stopping.abort(new Error("The test is over"));
  await world.until(running);
  expect(seen.turnCount).toBeGreaterThan(10);
  expect(arrived?.id).toBe("late");
});
