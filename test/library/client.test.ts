/** The API client, against a node in the same process and in a bundle for browsers. */
import { fileURLToPath } from "node:url";
import { createContext, runInContext } from "node:vm";
import { rolldown } from "rolldown";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ApiError, type Client, createClient } from "../../src/client/entry.ts";
import type { Fetch } from "../../src/client/requests.ts";
import type { TandemNode } from "../../src/library/entries/index.ts";
import { call, fill, LibraryNodes } from "./library.fixture.ts";

const nodes = new LibraryNodes();
let node: TandemNode;
let client: Client;

beforeAll(async () => {
  node = await nodes.open();
  client = createClient({ url: "http://localhost", fetch: node.fetch as Fetch });
  await fill(node, "films", 2);
  for (let number = 0; number < 5; number++) {
    const job = {
      source: "films",
      target: `copy-${number}`,
      create_target: true,
      continuous: true,
    };
    await call(node, "PUT", `/_replicator/job-${number}`, job);
  }
});
afterAll(() => nodes.close());

test("lists all jobs over several pages, and counts them", async () => {
  const names: string[] = [];
  for await (const { name } of client.jobs.list({ database: "_replicator", limit: 2 })) {
    names.push(name);
  }
  expect(names.toSorted()).toEqual(["0", "1", "2", "3", "4"].map((n) => `_replicator/job-${n}`));
  expect(await client.jobs.count({ name: "_replicator/job-1" })).toEqual({
    count: 1,
    isExact: true,
  });
  expect(await client.jobs.get("_replicator/job-3")).toMatchObject({ doc_id: "job-3" });
});

test("rejects with the server's error", async () => {
  const failure = await client.jobs.get("no/such").catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ApiError);
  expect(failure).toMatchObject({ status: 404, error: "not_found" });
  await expect(client.jobs.commandAll("cancel", {})).rejects.toMatchObject({ status: 400 });
  const away: Fetch = () => Promise.reject(new TypeError("fetch failed"));
  const lost = createClient({ url: "http://localhost/", fetch: away });
  await expect(lost.nodes.list()).rejects.toMatchObject({ status: 0, error: "unreachable" });
});

test("runs commands, with progress, and undoes them", async () => {
  const command = client.jobs.commandAll("pause", { database: "_replicator" }, { why: "a test" });
  for await (const { matched } of command) expect(matched).toBe(5);
  const { id = "", changed } = await command;
  expect(changed).toBe(5);
  expect(await client.commands.get(id)).toMatchObject({ action: "pause", why: "a test" });
  expect(await client.jobs.count({ paused: true })).toMatchObject({ count: 5 });
  expect(await client.commands.undo(id)).toMatchObject({ changed: 5 });
  expect(await client.jobs.count({ paused: true })).toMatchObject({ count: 0 });
  await client.jobs.command("pause", "_replicator/job-0");
  expect(await client.jobs.get("_replicator/job-0")).toMatchObject({ paused: true });
});

test("a failed command rejects, and its iteration throws", async () => {
  const command = client.jobs.commandAll("pause", {});
  const iterating = (async () => {
    for await (const _ of command);
  })();
  await expect(iterating).rejects.toMatchObject({ status: 400 });
});

test("stores, plans and removes rules", async () => {
  const rule = { source: "local", target: "copy-of-{db}", databases: ["films"] };
  expect(await client.rules.plan("all", rule)).toMatchObject({ create: { count: 1 } });
  await client.rules.put("all", rule);
  const names: (string | undefined)[] = [];
  for await (const { name } of client.rules.list()) names.push(name);
  expect(names).toEqual(["all"]);
  expect(await client.rules.get("all")).toMatchObject({ databases: ["films"] });
  await client.rules.remove("all");
  await expect(client.rules.get("all")).rejects.toMatchObject({ status: 404 });
});

test("lists nodes, and drains them", async () => {
  const [first] = await client.nodes.list();
  const name = String(first?.name);
  await client.nodes.drain(name);
  expect(await client.nodes.list()).toMatchObject([{ draining: true }]);
  await client.nodes.undrain(name);
});

test("events continue after a lost connection, without a gap", async () => {
  const positions: (string | undefined)[] = [];
  let cut = new AbortController();
  const fetch: Fetch = async (url, init) => {
    positions.push(init.headers["last-event-id"]);
    cut = new AbortController();
    const signal = AbortSignal.any([cut.signal, init.signal as AbortSignal]);
    return node.fetch(url, { ...init, signal });
  };
  const stopping = new AbortController();
  const watching = createClient({ url: "http://localhost/", fetch });
  const past = await call(node, "GET", "/_tandem/events/_past?limit=1");
  const since = past.body.events[0].place;
  const events = watching.events(
    { kind: ["paused", "resumed"] },
    { signal: stopping.signal, since },
  );
  const iterator = events[Symbol.asyncIterator]();
  const first = iterator.next();
  const pause = async (action: "pause" | "resume") =>
    client.jobs.command(action, "_replicator/job-2");
  await pause("pause");
  const { value: paused } = await first;
  expect(paused).toMatchObject({ kind: "job", name: "_replicator/job-2" });
  const second = iterator.next();
  cut.abort(new Error("lost"));
  await pause("resume");
  expect((await second).value).toMatchObject({ kind: "job", name: "_replicator/job-2" });
  expect(positions).toEqual([since, paused?.place]);
  stopping.abort();
  expect(await iterator.next()).toMatchObject({ done: true });
});

const BROWSER = {
  ...{ URL, URLSearchParams, TextDecoder, TextEncoder, AbortController, AbortSignal },
  ...{ setTimeout, clearTimeout },
};

test("a bundle for browsers imports nothing of Node.js", async () => {
  const bundle = await rolldown({
    input: "client",
    platform: "browser",
    plugins: [
      {
        name: "entry",
        resolveId: (id) => (id === "client" ? id : undefined),
        load: (id) =>
          id === "client" ? `export { createClient } from "couch-tandem/client"` : undefined,
      },
    ],
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
  });
  const { output } = await bundle.generate({ format: "iife", name: "tandem" });
  await bundle.close();
  expect(output).toHaveLength(1);
  const { code, imports, dynamicImports } = output[0];
  expect([...imports, ...dynamicImports]).toEqual([]);
  expect(code).not.toMatch(/\bnode:|\bprocess\.|\brequire\(/);
  // Only what browsers have.
  const page = createContext({ ...BROWSER, fetch: node.fetch });
  const listed = runInContext(
    `${code}; tandem.createClient({ url: "http://localhost/", fetch }).nodes.list()`,
    page,
  );
  expect(await listed).toMatchObject([{ name: expect.any(String) }]);
});
