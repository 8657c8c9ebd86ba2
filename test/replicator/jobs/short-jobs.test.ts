/**
 * Cost of a short job for the store, from the job's creation to its end: transactions, reads and
 * timers, in virtual time.
 */
import { afterEach, expect, test, vi } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import { KeyValueStore } from "../../../src/kv/index.ts";
import { parseReplication } from "../../../src/replicator/index.ts";
import { World } from "../../simulation/kernel/world.ts";
import { responseOf } from "../../simulation/network/simulated-network.ts";
import { SERVER_URL, SimulatedServer } from "../../simulation/network/simulated-server.ts";
import { composeNode } from "../../support/compose-node.ts";
import { ADMIN } from "../../support/open-node.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const ADMINISTRATOR = { userName: null, isAdmin: true };

afterEach(() => vi.restoreAllMocks());

/**
 * Opens a node, and a server with this many pairs of databases. The first database of a pair has
 * ten documents, and the second is empty.
 */
async function openPairs(pairCount: number) {
  const world = new World("short-jobs");
  const { kv, databases, ...parts } = composeNode(world.openNode());
  const server = new SimulatedServer({ kv, databases, ...parts });
  let requestCount = 0;
  const node = openVirtualNode({
    world,
    fetch: async (request) => {
      requestCount++;
      await world.time.sleep(1, request.signal);
      return responseOf(await server.serve(request));
    },
  });
  await node.start();
  const edit = { mode: "interactive", parent: undefined, deleted: false, attachments: [] } as const;
  for (let number = 0; number < pairCount; number++) {
    await world.until(
      kv.transact(async (tx) => {
        await databases.create(tx, `b-${number}`);
        const database = await databases.create(tx, `a-${number}`);
        for (let at = 0; at < 10; at++) {
          await database.write(tx, { ...edit, id: `doc-${at}`, body: Utf8Text.of("{}") }, ADMIN);
        }
      }),
    );
  }
  return { ...node, requestCount: () => requestCount };
}

/** Counts a node's requests to its store, and its timers. */
function countCalls({
  kv,
  simulated,
}: Pick<ReturnType<typeof openVirtualNode>, "kv" | "simulated">) {
  const counts = { transactions: 0, reads: 0, timers: 0 };
  const count = (method: "transact" | "read", kind: "transactions" | "reads"): void => {
    const called = KeyValueStore.prototype[method] as (...args: unknown[]) => unknown;
    vi.spyOn(KeyValueStore.prototype, method).mockImplementation(function (
      this: KeyValueStore,
      ...args: unknown[]
    ) {
      if (this === kv) counts[kind]++;
      return called.apply(this, args);
    } as never);
  };
  count("transact", "transactions");
  count("read", "reads");
  const { clock } = simulated.runtime;
  const sleep = clock.sleep.bind(clock);
  vi.spyOn(clock, "sleep").mockImplementation((durationMs, signal) => {
    counts.timers++;
    return sleep(durationMs, signal);
  });
  return counts;
}

test("adding, accepting, starting and ending a job with ten documents take one transaction each, and a client that waits for the job takes four", async () => {
  const jobCount = 50;
  const node = await openPairs(jobCount);
  const { world, replicator, requestCount } = node;
  const copy = async (number: number): Promise<void> => {
    const source = `${SERVER_URL}/a-${number}`;
    const replication = parseReplication({ source, target: `${SERVER_URL}/b-${number}` });
    const id = await replicator.start(replication, ADMINISTRATOR);
    const outcome = await replicator.ended(id, new AbortController().signal);
    expect(outcome).toMatchObject({ result: { history: [{ docs_written: 10 }] } });
  };
  const counts = countCalls(node);
  const before = requestCount();
  await world.until(Promise.all(Array.from({ length: jobCount }, (_, number) => copy(number))));
  const ofEach = (count: number): number => Math.round((count / jobCount) * 10) / 10;
  // Requests per job: one each for the information and the checkpoint of both sides (four), for the
  // changes, the documents and the bulk write, and one batch for both new checkpoints.
  expect(ofEach(requestCount() - before)).toBe(8);
  // Transactions per job: the job's own four, and four reads by the waiting client. The client
  // reads once at the start and once after each change of the job.
  expect(ofEach(counts.transactions)).toBeLessThanOrEqual(8.1);
  // Reads per job: the job's state when the wait starts, the operator's decision, the failure list,
  // the job's own checkpoint, and the lock before the new checkpoint is written.
  expect(ofEach(counts.reads)).toBeLessThanOrEqual(5);
  // Timers per job: two of the run, two of the scheduler, which is notified of the job's start and
  // end, and four of batched requests.
  expect(ofEach(counts.timers)).toBeLessThanOrEqual(9);
  await node.stop();
});

test("a continuous job between local databases takes at most seven transactions and eleven reads until it is parked", async () => {
  const jobCount = 80;
  const node = openVirtualNode({ config: { parkAfterSec: 10, jobsMax: 20 } });
  const { world, replicator, names } = node;
  await node.start();
  for (let number = 0; number < jobCount; number++) {
    await node.createDatabase(`a-${number}`);
    await node.createDatabase(`b-${number}`);
    await node.put(`a-${number}`, "doc", { number });
  }
  const counts = countCalls(node);
  for (let number = 0; number < jobCount; number++) {
    const asked = { source: `a-${number}`, target: `b-${number}`, continuous: true };
    await world.until(replicator.start(parseReplication(asked), ADMINISTRATOR));
  }
  const isParked = (): boolean =>
    names.filter((name) => name === "replication.parked").length === jobCount;
  await world.time.run(world.time.nowMs + 60_000, isParked);
  expect(isParked()).toBe(true);
  // Transactions per job: its addition, acceptance, start and end, and the writes of its documents
  // and of both logs. The rest is for the watcher of the sources and the index of jobs.
  expect(counts.transactions / jobCount).toBeLessThanOrEqual(7);
  // Reads per job: the operator's decision, the information and the logs of both databases, the own
  // checkpoint, the failure list, the changes, the documents, and the lock before the new logs.
  expect(counts.reads / jobCount).toBeLessThanOrEqual(11);
  await node.stop();
});
