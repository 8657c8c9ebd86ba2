/** Callers that wait for the retry of listed failures. No node runs the job. */
import { expect, test } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { KeyValueStore, MemoryEngine } from "../../../src/kv/index.ts";
import type { DocumentFailure } from "../../../src/replicator/failures/run-failures.ts";
import { parseReplication } from "../../../src/replicator/index.ts";
import { composeNode } from "../../support/compose-node.ts";

test("a caller waits for the later request that contains its documents", async () => {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  const { replicator, failureLists } = composeNode({ runtime, kv });
  await replicator.prepare();
  const replication = parseReplication({ source: "a", target: "b", continuous: true });
  await replicator.start(replication, { userName: "ann", isAdmin: true });
  const [entry] = (await replicator.lists.page({ filter: {}, limit: 1 })).entries;
  if (entry === undefined) throw new Error("The list must contain the job");
  const baseId = entry.data.replicationId?.replace(/\+.*$/, "") ?? "";
  const failed = ["one", "other"].map(
    (id): DocumentFailure =>
      ({ id, revision: "1-a", status: 403, error: "e", reason: "", phase: "write" }) as const,
  );
  await kv.transact((tx) => failureLists.change(tx, baseId, { failed, arrived: [], nowMs: 1 }));

  const requestOf = () => kv.read((tx) => failureLists.retryRequest(tx, baseId));
  const { signal } = new AbortController();
  const ended: string[] = [];
  /** Requests a retry, and resolves when the request is stored. */
  const ask = async (id: string) => {
    const watch = await kv.transact(async (tx) => failureLists.watchRetry(tx, baseId));
    const retried = replicator.failures.retry(entry, [id], signal).then(({ done }) => {
      ended.push(id);
      return done;
    });
    await watch.fired(signal);
    return { retried };
  };
  const first = await ask("one");
  const second = await ask("other");
  // After some turns of the event loop, the first caller's watch has fired as well, and this caller
  // has read the later request.
  for (let turn = 0; turn < 10; turn++) {
    await new Promise((resolve) => setImmediate(resolve));
    await requestOf();
  }
  expect(ended).toEqual([]);
  const stored = await requestOf();
  expect(stored?.ids?.toSorted()).toEqual(["one", "other"]);
  await kv.transact((tx) => failureLists.endRetry(tx, baseId, stored?.request ?? ""));
  expect(await Promise.all([first.retried, second.retried])).toEqual([true, true]);
  await kv.close();
});
