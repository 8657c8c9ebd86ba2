/**
 * Superseded revisions whose bodies are still stored. Requests can read them, as in CouchDB before
 * a compaction.
 */
import { beforeEach, expect, test } from "vitest";
import { type OpenApi, openFilms } from "../api.fixture.ts";

let api: OpenApi;
/**
 * Revisions of the document `moon`. The first has an attachment, the third is a deletion, and the
 * last re-creates the document.
 */
let revisions: string[];

async function put(body: object): Promise<void> {
  const { json } = await api.ask("PUT /films/moon", { body });
  revisions.push((json as { rev: string }).rev);
}

beforeEach(async () => {
  api = await openFilms({ keepOldBodiesMs: () => 3_600_000 });
  revisions = [];
  const file = { content_type: "text/plain", data: Buffer.from("melies").toString("base64") };
  await put({ year: 1902, _attachments: { file } });
  await put({ year: 1903, _rev: revisions[0] });
  await put({ _rev: revisions[1], _deleted: true });
  await put({ year: 1904 });
});

test("a request with rev returns any old revision except a deletion", async () => {
  const read = async (index: number) => {
    return (await api.ask(`GET /films/moon?rev=${revisions[index]}`)).json;
  };
  expect(await read(0)).toMatchObject({ _rev: revisions[0], year: 1902 });
  expect(await read(1)).toEqual({ _id: "moon", _rev: revisions[1], year: 1903 });
  expect(await read(2)).toMatchObject({ error: "not_found", reason: "missing" });
  expect(await read(3)).toMatchObject({ year: 1904 });
  const history = (await api.ask(`GET /films/moon?rev=${revisions[1]}&revs=true`)).json;
  expect(history).toMatchObject({ _revisions: { start: 2 } });
});

test("old revisions are returned with their attachments", async () => {
  const alone = await api.ask(`GET /films/moon/file?rev=${revisions[0]}`);
  expect([alone.status, alone.text]).toEqual([200, "melies"]);
  const whole = await api.ask(`GET /films/moon?rev=${revisions[0]}&attachments=true`, {
    headers: { accept: "application/json" },
  });
  expect(whole.json).toMatchObject({
    _attachments: { file: { data: Buffer.from("melies").toString("base64") } },
  });
  expect((await api.ask(`GET /films/moon/file?rev=${revisions[1]}`)).status).toBe(404);
});

test("_revs_info reports which old revisions are available", async () => {
  const { json } = await api.ask("GET /films/moon?revs_info=true");
  expect((json as { _revs_info: unknown })._revs_info).toEqual([
    { rev: revisions[3], status: "available" },
    { rev: revisions[2], status: "missing" },
    { rev: revisions[1], status: "available" },
    { rev: revisions[0], status: "available" },
  ]);
});

test("open_revs and _bulk_get return old revisions, and open_revs with latest=true returns the leaf instead", async () => {
  const asked = JSON.stringify([revisions[0]]);
  const headers = { accept: "application/json" };
  const open = await api.ask(`GET /films/moon?open_revs=${asked}`, { headers });
  expect(open.json).toMatchObject([{ ok: { _rev: revisions[0], year: 1902 } }]);
  const latest = await api.ask(`GET /films/moon?open_revs=${asked}&latest=true`, { headers });
  expect(latest.json).toMatchObject([{ ok: { _rev: revisions[3] } }]);
  const body = { docs: [{ id: "moon", rev: revisions[1] }] };
  const bulk = await api.ask("POST /films/_bulk_get", { body });
  expect(bulk.json).toMatchObject({ results: [{ docs: [{ ok: { year: 1903 } }] }] });
});

test("writing a successor of an old revision is a conflict", async () => {
  const conflict = { error: "conflict" };
  const body = { year: 1905, _rev: revisions[0] };
  expect((await api.ask("PUT /films/moon", { body })).json).toMatchObject(conflict);
  expect(
    (await api.ask(`PUT /films/moon/other?rev=${revisions[0]}`, { body: "x" })).json,
  ).toMatchObject(conflict);
  expect((await api.ask(`DELETE /films/moon?rev=${revisions[1]}`)).json).toMatchObject(conflict);
});

test("the bodies of superseded revisions are not kept if keep_old_bodies_sec is 0", async () => {
  api = await openFilms();
  revisions = [];
  await put({ year: 1902 });
  await put({ year: 1903, _rev: revisions[0] });
  expect((await api.ask(`GET /films/moon?rev=${revisions[0]}`)).status).toBe(404);
});
