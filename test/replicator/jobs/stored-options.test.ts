/** Jobs whose options were stored by another version. */

import { afterEach, expect, test } from "vitest";
import {
  FAR_BOUNDS,
  REPLICATION_OPTIONS,
  type ReplicationOptions,
} from "../../../src/contract/index.ts";
import { parseReplication, REPLICATOR_CONFIG_DEFAULT } from "../../../src/replicator/index.ts";
import { type Node, openNode } from "../../support/open-node.ts";

const USER = { userName: null, isAdmin: true };
/** With this limit, every document's id is too long, so every document fails. */
const LIMITS = { ...REPLICATOR_CONFIG_DEFAULT.copyLimits, documentIdBytesMax: 2 };
const nodes: Node[] = [];

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

/**
 * Starts a job that copies a database with one document. `change` returns the options as another
 * version would store them.
 */
async function openWithJob(members: object, change: (options: ReplicationOptions) => object) {
  const node = await openNode({ config: { copyLimits: LIMITS } });
  nodes.push(node);
  for (const name of ["a", "b"]) await node.createDatabase(name);
  await node.put("a", "long", "{}");
  const replication = parseReplication({ source: "a", target: "b", ...members });
  const options = change(replication.options) as ReplicationOptions;
  const id = await node.replicator.start({ ...replication, options }, USER);
  node.start();
  return { node, id };
}

test("a job with a failure policy of a newer version copies nothing and reports the unknown policy", async () => {
  const { node, id } = await openWithJob({ continuous: true }, (options) => ({
    ...options,
    failurePolicy: "drop",
  }));
  const { state } = await node.event("replication.ended");
  expect(state).toBe("crashing");
  const { data } = (await node.replicator.find(id)) ?? {};
  expect(data?.failure?.reason).toBe(
    '`failure_policy` must be one of skip, hold, crash, but is "drop"',
  );
  expect(data?.statistics.missingChecked).toBe(0);
  expect(data?.checkpointedSequence).toBe(0);
});

test("a job stored before failure policies existed skips documents that cannot be copied", async () => {
  const { node, id } = await openWithJob({}, ({ failurePolicy: _, ...older }) => older);
  const { state } = await node.event("replication.ended");
  expect(state).toBe("completed");
  const { data } = (await node.replicator.find(id)) ?? {};
  expect(data?.statistics.docWriteFailures).toBe(1);
});

test.each(
  FAR_BOUNDS.flatMap(({ of, bound }) => [
    [of, REPLICATION_OPTIONS[of].default, bound, REPLICATION_OPTIONS[bound].default] as const,
    [of, 2, bound, 2] as const,
  ]),
)(
  "a job stored with %s = %d before the limit existed gets %s = %d",
  async (of, count, bound, most) => {
    const { node, id } = await openWithJob({}, ({ [bound]: _, ...older }) => ({
      ...older,
      [of]: count,
    }));
    await node.event("replication.ended");
    const { data } = (await node.replicator.find(id)) ?? {};
    expect(data?.replication?.options[bound]).toBe(most);
  },
);

test("the number of concurrent copies is limited to the maximum if a larger number is stored", async () => {
  const many = { workerProcesses: 1e15, workerProcessesMax: 1e15, httpConnections: 1e15 };
  const { node } = await openWithJob({}, (options) => ({ ...options, ...many }));
  expect((await node.event("replication.ended")).state).toBe("completed");
});

test.each([
  ["worker_processes", 500],
  ["worker_processes_max", 500],
  ["http_connections", 1000],
  ["http_connections_max", 1000],
])("a request with %s above %d is rejected", (name, most) => {
  const parsed = (count: number) =>
    parseReplication({ source: "a", target: "b", [name]: count }).options;
  expect(Object.values(parsed(most))).toContain(most);
  const reason = `\`${name}\` must be an integer from 1 to ${most}, but is ${most + 1}`;
  expect(() => parsed(most + 1)).toThrow(expect.objectContaining({ reason }));
});
