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

test("the client lists all jobs over several pages, and counts them", async () => {
  const names: string[] = [];
  for await (const { name } of client.jobs.list({ database: "_replicator", limit: 2 })) {
    names.push(name);
  }
  expect(names.toSorted()).toEqual(["0", "1", "2", "3", "4"].map((n) => `_replicator/job-${n}`));
  expect(await client.jobs.count({ name: "_replicator/job-1" })).toMatchObject({
    count: 1,
    isExact: true,
  });
  expect(await client.jobs.get("_replicator/job-3")).toMatchObject({ doc_id: "job-3" });
});

test("the client reads a list of any kind page by page or completely", async () => {
  const { bookmark, jobs } = await client.jobs.list({ limit: 3 }).page();
  expect(jobs).toHaveLength(3);
  const { jobs: others } = await client.jobs.list({ bookmark: String(bookmark) }).page();
  expect(others).toHaveLength(2);
  await client.jobs.command("pause", "_replicator/job-4", { why: "a test" });
  await client.jobs.command("resume", "_replicator/job-4");
  const places: string[] = [];
  const past = { job: "_replicator/job-4", limit: 1 };
  for await (const { place } of client.pastEvents(past)) places.push(place);
  expect(places.length).toBeGreaterThan(2);
  expect(places).toEqual(places.toSorted().toReversed());
  for (const host of ["a.example", "b.example", "c.example"]) {
    await client.budgets.put(host, { read: { requests_per_sec: 5 } });
  }
  const hosts: string[] = [];
  for await (const { name } of client.budgets.list()) hosts.push(name);
  expect(hosts).toEqual(["a.example", "b.example", "c.example"]);
  await client.budgets.remove("b.example");
  expect(await client.budgets.list().page()).toMatchObject({ total_rows: 2 });
  const groups: string[] = [];
  for await (const { name } of client.groups.list({ limit: 1 })) groups.push(name);
  expect(groups).toEqual(["_replicator"]);
});

test("a failed call of the client rejects with the server's error", async () => {
  const failure = await client.jobs.get("no/such").catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ApiError);
  expect(failure).toMatchObject({ status: 404, error: "not_found" });
  await expect(client.jobs.commandAll("cancel", {})).rejects.toMatchObject({ status: 400 });
  const away: Fetch = () => Promise.reject(new TypeError("fetch failed"));
  const lost = createClient({ url: "http://localhost/", fetch: away });
  await expect(lost.nodes.list().page()).rejects.toMatchObject({ status: 0, error: "unreachable" });
});

test("the client runs a command, reports its progress, and undoes it", async () => {
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

test("the client stores, plans and removes rules", async () => {
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

test("the client lists conflicts, sets and removes a policy, and undoes its resolutions", async () => {
  await call(node, "PUT", "/scripts");
  for (const id of ["a", "b", "c"]) {
    const docs = ["1-a", "1-b"].map((_rev) => ({ _id: id, _rev }));
    await call(node, "POST", "/scripts/_bulk_docs", { new_edits: false, docs });
  }
  const { conflicts } = client;
  const ids = async () => {
    const found: string[] = [];
    for await (const { id } of conflicts.list("scripts", { limit: 1 })) found.push(id);
    return found;
  };
  expect(await ids()).toEqual(["a", "b", "c"]);
  const counts: unknown[] = [];
  for await (const row of conflicts.databases({ limit: 1 })) counts.push(row);
  expect(counts).toEqual([{ name: "scripts", conflicts: 3 }]);
  await expect(conflicts.setPolicy("scripts", { resolve: "last_write" })).rejects.toMatchObject({
    status: 400,
  });
  await conflicts.setPolicy("scripts", { resolve: "longest_history" });
  expect(await conflicts.policy("scripts")).toMatchObject({
    policy: { resolve: "longest_history" },
  });
  await conflicts.removePolicy("scripts");
  expect(await conflicts.policy("scripts")).toEqual({ policy: null, since: null });
  const resolved: string[] = [];
  for await (const { id } of conflicts.resolutions("scripts")) resolved.push(id);
  expect(resolved).toEqual([]);
  expect(await conflicts.undo("scripts", { ids: ["a"] })).toEqual({
    resolutions: 0,
    revisions: 0,
    lost: 0,
    kept: 0,
  });
});

test("an undo of resolutions repeats its request until the response has no bookmark", async () => {
  const bodies: unknown[] = [];
  const fetch: Fetch = async (url, init) => {
    bodies.push(JSON.parse(init.body ?? ""));
    expect(url).toBe("http://localhost/_tandem/databases/films/conflicts/_undo");
    const bookmark = ["7", "3", null][bodies.length - 1];
    return Response.json({ ok: true, resolutions: 2, revisions: 3, lost: 1, kept: 4, bookmark });
  };
  const { conflicts } = createClient({ url: "http://localhost/", fetch });
  const since = "2026-01-31T12:00:00Z";
  const undone = await conflicts.undo("films", { since });
  expect(undone).toEqual({ resolutions: 6, revisions: 9, lost: 3, kept: 12 });
  expect(bodies).toEqual([{ since }, { since, bookmark: "7" }, { since, bookmark: "3" }]);
  const foreign: Fetch = async () => Response.json({ ok: true });
  const other = createClient({ url: "http://localhost/", fetch: foreign });
  await expect(other.conflicts.undo("films")).rejects.toMatchObject({
    error: "unexpected_response",
  });
});

test("the topology has an edge for each pair of databases", async () => {
  const { edges } = await client.jobs.topology({ name: "_replicator/job-1" });
  expect(edges).toMatchObject([{ jobs: 1, names: ["_replicator/job-1"] }]);
});

test("the client lists nodes, and drains a node", async () => {
  const [first] = (await client.nodes.list().page()).nodes;
  const name = String(first?.name);
  await client.nodes.drain(name);
  expect((await client.nodes.list().page()).nodes).toMatchObject([{ draining: true }]);
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
  const next = async () => (await iterator.next()).value;
  const command = async (action: "pause" | "resume") =>
    client.jobs.command(action, "_replicator/job-2");
  expect(await next()).toEqual({ kind: "open", place: since });
  await command("pause");
  const paused = await next();
  expect(paused).toMatchObject({ kind: "job", name: "_replicator/job-2" });
  const lost = next();
  cut.abort(new Error("lost"));
  expect(await lost).toMatchObject({ kind: "lost" });
  await command("resume");
  expect(await next()).toEqual({ kind: "open", place: paused?.place });
  expect(await next()).toMatchObject({ kind: "job", name: "_replicator/job-2" });
  expect(positions).toEqual([since, paused?.place]);
  stopping.abort();
  expect(await iterator.next()).toMatchObject({ done: true });
});

const BROWSER = {
  ...{ URL, URLSearchParams, TextDecoder, TextEncoder, AbortController, AbortSignal },
  ...{ setTimeout, clearTimeout },
};

test("a bundle of the client for browsers imports no modules of Node.js", async () => {
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
  // The context has only globals that browsers also have.
  const page = createContext({ ...BROWSER, fetch: node.fetch });
  const listed = runInContext(
    `${code}; tandem.createClient({ url: "http://localhost/", fetch }).nodes.list().page()`,
    page,
  );
  expect(await listed).toMatchObject({ nodes: [{ name: expect.any(String) }] });
});
