/** The examples of the library run without changes. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
// @ts-expect-error: the package has no declarations.
import { PNG } from "pngjs";
import { afterAll, expect, test } from "vitest";
import type { TandemNode } from "../../src/library/entries/index.ts";
import { Subspace } from "../../src/library/entries/kv.ts";
import { closedPort } from "../support/closed-port.ts";
import { call, fill, LibraryNodes } from "./library.fixture.ts";

const example = (name: string): string =>
  fileURLToPath(new URL(`../../examples/${name}`, import.meta.url));
const directory = mkdtempSync(join(tmpdir(), "tandem-examples-"));
const nodes = new LibraryNodes();
const children: ChildProcess[] = [];

afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await nodes.close();
  rmSync(directory, { recursive: true });
});

/** Runs an example without blocking the node to which the example sends requests. */
async function run(name: string, ...args: string[]) {
  const child = spawn(process.execPath, [example(name), ...args], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  let output = "";
  child.stdout.on("data", (data) => {
    output += data;
  });
  const [code] = await once(child, "close");
  return { code, output };
}

async function startWorker(store: string): Promise<ChildProcess> {
  const flags = [example("thumbnails/worker.mjs"), store];
  const child = spawn(process.execPath, flags, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  await once(child.stdout, "data");
  return child;
}

function png(side: number): Buffer {
  const image = new PNG({ width: side, height: side / 2 });
  for (let at = 0; at < image.data.length; at++) image.data[at] = at % 251;
  return PNG.sync.write(image);
}

const IMAGE_COUNT = 12;
const THUMBNAILS = Subspace.fromTuple(["thumbnails"]);

test("two workers make a thumbnail of each image exactly once, even if one is killed", async () => {
  const store = join(directory, "store");
  const node = await nodes.open({
    store: { kind: "lmdb", directory: store },
    roles: ["api_frontend"],
  });
  await node.databases.get("pictures").create();
  for (let number = 0; number < IMAGE_COUNT; number++) {
    const headers = { "content-type": "image/png" };
    const path = `/pictures/picture-${number}/original.png`;
    const put = await node.fetch(path, { method: "PUT", headers, body: png(200) });
    expect(put.status).toBe(201);
  }
  const [first, second] = await Promise.all([startWorker(store), startWorker(store)]);
  expect(await run("thumbnails/add.mjs", store, "pictures")).toEqual({
    code: 0,
    output: `${IMAGE_COUNT} images\n`,
  });
  first.kill("SIGKILL");
  // Adding again changes nothing.
  expect((await run("thumbnails/add.mjs", store, "pictures")).code).toBe(0);
  const jobs = await node.store.read((tx) => node.jobs.list(tx, "thumbnail"));
  expect(jobs).toHaveLength(IMAGE_COUNT);
  for (const name of jobs) {
    for await (const _ of node.jobs.subscribe(name));
  }
  const { entries, count } = await recorded(node);
  expect(entries).toHaveLength(IMAGE_COUNT);
  expect(count).toBe(IMAGE_COUNT);
  for (const { value } of entries) {
    const { width, height } = PNG.sync.read(Buffer.from(value));
    expect([width, height]).toEqual([32, 16]);
  }
  second.kill("SIGTERM");
  expect(await once(second, "exit")).toEqual([0, null]);
});

function recorded({ store }: TandemNode) {
  return store.read(async (tx) => {
    const { entries } = await tx.getRangePage(THUMBNAILS.range());
    const count = Number(Buffer.from((await tx.get(THUMBNAILS.prefix)) ?? []).readBigInt64LE());
    return { entries, count };
  });
}

test("an example copies and compares databases", async () => {
  const node = await nodes.open();
  const url = await node.listen({ port: 0 });
  await fill(node, "films", 7);
  expect(await run("library/copy.mjs", `${url}/films`, `${url}/copy`)).toEqual({
    code: 0,
    output: "7 copied, 0 failed, 0 differ\n",
  });
});

test("an example pauses failing jobs", async () => {
  const node = await nodes.open();
  const url = await node.listen({ port: 0 });
  const host = `127.0.0.1:${await closedPort()}`;
  const job = { source: `http://${host}/x`, target: "films", retries_per_request: 0 };
  const feed = await node.fetch("/_tandem/events?kind=failing");
  const reader = (feed.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  await call(node, "PUT", "/_replicator/away", { ...job, continuous: true });
  for (let text = ""; !text.includes("event: job"); ) {
    text += new TextDecoder().decode((await reader.read()).value);
  }
  await reader.cancel();
  const { code, output } = await run("library/pause-failing.mjs", url, host);
  expect(output).toContain("_replicator/away: ");
  expect(output).toContain("1 paused\n");
  expect(code).toBe(0);
});
