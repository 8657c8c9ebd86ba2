/**
 * Events of a job. Each event names the job with its source and target, and contains no secrets.
 */
import { afterEach, expect, test } from "vitest";
import { parseReplication } from "../../../src/replicator/index.ts";
import { type Node, openNode } from "../../support/open-node.ts";

const USER = { userName: null, isAdmin: true };
const FOREVER = new AbortController().signal;

let node: Node;
afterEach(() => node.stop());

/** Returns the members of the jobs' events that identify the job, by event name. */
function described(): ReadonlyMap<string, object> {
  const found = node.events.filter(({ name }) => name.startsWith("replication."));
  return new Map(
    found.map(({ name, fields: { jobId, job, source, target } }) => {
      return [name, { jobId, job, source, target }];
    }),
  );
}

test("every event of a transient job names the job, its source and its target", async () => {
  node = await openNode();
  node.start();
  await node.createDatabase("a");
  await node.put("a", "doc", "{}");
  const replication = parseReplication({ source: "a", target: "b", create_target: true });
  const jobId = await node.replicator.start(replication, USER);
  await node.replicator.ended(jobId, FOREVER);
  const job = { jobId, job: undefined, source: "a", target: "b" };
  const names = ["added", "accepted", "started", "checkpoint", "ended"];
  for (const name of names) expect(described().get(`replication.${name}`), name).toEqual(job);
  await node.replicator.commands.cancel(jobId, { userName: null, why: "moved" });
  expect(described().get("replication.cancelled")).toEqual(job);
  const cancelled = node.events.find(({ name }) => name === "replication.cancelled");
  expect(cancelled?.fields).toMatchObject({ userName: null, why: "moved" });
});

test("the failure event of a document's job contains the job's name, and the server's address without the password", async () => {
  node = await openNode({
    fetch: async () => {
      throw new Error("connection refused");
    },
  });
  node.start();
  await node.createDatabase("_replicator");
  const source = "http://jan:geheim@far.example/a?token=geheim";
  await node.put("_replicator", "copy", JSON.stringify({ source, target: "b" }));
  const { jobId } = await node.event("replication.crashed");
  const shown = "http://far.example/a?token=*****";
  const job = { jobId, job: "_replicator/copy", source: shown, target: "b" };
  expect(described().get("replication.crashed")).toEqual(job);
  await node.replicator.commands.pause(String(jobId), { userName: null });
  expect(described().get("replication.controlled")).toEqual(job);
  const reported = node.events.filter(({ name }) => name.startsWith("replication."));
  expect(JSON.stringify(reported)).not.toContain("geheim");
});
