/** Feeds that start at a time, and `_time_seq`. Both were added to CouchDB after version 3.5. */
import { beforeEach, describe, expect, test } from "vitest";
import { type OpenApi, openFilms } from "../api.fixture.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const START_MS = Date.UTC(2026, 0, 31, 12);

let nowMs: number;
let films: OpenApi;

beforeEach(async () => {
  nowMs = START_MS;
  films = await openFilms({ nowMs: () => nowMs });
  await writeAt(12, "a", "b");
  await writeAt(13, "c");
  await writeAt(14, "d");
});

/** Records the hour in the time table of the store, and writes documents five minutes later. */
async function writeAt(hour: number, ...ids: string[]): Promise<void> {
  const { kv, databases } = films.parts;
  nowMs = START_MS + (hour - 12) * HOUR_MS;
  await kv.transact((tx) => databases.times.record(tx));
  nowMs += 5 * MINUTE_MS;
  const docs = ids.map((_id) => ({ _id }));
  await films.ask("POST /films/_bulk_docs", { body: { docs } });
}

const since = (text: string, path = "/films/_changes") =>
  films.ask(`GET ${path}?since=${encodeURIComponent(text)}`);
const idsOf = ({ json }: Awaited<ReturnType<typeof since>>): string[] =>
  json.results.map(({ id }: { readonly id: string }) => id);

describe("a feed since a time", () => {
  test.each([
    ["1000-01-01T01:01:01Z", ["a", "b", "c", "d"]],
    ["2026-01-31T12:59:59Z", ["a", "b", "c", "d"]],
    ["2026-01-31T13:04:00Z", ["c", "d"]],
    ["2026-01-31T14:04:59Z", ["d"]],
    ["2026-01-31T14:06:00Z", ["d"]],
    ["2026-01-31T14:06:01Z", []],
    ["3000-02-03T04:05:00Z", []],
  ])("the feed since %s contains the changes after this time", async (text, ids) => {
    expect(idsOf(await since(text))).toEqual(ids);
    expect(idsOf(await since(`"${text}"`))).toEqual(ids);
  });

  test("returns the same sequences and pending count as a feed since a sequence", async () => {
    const { json } = await since("2026-01-31T13:30:00Z");
    const { json: all } = await since("0");
    expect(json.results).toEqual(all.results.slice(2));
    expect([json.last_seq, json.pending]).toEqual([all.last_seq, 0]);
    const limited = await films.ask("GET /films/_changes?since=2026-01-31T13:30:00Z&limit=0");
    expect(limited.json.pending).toBe(2);
  });

  test("can be longpoll, continuous, eventsource, filtered or descending", async () => {
    const time = "since=2026-01-31T14:04:00Z";
    const ids = async (request: string, body?: object) => {
      const { text } = await films.ask(request, body === undefined ? {} : { body });
      return [...text.matchAll(/"id":"(.)"/g)].map(([, id]) => id);
    };
    expect(await ids(`GET /films/_changes?${time}&feed=longpoll`)).toEqual(["d"]);
    expect(await ids(`GET /films/_changes?${time}&feed=continuous&timeout=1`)).toEqual(["d"]);
    expect(await ids(`GET /films/_changes?${time}&feed=eventsource&timeout=1`)).toEqual(["d"]);
    const named = { doc_ids: ["a", "d"] };
    expect(await ids(`POST /films/_changes?${time}&filter=_doc_ids`, named)).toEqual(["d"]);
    expect(await ids(`GET /films/_changes?${time}&descending=true`)).toHaveLength(4);
    expect(await ids("GET /films/_changes?last-event-id=2026-01-31T14:04:00Z")).toEqual(["d"]);
  });

  test("in the future waits for the next change", async () => {
    const pieces = await films.stream(
      "GET /films/_changes?feed=continuous&since=2100-01-01T00:00:00Z",
    );
    await pieces.next();
    const next = pieces.next();
    await films.ask("PUT /films/e", { body: {} });
    expect((await next).value).toContain('"id":"e"');
    await pieces.return?.();
  });

  test("can be a feed of _db_updates", async () => {
    await films.ask("PUT /books");
    const names = async (text: string) => {
      const { json } = await since(text, "/_db_updates");
      return json.results.map(({ db_name, type }: Record<string, string>) => `${type} ${db_name}`);
    };
    expect(await names("2026-01-31T14:04:00Z")).toEqual(["updated films", "created books"]);
    expect(await names("2100-01-01T00:00:00Z")).toEqual([]);
    expect(await names("1970-01-01T00:00:00Z")).toHaveLength(3);
  });

  test.each([
    ...["2025-01-01Txx:yy:00Z", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z"],
    ...["2026-01-01T24:00:00Z", "2026-01-01T12:00:60Z", "----------T--:--:--Z"],
    ...["-001-01-01T00:00:00Z", "    -  -  T  :  :  Z", "\u0000000-01-01T00:00:00Z"],
  ])("refuses %j, which is not a time", async (text) => {
    for (const path of ["/films/_changes", "/_db_updates"]) {
      const { status, json } = await since(text, path);
      const refusal = { error: "bad_request", reason: "invalid_time_format" };
      expect([status, json]).toEqual([400, refusal]);
    }
  });

  test.each([
    ...["2026-01-31", "2026-01-31T12:00Z", "2026-01-31T12:00:00", "2026-01-31t12:00:00z"],
    ...["2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00+00:00", "2026-01-31 12:00:00Z"],
    ...[" 2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z ", "2026-01-31T12:00:00Z\n", "today"],
    ...["1769860800", "-1", "1e3", "NaN", "Infinity", "null", "{}", "[]", '""', '"', "\u2028"],
    ...["+002026-01-31T12:00:00Z", "12026-01-31T12:00:00Z", "２０２６-01-31T12:00:00ZZ"],
    ...["1-2-3", "0-0", "1-000000000000000000000000", `${"9".repeat(5_000)}-01-31T12:00:00Z`],
    ...["00000000-ffffffff", "1-g1AAAABteJzLYWBgYMpgTmEQTM4vTc5ISXIwNDLXMwBCwxyQVB4"],
  ])("refuses %j as a sequence", async (text) => {
    const { status, json } = await since(text);
    const reason = "Malformed sequence supplied in 'since' parameter.";
    expect([status, json]).toEqual([400, { error: "bad_request", reason }]);
  });
});

describe("_time_seq", () => {
  const rows = async () => {
    const { status, json } = await films.ask("GET /films/_time_seq");
    expect(status).toBe(200);
    expect(Object.keys(json)).toEqual(["time_seq"]);
    expect(Object.keys(json.time_seq)).toEqual(["00000000-ffffffff"]);
    return json.time_seq["00000000-ffffffff"]["tandem@test"];
  };

  test("counts the changes since each time", async () => {
    expect(await rows()).toEqual([
      ["2026-01-31T12:00:00Z", 2],
      ["2026-01-31T13:00:00Z", 1],
      ["2026-01-31T14:00:00Z", 1],
    ]);
  });

  test("can be reset, after which feeds start at the first change", async () => {
    const { status, json } = await films.ask("DELETE /films/_time_seq");
    expect([status, json]).toEqual([200, { ok: true }]);
    expect(await rows()).toEqual([]);
    expect(idsOf(await since("2026-01-31T14:04:00Z"))).toHaveLength(4);
    expect(idsOf(await since("3000-01-01T00:00:00Z"))).toEqual([]);
    await writeAt(15, "e");
    expect(await rows()).toEqual([
      ["1970-01-01T00:00:00Z", 4],
      ["2026-01-31T15:00:00Z", 1],
    ]);
    expect(idsOf(await since("2026-01-31T15:04:00Z"))).toEqual(["e"]);
  });

  test("rejects other methods, and reports a missing database", async () => {
    const put = await films.ask("PUT /films/_time_seq", { body: {} });
    expect([put.status, put.headers.Allow]).toEqual([405, "DELETE,GET,HEAD"]);
    for (const method of ["GET", "DELETE"]) {
      expect((await films.ask(`${method} /nope/_time_seq`)).status).toBe(404);
    }
  });
});
