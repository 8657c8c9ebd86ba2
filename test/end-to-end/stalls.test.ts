/** Connections that die without a word: the job notices, and goes on over others. */
import { afterAll, expect, test } from "vitest";
import { compare } from "../support/compare.ts";
import { openHttpProxy } from "../support/faults/http-proxy.ts";
import { Processes, until } from "../support/open-process.ts";
import { load, sampleLines } from "../support/sample-data.ts";

const processes = new Processes();
afterAll(() => processes.close());

test("a run that stands still is begun anew, though no request times out", async () => {
  const ini = "[replicator]\nstall_timeout_sec = 1\nconnection_timeout = 600000\n";
  const [here, there] = await Promise.all([processes.open({ ini }), processes.open()]);
  await load(there, "films", sampleLines("films").slice(0, 100));
  const proxy = await openHttpProxy(there.url);
  const stalls = (): number => here.log().match(/replication\.stalled/g)?.length ?? 0;
  proxy.intercept(async (request, forward) => {
    const answer = await forward(request);
    if (!request.path.includes("_bulk_get") || stalls() >= 2) return answer;
    return { ...answer, cut: { afterBytes: 100, how: "stall" } };
  });
  const body = { source: `${proxy.url}/films`, target: "films", create_target: true };
  await here.call("PUT", "/_replicator/films", body);
  await until(
    () => here.call("GET", "/_scheduler/docs/_replicator/films"),
    ({ body }) => body.state === "completed",
  );
  const { body: jobs } = await here.call("GET", "/_tandem/jobs");
  expect(stalls()).toBe(2);
  const [job] = jobs.jobs;
  expect(job.history.filter(({ type }: { type: string }) => type === "stalled")).toHaveLength(2);
  expect((await compare(`${here.url}/films`, `${there.url}/films`)).differences).toEqual([]);
  await proxy.close();
}, 60_000);
