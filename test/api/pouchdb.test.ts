/** PouchDB 9 as a client over a socket: push, pull and continuous replication. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
// @ts-expect-error: the package brings no types.
import PouchDB from "pouchdb";
// @ts-expect-error: the package brings no types.
import PouchDBFind from "pouchdb-find";
import { expect, onTestFinished, test } from "vitest";
import { openNodeServer } from "../../src/host/http/node-server.ts";
import { openApi } from "./api.fixture.ts";

// biome-ignore lint/suspicious/noExplicitAny: the package brings no types.
type Pouch = any;

(PouchDB as Pouch).plugin(PouchDBFind);

async function openPouch() {
  const { api, runtime } = await openApi();
  const options = { port: 0, bindAddress: "127.0.0.1", api, trace: runtime.trace };
  const server = await openNodeServer(options);
  const folder = await mkdtemp(join(tmpdir(), "tandem-pouchdb-"));
  const databases: Pouch[] = [];
  const open = (name: string): Pouch => {
    const database = new (PouchDB as Pouch)(name);
    databases.push(database);
    return database;
  };
  onTestFinished(async () => {
    for (const database of databases) await database.close();
    await server.close();
    await rm(folder, { recursive: true });
  });
  return {
    local: (name: string): Pouch => open(join(folder, name)),
    remote: (name: string): Pouch => open(`http://127.0.0.1:${server.port}/${name}`),
  };
}

/** Returns every leaf, and the length of every attachment. */
async function contentOf(database: Pouch): Promise<unknown> {
  const { results } = await database.changes({ style: "all_docs", since: 0, include_docs: true });
  return results
    .map(({ id, changes, doc }: Pouch) => {
      const attachments = Object.entries(doc._attachments ?? {});
      return {
        id,
        leaves: changes.map(({ rev }: Pouch) => rev).sort(),
        attachments: attachments.map(([name, { length }]: Pouch) => [name, length]),
      };
    })
    .sort((left: Pouch, right: Pouch) => (left.id < right.id ? -1 : 1));
}

test("all documents of a PouchDB database replicate to this server, and from the server to another PouchDB", async () => {
  const { local, remote } = await openPouch();
  const source = local("source");
  const data = Buffer.from("hello").toString("base64");
  await source.put({ _id: "a/b ü?#%&+", n: 1 });
  await source.put({ _id: "_design/app", views: {} });
  const gone = await source.put({ _id: "gone" });
  await source.remove("gone", gone.rev);
  const _attachments = { "a/b.txt": { content_type: "text/plain", data } };
  const first = await source.put({ _id: "att", _attachments });
  await source.putAttachment("att", "a/b.txt", first.rev, Buffer.from("hello again"), "text/plain");
  await source.bulkDocs(
    [
      { _id: "rivals", _rev: "2-b", _revisions: { start: 2, ids: ["b", "a"] } },
      { _id: "rivals", _rev: "2-c", _revisions: { start: 2, ids: ["c", "a"] } },
    ],
    { new_edits: false },
  );
  await source.bulkDocs(Array.from({ length: 250 }, (_, n) => ({ _id: `d${n}`, n })));

  const pushed = await source.replicate.to(remote("hub"));
  expect(pushed).toMatchObject({ ok: true, doc_write_failures: 0 });
  const target = local("target");
  const pulled = await target.replicate.from(remote("hub"));
  expect(pulled).toMatchObject({ ok: true, docs_written: pushed.docs_written });

  expect(await contentOf(target)).toEqual(await contentOf(source));
  expect(String(await target.getAttachment("att", "a/b.txt"))).toBe("hello again");
  expect((await remote("hub").get("rivals", { conflicts: true }))._conflicts).toEqual(["2-b"]);
  expect(await target.replicate.from(remote("hub"))).toMatchObject({ docs_read: 0 });
});

test("replicating an empty database succeeds", async () => {
  const { local, remote } = await openPouch();
  expect(await local("empty").replicate.to(remote("hub"))).toMatchObject({ ok: true });
  expect(await remote("hub").info()).toMatchObject({ doc_count: 0 });
});

test("two PouchDB databases replicate continuously through a database of this server", async () => {
  const { local, remote } = await openPouch();
  const [left, right] = [local("left"), local("right")];
  const arrival = (database: Pouch, id: string): Promise<void> =>
    new Promise((resolve) => {
      const feed = database.changes({ since: 0, live: true });
      feed.on("change", (change: { id: string }) => {
        if (change.id !== id) return;
        feed.cancel();
        resolve();
      });
    });
  const syncs = [left, right].map((database) => database.sync(remote("hub"), { live: true }));
  await left.put({ _id: "from-left" });
  await arrival(right, "from-left");
  await right.put({ _id: "from-right" });
  await arrival(left, "from-right");
  for (const sync of syncs) sync.cancel();
  await Promise.all(syncs);
});

test("PouchDB's find reads the results from this server page by page", async () => {
  const { remote } = await openPouch();
  const films = remote("hub");
  await films.bulkDocs(
    Array.from({ length: 60 }, (_, n) => ({ _id: `film${100 + n}`, year: 1960 + n })),
  );
  const selector = { _id: { $gt: null }, year: { $gte: 1990 } };
  const found: number[] = [];
  let bookmark: string | undefined;
  for (;;) {
    const query = { selector, fields: ["year"], sort: ["_id"], limit: 8 };
    const page = await films.find(bookmark === undefined ? query : { ...query, bookmark });
    if (page.docs.length === 0) break;
    found.push(...page.docs.map(({ year }: Pouch) => year));
    bookmark = page.bookmark;
  }
  expect(found).toEqual(Array.from({ length: 30 }, (_, n) => 1990 + n));
  expect((await films.getIndexes()).indexes).toHaveLength(1);
  expect((await films.explain({ selector })).index.name).toBe("_all_docs");
});

test("PouchDB creates, uses and removes indexes", async () => {
  const { remote } = await openPouch();
  const films = remote("hub");
  await films.bulkDocs([{ _id: "b", year: 1990 }, { _id: "a", year: 2000 }, { _id: "c" }]);
  const index = { fields: ["year"], ddoc: "by-year", name: "year" };
  expect(await films.createIndex({ index })).toMatchObject({ result: "created", name: "year" });
  expect(await films.createIndex({ index })).toMatchObject({ result: "exists" });
  const query = { selector: { year: { $gt: 0 } }, sort: [{ year: "desc" }], fields: ["_id"] };
  expect(await films.find(query)).toMatchObject({ docs: [{ _id: "a" }, { _id: "b" }] });
  expect((await films.explain(query)).index.name).toBe("year");
  await films.deleteIndex({ ddoc: "by-year", name: "year" });
  await expect(films.find(query)).rejects.toMatchObject({ error: "no_usable_index" });
});
