/** Two nodes over an unreliable network: once the network recovers, the copy is complete. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compare } from "../../support/compare.ts";
import { type HttpProxy, openHttpProxy } from "../../support/faults/http-proxy.ts";
import {
  CUT_WAYS,
  FAULT_NAMES,
  truncatedMultipart,
  unreliable,
} from "../../support/faults/unreliable.ts";
import { Processes, type TandemNode } from "../../support/open-process.ts";
import { load, sampleLines } from "../../support/sample-data.ts";

const processes = new Processes();
const proxies: HttpProxy[] = [];
let here: TandemNode;
let there: TandemNode;

beforeAll(async () => {
  const ini = "[replicator]\nmin_backoff_penalty_sec = 1\nmax_backoff_penalty_sec = 2\n";
  [here, there] = await Promise.all([processes.openHere({ ini }), processes.openHere()]);
});
afterAll(async () => {
  for (const proxy of proxies) await proxy.close();
  await processes.close();
});

/** Number of times that each fault occurs. */
const ROUNDS = 3;

describe.each(["pulled", "pushed"])("%s through faults", (way) => {
  test.each([
    ["films", sampleLines("films").slice(0, 600), {}],
    // Read individually, because the flags of the countries are so small that bulk reads would need
    // only a few requests.
    ["countries", sampleLines("countries").slice(0, 60), { use_bulk_get: false }],
  ])("%s arrive complete", async (name, lines, options) => {
    const database = `${name}-${way}`;
    const isPull = way === "pulled";
    await load(isPull ? there : here, database, lines);
    const proxy = await openHttpProxy(there.url);
    proxies.push(proxy);
    const faultCount = FAULT_NAMES.length * ROUNDS;
    const { intercept, counts } = unreliable(lines.length, faultCount);
    proxy.intercept(intercept);
    const remote = `${proxy.url}/${database}`;
    const document = `/_replicator/${database}`;
    await here.call("PUT", document, {
      ...(isPull ? { source: remote, target: database } : { source: database, target: remote }),
      ...options,
      create_target: true,
      connection_timeout: 1000,
      // Small batches, so that many requests can be hit by a fault.
      worker_batch_size: 10,
    });
    const { body: ended } = await here.onceAnswered(
      () => here.call("GET", `/_scheduler/docs${document}`),
      ({ body }) => body.state === "completed" || body.state === "failed",
    );
    expect(ended.state).toBe("completed");
    expect([...counts.values()].reduce((sum, count) => sum + count, 0)).toBe(faultCount);
    const id = encodeURIComponent(`_replicator/${database}`);
    const { body: failures } = await here.call("GET", `/_tandem/jobs/${id}/failures`);
    expect(failures).toEqual({ total_rows: 0, failures: [] });
    const comparison = await compare(`${here.url}/${database}`, `${there.url}/${database}`);
    expect(comparison).toMatchObject({ documentCount: lines.length, differences: [] });
  });
});

test("countries are copied completely even if each multipart body is truncated once", async () => {
  const lines = sampleLines("countries").slice(0, 30);
  await load(there, "cut-short", lines);
  const proxy = await openHttpProxy(there.url);
  proxies.push(proxy);
  const { intercept, counts } = truncatedMultipart();
  proxy.intercept(intercept);
  const { status, body } = await here.call("POST", "/_replicate", {
    source: `${proxy.url}/cut-short`,
    target: "cut-short",
    create_target: true,
    // Each document is read individually, as multipart.
    use_bulk_get: false,
    connection_timeout: 1000,
  });
  expect([status, body.history?.[0].doc_write_failures]).toEqual([200, 0]);
  expect([...counts.keys()].sort()).toEqual([...CUT_WAYS].sort());
  const comparison = await compare(`${here.url}/cut-short`, `${there.url}/cut-short`);
  expect(comparison).toMatchObject({ attachmentCount: lines.length, differences: [] });
});

test.each([
  ["pulled", "films", 100],
  ["pushed", "films", 100],
  ["pushed", "countries", 20],
] as const)("%s through redirects, %s arrive", async (way, name, count) => {
  const isPull = way === "pulled";
  const database = `moved-${name}-${way}`;
  await load(isPull ? there : here, database, sampleLines(name).slice(0, count));
  const proxy = await openHttpProxy(there.url);
  proxies.push(proxy);
  proxy.intercept(async ({ path }) => ({
    status: 307,
    headers: { location: `${there.url}${path}` },
    body: "",
  }));
  const remote = `${proxy.url}/${database}`;
  const { status, body } = await here.call("POST", "/_replicate", {
    ...(isPull ? { source: remote, target: database } : { source: database, target: remote }),
    create_target: true,
  });
  expect([status, body.history?.[0].docs_written]).toEqual([200, count]);
  const comparison = await compare(`${here.url}/${database}`, `${there.url}/${database}`);
  expect(comparison.differences).toEqual([]);
});
