/**
 * Connections that die silently: the job notices the stall, and continues over other connections.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { compare } from "../../support/compare.ts";
import {
  type HttpProxy,
  openHttpProxy,
  type ProxiedRequest,
} from "../../support/faults/http-proxy.ts";
import { Processes, type TandemNode } from "../../support/open-process.ts";
import { load, sampleLines } from "../../support/sample-data.ts";

const WORKER_COUNT = 4;
const STALL_COUNT = 3;

const processes = new Processes();
let here: TandemNode;
let there: TandemNode;
let proxy: HttpProxy;

beforeAll(async () => {
  const ini = "[replicator]\nstall_timeout_sec = 4\nconnection_timeout = 600000\n";
  [here, there] = await Promise.all([processes.openHere({ ini }), processes.openHere()]);
  await load(there, "films", sampleLines("films").slice(0, 100));
  proxy = await openHttpProxy(there.url);
  return () => proxy.close();
});
afterAll(() => processes.close());

const stallCount = (): number => here.log().match(/replication\.stalled/g)?.length ?? 0;

test("a stalled run is restarted over new connections with fewer copiers, although no request has timed out", async () => {
  const held: ProxiedRequest[][] = [];
  proxy.intercept(async (request, forward) => {
    const answer = await forward(request);
    const number = stallCount();
    if (!request.path.includes("_bulk_get") || number >= STALL_COUNT) return answer;
    held[number] = [...(held[number] ?? []), request];
    return { ...answer, cut: { afterBytes: 100, how: "stall" } };
  });
  await here.call("PUT", "/_replicator/films", {
    source: `${proxy.url}/films`,
    target: "films",
    create_target: true,
    worker_processes: WORKER_COUNT,
    worker_batch_size: 10,
  });
  await here.onceAnswered(
    () => here.call("GET", "/_scheduler/docs/_replicator/films"),
    ({ body }) => body.state === "completed",
  );
  const { body: jobs } = await here.call("GET", "/_tandem/jobs");
  const [job] = jobs.jobs;
  const events = job.history.map(({ type }: { type: string }) => type);
  // If the machine was suspended for a few seconds, more runs have stalled.
  expect(stallCount()).toBeGreaterThanOrEqual(STALL_COUNT);
  expect(events.filter((type: string) => type === "stalled")).toHaveLength(stallCount());
  const metrics = await (await fetch(`${here.url}/_node/_local/_prometheus`)).text();
  expect(metrics).toContain(`tandem_replications_stalled_total ${stallCount()}`);

  // Each copier had at most one request in flight when its run stalled.
  const [first, , third] = held.map(({ length }) => length);
  expect(first).toBeGreaterThan(WORKER_COUNT / 2);
  expect(third).toBeLessThanOrEqual(WORKER_COUNT / 2);
  const ports = held.map((requests) => requests.map(({ fromPort }) => fromPort));
  expect(new Set(ports.flat()).size).toBe(ports.flat().length);
  expect((await compare(`${here.url}/films`, `${there.url}/films`)).differences).toEqual([]);
});
