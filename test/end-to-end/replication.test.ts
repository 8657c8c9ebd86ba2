/** Two nodes in two processes copy documents completely. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { onceThere } from "../support/changes-feed.ts";
import { compare } from "../support/compare.ts";
import { EXACT_BODY, ODD_IDS, writeOddDocuments } from "../support/odd-documents.ts";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { load, sampleLines } from "../support/sample-data.ts";

const processes = new Processes();
let here: TandemProcess;
let there: TandemProcess;

beforeAll(async () => {
  [here, there] = await Promise.all([processes.open(), processes.open()]);
});
afterAll(() => processes.close());

/** Three ways to copy a database: between local databases without a socket, pushed, and pulled. */
const WAYS = ["between local databases", "pushed to another node", "pulled from another node"];

/** Replicates `database` of the first node. Returns the URL of the copy. */
async function replicate(way: string, database: string): Promise<string> {
  const isPull = way.startsWith("pulled");
  const source = isPull ? `${here.url}/${database}` : database;
  const copy = `${database}-${way.split(" ")[0]}`;
  const target = way.startsWith("pushed") ? `${there.url}/${copy}` : copy;
  const node = isPull ? there : here;
  const body = { source, target, create_target: true };
  const { status, body: answer } = await node.call("POST", "/_replicate", body);
  expect([status, answer.ok, answer.history?.[0].doc_write_failures ?? 0]).toEqual([200, true, 0]);
  const again = await node.call("POST", "/_replicate", body);
  expect(again.body.no_changes).toBe(true);
  return way.startsWith("between") ? `${here.url}/${copy}` : `${there.url}/${copy}`;
}

describe.each(WAYS)("%s", (way) => {
  const suffix = way.split(" ")[0];

  test("all films arrive unchanged", async () => {
    const database = `films-${suffix}`;
    await load(here, database, sampleLines("films").slice(0, 1000));
    const copy = await replicate(way, database);
    expect(await compare(`${here.url}/${database}`, copy)).toMatchObject({
      documentCount: 1000,
      differenceCount: 0,
    });
  });

  test("countries arrive with their flags, and an updated flag arrives later", async () => {
    const database = `countries-${suffix}`;
    await load(here, database, sampleLines("countries"));
    const copy = await replicate(way, database);
    const first = await compare(`${here.url}/${database}`, copy);
    expect(first).toMatchObject({ attachmentCount: 250, differenceCount: 0 });
    const { body } = await here.call("GET", `/${database}/ABW`);
    const updated = await fetch(`${here.url}/${database}/ABW/flag.svg?rev=${body._rev}`, {
      method: "PUT",
      headers: { "content-type": "image/svg+xml" },
      body: "<svg/>",
    });
    expect(updated.status).toBe(201);
    await replicate(way, database);
    expect((await compare(`${here.url}/${database}`, copy)).differences).toEqual([]);
    const flag = await fetch(`${copy}/ABW/flag.svg`);
    expect(await flag.text()).toBe("<svg/>");
  });

  test("a conflict, a deletion, a design document and unusual ids arrive, and documents have the same winners", async () => {
    const database = `odd-${suffix}`;
    await here.call("PUT", `/${database}`);
    await writeOddDocuments(here.call, database);
    const copy = await replicate(way, database);
    const comparison = await compare(`${here.url}/${database}`, copy);
    expect(comparison.differences).toEqual([]);
    expect(comparison.documentCount).toBe(ODD_IDS.length + 4);
    expect(comparison.leafCount).toBe(ODD_IDS.length + 5);
    const answer = await fetch(`${copy}/conflict?conflicts=true`);
    const conflict = (await answer.json()) as { _conflicts: string[] };
    const original = (await here.call("GET", `/${database}/conflict?conflicts=true`)).body;
    expect(conflict).toEqual(original);
    expect(conflict._conflicts).toHaveLength(1);
    expect((await fetch(`${copy}/deleted`)).status).toBe(404);
    const note = await fetch(`${copy}/attached/note.txt`);
    expect(await note.text()).toBe("second bytes");
  });

  test("numbers, member names and the order of members arrive byte for byte", async () => {
    const database = `exact-${suffix}`;
    await here.call("PUT", `/${database}`);
    await here.call("PUT", `/${database}/exact`, EXACT_BODY);
    await here.call(
      "POST",
      `/${database}/_bulk_docs`,
      `{"docs":[{"_id":"bulk",${EXACT_BODY.slice(1)}]}`,
    );
    const copy = await replicate(way, database);
    for (const id of ["exact", "bulk"]) {
      const text = (await (await fetch(`${copy}/${id}`)).text()).trim();
      expect(text.endsWith(`",${EXACT_BODY.slice(1)}`)).toBe(true);
    }
  });

  test("an empty database is replicated", async () => {
    const database = `empty-${suffix}`;
    await here.call("PUT", `/${database}`);
    const copy = await replicate(way, database);
    const { doc_count: count } = (await (await fetch(copy)).json()) as { doc_count: number };
    expect(count).toBe(0);
  });
});

test("a database with slashes in its name arrives under the same name", async () => {
  await here.call("PUT", "/org%2Fteam%2Bone");
  await here.call("PUT", "/org%2Fteam%2Bone/doc", { n: 1 });
  const target = `${there.url}/org%2Fteam%2Bone`;
  const { status } = await here.call("POST", "/_replicate", {
    source: "org/team+one",
    target,
    create_target: true,
  });
  expect(status).toBe(200);
  const names = (await there.call("GET", "/_all_dbs")).body;
  expect(names).toContain("org/team+one");
});

test("a continuous job shows correct counts while it runs", async () => {
  await here.call("PUT", "/watched");
  const { status, body } = await here.call("POST", "/_replicate", {
    source: "watched",
    target: `${there.url}/watched`,
    create_target: true,
    continuous: true,
  });
  expect(status).toBe(202);
  const id = body._local_id;
  expect(id).toMatch(/^[0-9a-f]{32}\+continuous\+create_target$/);
  await here.call("PUT", "/watched/one", {});
  await onceThere(there.url, "watched", (ids) => ids.has("one"));
  const { body: tasks } = await here.onceAnswered(
    () => here.call("GET", "/_active_tasks"),
    (answer) => answer.body[0]?.docs_written === 1,
  );
  expect(tasks[0]).toMatchObject({
    type: "replication",
    replication_id: id,
    continuous: true,
    revisions_checked: 1,
    missing_revisions_found: 1,
    source: `${here.url}/watched/`,
    target: `${there.url}/watched/`,
  });
  const { body: jobs } = await here.call("GET", "/_scheduler/jobs");
  expect(jobs).toMatchObject({ total_rows: 1, jobs: [{ id, state: "running" }] });
  const cancelled = await here.call("POST", "/_replicate", { replication_id: id, cancel: true });
  expect(cancelled).toEqual({ status: 200, body: { ok: true, _local_id: id } });
  const again = await here.call("POST", "/_replicate", { replication_id: id, cancel: true });
  expect(again).toEqual({ status: 404, body: { error: "not_found", reason: "missing" } });
});
