/** `nano`, CouchDB's own client for Node.js. It works with Tandem as it does with CouchDB. */
import nano from "nano";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { Processes, type TandemNode } from "../support/open-process.ts";

const processes = new Processes();
let tandem: TandemNode;
let server: nano.ServerScope;
let films: nano.DocumentScope<Film>;

interface Film {
  readonly title: string;
}

beforeAll(async () => {
  tandem = await processes.openHere({ ini: "[admins]\nadm = pass\n" });
});
afterAll(() => processes.close());

beforeEach(async () => {
  server = nano(tandem.url.replace("//", "//adm:pass@"));
  if ((await server.db.list()).includes("films")) await server.db.destroy("films");
  await server.db.create("films");
  films = server.use("films");
});

test("nano creates, describes, lists and deletes databases", async () => {
  expect(await server.db.get("films")).toMatchObject({ db_name: "films", doc_count: 0 });
  expect(await server.db.list()).toContain("films");
  await server.db.destroy("films");
  await expect(server.db.get("films")).rejects.toMatchObject({ statusCode: 404 });
});

test("nano writes, reads, copies and deletes a document", async () => {
  const { rev } = await films.insert({ title: "M" }, "m");
  await expect(films.insert({ title: "N" }, "m")).rejects.toMatchObject({ statusCode: 409 });
  expect(await films.get("m")).toEqual({ _id: "m", _rev: rev, title: "M" });
  expect((await films.head("m")).etag).toBe(`"${rev}"`);
  await films.insert({ _rev: rev, title: "M (1931)" } as Film, "m");
  expect(await films.get("m", { revs_info: true })).toMatchObject({
    title: "M (1931)",
    _revs_info: [{ status: "available" }, { rev, status: "available" }],
  });
  const copied = await films.get("m");
  await films.destroy("m", copied._rev);
  await expect(films.get("m")).rejects.toMatchObject({ statusCode: 404, reason: "deleted" });
});

test("nano writes and reads documents in bulk", async () => {
  const docs = Array.from({ length: 300 }, (_, n) => ({ _id: `f${1000 + n}`, title: `${n}` }));
  const results = await films.bulk({ docs });
  expect(results).toHaveLength(300);
  const { rows, total_rows: total } = await films.list({ include_docs: true, limit: 2, skip: 1 });
  expect(total).toBe(300);
  expect(rows.map(({ doc }) => doc?.title)).toEqual(["1", "2"]);
  const fetched = await films.fetch({ keys: ["f1299", "nope"] });
  expect(fetched.rows).toMatchObject([{ doc: { title: "299" } }, { error: "not_found" }]);
});

test("nano stores and reads attachments, with their document and separately", async () => {
  const poster = Buffer.from([0, 1, 2, 255]);
  const { rev } = await films.attachment.insert("m", "poster ü.png", poster, "image/png");
  expect(await films.attachment.get("m", "poster ü.png")).toEqual(poster);
  const files = [
    { name: "a.png", data: poster, content_type: "image/png" },
    { name: "b.bin", data: Buffer.alloc(100_000, 7), content_type: "application/x" },
  ];
  await films.multipart.insert({ title: "N" }, files, "n");
  expect(await films.attachment.get("n", "b.bin")).toEqual(files[1]?.data);
  const stream = films.attachment.getAsStream("n", "a.png");
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(Buffer.from(chunk));
  expect(Buffer.concat(chunks)).toEqual(poster);
  await films.attachment.destroy("m", "poster ü.png", { rev });
  expect(await films.get("m")).not.toHaveProperty("_attachments");
});

test("nano's changes reader returns existing changes and later ones", async () => {
  await films.bulk({ docs: [{ _id: "a" }, { _id: "b" }] });
  const seen = await new Promise<string[]>((resolve, reject) => {
    const ids: string[] = [];
    const reader = films.changesReader.start({ since: "0", wait: false });
    reader.on("error", reject);
    reader.on("change", (change: { id: string }) => {
      ids.push(change.id);
      // Written only after the reader has received all earlier changes, so that the server must
      // notify it.
      if (ids.length === 2) void films.insert({ title: "C" }, "c").catch(reject);
      if (ids.length < 3) return;
      films.changesReader.stop();
      resolve(ids);
    });
  });
  expect(seen.toSorted()).toEqual(["a", "b", "c"]);
});

test("nano's find returns documents", async () => {
  await films.bulk({
    docs: [
      { _id: "a", title: "M" },
      { _id: "b", title: "N" },
    ],
  });
  const { docs } = await films.find({ selector: { title: "N" }, fields: ["_id"] });
  expect(docs).toEqual([{ _id: "b" }]);
});

test("nano creates an index, and a find returns documents in the order of the index", async () => {
  await films.bulk({
    docs: [
      { _id: "a", title: "N" },
      { _id: "b", title: "M" },
    ],
  });
  const made = await films.createIndex({ index: { fields: ["title"] }, name: "by-title" });
  expect(made).toMatchObject({ result: "created", name: "by-title" });
  const { docs, warning } = await films.find({
    selector: { title: { $gt: "" } },
    sort: ["title"],
    fields: ["_id"],
  });
  expect(docs).toEqual([{ _id: "b" }, { _id: "a" }]);
  expect(warning).toBeUndefined();
});

test("nano opens a session with a cookie, and a wrong password is refused", async () => {
  const anonymous = nano(tandem.url);
  await expect(anonymous.db.create("x")).rejects.toMatchObject({ statusCode: 401 });
  await expect(anonymous.auth("adm", "no")).rejects.toMatchObject({ statusCode: 401 });
  const jar = nano(tandem.url);
  await jar.auth("adm", "pass");
  expect((await jar.session()).userCtx).toMatchObject({ name: "adm", roles: ["_admin"] });
});
