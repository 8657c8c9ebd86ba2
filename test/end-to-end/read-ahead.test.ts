/**
 * A copier reads one batch ahead from a server while it writes the previous batch, and does not
 * delay retries.
 */
import { afterAll, expect, test } from "vitest";
import { type HttpProxy, openHttpProxy } from "../support/faults/http-proxy.ts";
import { Processes } from "../support/open-process.ts";
import { load, sampleLines } from "../support/sample-data.ts";

const BATCH_COUNT = 4;
const BATCH_SIZE = 10;

const processes = new Processes();
const proxies: HttpProxy[] = [];
afterAll(async () => {
  for (const proxy of proxies) await proxy.close();
  await processes.close();
});

test("the only copier of a job requests the second batch while it writes the first, but requests the third only afterwards", async () => {
  const node = await processes.open();
  await load(node, "source", sampleLines("films").slice(0, BATCH_COUNT * BATCH_SIZE));
  const source = await openHttpProxy(node.url);
  const target = await openHttpProxy(node.url);
  proxies.push(source, target);

  let readCount = 0;
  let readMeanwhile = (): void => {};
  let reading = 0;
  let writing = 0;
  const togetherMax = { reading: 0, writing: 0 };
  source.intercept(async (request, forward) => {
    if (!request.path.includes("_bulk_get")) return forward(request);
    togetherMax.reading = Math.max(togetherMax.reading, ++reading);
    const answer = await forward(request);
    reading--;
    readCount++;
    readMeanwhile();
    return answer;
  });
  const readCounts: number[] = [];
  target.intercept(async (request, forward) => {
    if (!request.path.includes("_bulk_docs")) return forward(request);
    togetherMax.writing = Math.max(togetherMax.writing, ++writing);
    const number = readCounts.length + 1;
    // The write is answered only after the next batch was read.
    while (readCount < Math.min(number + 1, BATCH_COUNT)) {
      await new Promise<void>((resolve) => {
        readMeanwhile = resolve;
      });
    }
    readCounts.push(readCount);
    writing--;
    return forward(request);
  });

  const { status, body } = await node.call("POST", "/_replicate", {
    source: `${source.url}/source`,
    target: `${target.url}/target`,
    create_target: true,
    worker_processes: 1,
    worker_batch_size: BATCH_SIZE,
  });
  expect(status).toBe(200);
  expect(body.history[0].docs_written).toBe(BATCH_COUNT * BATCH_SIZE);
  expect(readCounts).toEqual([2, 3, 4, 4]);
  expect(togetherMax).toEqual({ reading: 1, writing: 1 });
});

test("a requested retry does not wait for busy copiers", async () => {
  const node = await processes.open();
  await load(node, "busy", sampleLines("films").slice(0, 2 * BATCH_SIZE));
  const target = await openHttpProxy(node.url);
  proxies.push(target);

  const held: (() => void)[] = [];
  let isRefusing = true;
  target.intercept(async (request, forward) => {
    if (!request.path.includes("_bulk_docs")) return forward(request);
    const { docs } = JSON.parse(request.body.toString());
    if (isRefusing && docs.length === BATCH_SIZE) {
      isRefusing = false;
      const [{ _id: id, _rev: rev }] = docs;
      const rest = {
        ...request,
        body: Buffer.from(JSON.stringify({ docs: docs.slice(1), new_edits: false })),
      };
      await forward(rest);
      return {
        status: 201,
        body: JSON.stringify([{ id, rev, error: "forbidden", reason: "not yet" }]),
      };
    }
    // Holds the other batch in flight, but forwards a retry, which consists of one document.
    if (docs.length > 1) await new Promise<void>((resolve) => held.push(resolve));
    return forward(request);
  });
  await node.call("PUT", "/_replicator/busy", {
    source: "busy",
    target: `${target.url}/not-busy`,
    create_target: true,
    worker_processes: 1,
    worker_batch_size: BATCH_SIZE,
  });
  const failures = `/_tandem/jobs/${encodeURIComponent("_replicator/busy")}/failures`;
  await node.onceAnswered(
    () => node.call("GET", failures),
    ({ body }) => body.total_rows === 1 && held.length === 1,
  );
  await node.call("POST", `${failures}/_retry`, {});
  await node.onceAnswered(
    () => node.call("GET", failures),
    ({ body }) => body.total_rows === 0,
  );
  expect(held).toHaveLength(1);
  held[0]?.();
  const { body: ended } = await node.onceAnswered(
    () => node.call("GET", "/_scheduler/docs/_replicator/busy"),
    ({ body }) => body.state === "completed",
  );
  expect(ended.info.docs_written).toBe(2 * BATCH_SIZE);
});
