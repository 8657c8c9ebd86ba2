/** A node in the caller's process, without a socket. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
// @ts-expect-error: the package has no declarations.
import PouchDB from "pouchdb";
import { afterAll, expect, test } from "vitest";
import { call, fill, LibraryNodes } from "./library.fixture.ts";

const nodes = new LibraryNodes();
afterAll(() => nodes.close());

const WELCOME = { couchdb: "Welcome" };

test("a node's fetch accepts relative and absolute URLs and Request objects", async () => {
  const node = await nodes.open();
  const { fetch } = node;
  for (const input of [
    "/",
    "http://localhost/",
    new URL("https://localhost:6984/"),
    new Request("http://127.0.0.1/"),
  ]) {
    const response = await fetch(input);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toContain("json");
    expect(await response.json()).toMatchObject(WELCOME);
  }
  expect(await call(node, "PUT", "/films")).toMatchObject({ status: 201, body: { ok: true } });
  expect(await node.databases.get("films").exists()).toBe(true);
  const head = await fetch("/films", { method: "HEAD" });
  expect([head.status, await head.text()]).toEqual([200, ""]);
  const missing = await fetch("/nosuch/a%2Fb?x=%ff");
  expect(missing.status).toBe(400);
  expect(await call(node, "GET", "/nosuch")).toMatchObject({
    status: 404,
    body: { error: "not_found" },
  });
});

test("a node's fetch streams bodies in both directions", async () => {
  const node = await nodes.open();
  await node.databases.get("files").create();
  const bytes = new Uint8Array(3_000_000).map((_, index) => index % 251);
  const pieces = new ReadableStream<Uint8Array>({
    start(sink) {
      for (let at = 0; at < bytes.length; at += 100_000)
        sink.enqueue(bytes.slice(at, at + 100_000));
      sink.close();
    },
  });
  const put = { method: "PUT", body: pieces, duplex: "half" } as RequestInit;
  const written = await node.fetch("/files/doc/bytes.bin", put);
  expect(written.status).toBe(201);
  const read = await node.fetch("/files/doc/bytes.bin");
  expect(Buffer.from(await read.arrayBuffer()).equals(bytes)).toBe(true);
});

test("a feed continues until the caller aborts its request", async () => {
  const node = await nodes.open();
  await fill(node, "films", 1);
  const controller = new AbortController();
  const path = "/films/_changes?feed=continuous&since=now&heartbeat=60000";
  const { body } = await node.fetch(path, { signal: controller.signal });
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  const line = async (): Promise<string> => {
    for (let text = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) throw new Error("the feed has ended");
      text += new TextDecoder().decode(value);
      if (text.trim() !== "") return text.trim();
    }
  };
  const next = line();
  await call(node, "PUT", "/films/moon", {});
  expect(JSON.parse(await next)).toMatchObject({ id: "moon" });
  const reason = new Error("enough");
  const last = line();
  controller.abort(reason);
  await expect(last).rejects.toBe(reason);
});

test("an aborted request rejects, as with the global fetch", async () => {
  const node = await nodes.open();
  await node.databases.get("films").create();
  const controller = new AbortController();
  const { signal } = controller;
  const feed = await node.fetch("/films/_changes?feed=longpoll&since=now", { signal });
  const rest = feed.text();
  const waiting = node.fetch("/films", { signal });
  controller.abort();
  await expect(waiting).rejects.toMatchObject({ name: "AbortError" });
  await expect(rest).rejects.toMatchObject({ name: "AbortError" });
  await expect(node.fetch("/films", { signal })).rejects.toMatchObject({ name: "AbortError" });
});

test("cancelling a body ends its request, and closing the node ends feeds", async () => {
  const node = await nodes.open();
  await node.databases.get("films").create();
  const events = await node.fetch("/_tandem/events");
  await events.body?.cancel();
  const feed = await node.fetch("/films/_changes?feed=continuous&since=now&heartbeat=60000");
  const text = feed.text();
  await Promise.all([node.close(), node.close()]);
  expect(await text).toContain("last_seq");
});

test("PouchDB works with a node's fetch", async () => {
  const node = await nodes.open();
  const options = { fetch: node.fetch as typeof fetch };
  const remote = new PouchDB("http://localhost/shelf", options);
  await remote.put({ _id: "a", title: "A" });
  expect(await remote.get("a")).toMatchObject({ title: "A" });
  const { rows } = await remote.allDocs();
  expect(rows.map(({ id }: { id: string }) => id)).toEqual(["a"]);
});

test("a node applies its configuration, and requests require credentials", async () => {
  const node = await nodes.open({ config: { admins: { root: "secret" }, couchdb: { uuid: "x" } } });
  expect((await call(node, "PUT", "/films")).status).toBe(401);
  const headers = { authorization: `Basic ${btoa("root:secret")}` };
  const created = await node.fetch("/films", { method: "PUT", headers });
  expect(created.status).toBe(201);
  await expect(nodes.open({ config: { chttpd: { port: -1 } } })).rejects.toThrow("port");
});

test("an address other than loopback requires an administrator", async () => {
  const node = await nodes.open();
  await expect(node.listen({ host: "0.0.0.0", port: 0 })).rejects.toThrow("administrator");
  const url = await node.listen({ port: 0 });
  expect(await (await fetch(url)).json()).toMatchObject(WELCOME);
});

test("`fetch` fails on a node without the API role", async () => {
  const node = await nodes.open({ roles: ["replication"] });
  await expect(node.fetch("/")).rejects.toThrow("the node does not serve the API");
});

test("a node runs the job of a replication document", async () => {
  const node = await nodes.open();
  await fill(node, "films", 5);
  const path = "/_replicator/copy";
  await call(node, "PUT", path, { source: "films", target: "copy", create_target: true });
  const changes = `/_replicator/_changes?feed=longpoll&since=`;
  for (let since = "0"; ; ) {
    const { body } = await call(node, "GET", path);
    if (body._replication_state === "completed") break;
    since = (await call(node, "GET", changes + since)).body.last_seq;
  }
  expect((await call(node, "GET", "/copy")).body.doc_count).toBe(5);
});

const CLOSED = `
import { openNode, replicate } from "couch-tandem";
const node = await openNode({ store: { kind: "lmdb", directory: process.argv[1] } });
const url = await node.listen({ port: 0 });
await node.fetch("/films", { method: "PUT" });
await replicate(url + "/films", node.databases.get("copy"), { create_target: true });
await node.close();
await node.close();
`;

test("the process ends by itself once the node is closed", async () => {
  const directory = mkdtempSync(join(tmpdir(), "tandem-library-"));
  try {
    const flags = ["--input-type=module", "--eval", CLOSED, join(directory, "data")];
    const child = spawn(process.execPath, flags, { stdio: ["ignore", "inherit", "inherit"] });
    expect(await once(child, "exit")).toEqual([0, null]);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
