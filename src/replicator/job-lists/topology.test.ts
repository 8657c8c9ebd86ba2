import { expect, test } from "vitest";
import type { ReplicationState } from "../jobs/job-data.ts";
import { TOPOLOGY_EDGES_MAX, TopologyBuilder } from "./topology.ts";

const SERVER = "http://here.example:5984/";
const NOW_MS = 100_000;

interface Given {
  readonly from: string;
  readonly to: string;
  readonly state?: ReplicationState;
  readonly sinceMs?: number;
  readonly isFailing?: boolean;
  readonly hasBacklog?: boolean;
}

function address(text: string) {
  return text.includes("//")
    ? { kind: "http", url: text, headers: {} }
    : { kind: "local", database: text };
}

function topologyOf(jobs: readonly Given[]) {
  const builder = new TopologyBuilder(SERVER, NOW_MS);
  for (const [index, job] of jobs.entries()) {
    const { from, to, state = "running", sinceMs, isFailing = false, hasBacklog = true } = job;
    const replication = { source: address(from), target: address(to) };
    const document = { database: "_replicator", id: `job-${index}` };
    builder.add({
      jobId: `uuid|job-${index}`,
      state,
      data: { replication, document, failing: isFailing ? {} : undefined } as never,
      backlog: hasBacklog ? { sinceMs, pending: 0, seenMs: NOW_MS } : undefined,
    });
  }
  return builder.build();
}

test("combines the jobs between two databases into one edge with the worst state and longest known lag", () => {
  const pair = { from: "a", to: "http://far.example/b" };
  const { edges, databases, jobs } = topologyOf([
    { ...pair, sinceMs: 90_000 },
    { ...pair, state: "crashing", sinceMs: 40_000, isFailing: true },
    { ...pair, state: "completed", hasBacklog: false },
    { ...pair, state: "pending" },
    { from: "c", to: "a", hasBacklog: false },
  ]);
  expect(edges).toEqual([
    {
      ...{ source: "a", target: "far.example/b", state: "crashing", lagSec: 60 },
      ...{
        failing: 1,
        jobs: 4,
        names: ["_replicator/job-0", "_replicator/job-1", "_replicator/job-2"],
      },
    },
    {
      ...{ source: "c", target: "a", state: "running", lagSec: undefined },
      ...{ failing: 0, jobs: 1, names: ["_replicator/job-4"] },
    },
  ]);
  expect(databases).toEqual([
    { name: "a", host: undefined },
    { name: "c", host: undefined },
    { name: "far.example/b", host: "far.example" },
  ]);
  expect(jobs).toBe(5);
});

test.each([
  ["http://far.example/db/", "far.example/db"],
  ["https://far.example:443/db", "far.example/db"],
  ["https://Far.Example:6984/root/a%2Fb/", "far.example:6984/root/a/b"],
  ["http://here.example:5984/db/", "db"],
  ["http://here.example:5984/a%2Fb", "a/b"],
  ["http://here.example/db", "here.example/db"],
  ["db", "db"],
])("shows the database at %s as %s", (given, name) => {
  expect(topologyOf([{ from: given, to: "x" }]).edges[0]?.source).toBe(name);
});

test.each<[string, readonly string[], readonly (readonly string[])[]]>([
  ["no loop", ["a>b", "b>c", "a>c"], []],
  ["both directions", ["a>b", "b>a"], [["a", "b"]]],
  [
    "a ring, also through this server's own URL",
    [`a>b`, `b>${SERVER}c`, "c>a", "c>d"],
    [["a", "b", "c"]],
  ],
  [
    "two loops",
    ["x>y", "y>x", "a>b", "b>a", "b>x"],
    [
      ["a", "b"],
      ["x", "y"],
    ],
  ],
  ["a database copied to itself", [`a>${SERVER}a`], [["a"]]],
])("reports the loops: %s", (_, arrows, loops) => {
  const jobs = arrows.map((arrow) => {
    const [from = "", to = ""] = arrow.split(/>(.*)/s);
    return { from, to };
  });
  expect(topologyOf(jobs).loops).toEqual(loops);
});

test("limits the number of edges", () => {
  const jobs = Array.from({ length: TOPOLOGY_EDGES_MAX + 5 }, (_, index) => ({
    from: "a",
    to: `b${index}`,
  }));
  const { edges, truncated, jobs: count } = topologyOf([...jobs, { from: "a", to: "b0" }]);
  expect([edges.length, truncated, count]).toEqual([
    TOPOLOGY_EDGES_MAX,
    true,
    TOPOLOGY_EDGES_MAX + 1,
  ]);
});
