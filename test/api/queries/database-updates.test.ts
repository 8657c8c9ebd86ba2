/** `/_db_updates`: creation, changes and deletion of databases. */
import { expect, test } from "vitest";
import { openApi, openFilms } from "../api.fixture.ts";
import { FILMS, refusal, type Scene, testRows } from "../rows.ts";

const seq = expect.stringMatching(/^[0-9]+-/);
const row = (db_name: string, type: string) => ({ db_name, type, seq });

const shared = { onlyHere: "It has databases of other users" };

testRows(FILMS, [
  {
    name: "a created database is reported",
    ask: "GET /_db_updates",
    status: 200,
    json: { results: [row("films", "created")], last_seq: seq },
    ...shared,
  },
  {
    name: "the newest sequence is now",
    ask: "GET /_db_updates?since=now",
    status: 200,
    json: { results: [], last_seq: seq },
    ...shared,
  },
]);

/**
 * CouchDB serves `_db_updates` only if the database `_global_changes` exists. A complete setup
 * creates this database.
 */
const openNoted: Scene = async (open) => {
  const films = await open();
  await films.ask("PUT /_global_changes");
  return films;
};

testRows(openNoted, [
  {
    name: "an unknown feed is refused",
    ask: "GET /_db_updates?feed=x",
    ...refusal(
      400,
      "bad_request",
      "Supported `feed` types: normal, continuous, live, longpoll, eventsource",
    ),
    differs: "CouchDB's message does not mention `live` here",
  },
  {
    name: "a sequence of another server is refused",
    ask: "GET /_db_updates?since=x",
    ...refusal(400, "bad_request", "Malformed sequence supplied in 'since' parameter."),
  },
  {
    name: "a limit is a number",
    ask: "GET /_db_updates?limit=x",
    ...refusal(400, "query_parse_error", "limit must be an integer"),
    differs: "CouchDB reports invalid_integer without the parameter",
  },
  {
    name: "requires the GET method",
    ask: "POST /_db_updates",
    body: {},
    ...refusal(405, "method_not_allowed", "Only GET,HEAD allowed"),
    differs: "CouchDB does not answer HEAD here",
  },
]);

test("_db_updates lists the latest update of each kind for each database, in order of the updates", async () => {
  const { ask } = await openApi();
  for (const name of ["a", "b", "c"]) await ask(`PUT /${name}`);
  await ask("PUT /a/x", { body: {} });
  await ask("PUT /b/x", { body: {} });
  await ask("PUT /a/y", { body: {} });
  await ask("PUT /a/_local/z", { body: {} });
  await ask("DELETE /c");
  await ask("POST /b/_bulk_docs", { body: { docs: [{}, {}] } });
  const { json } = await ask("GET /_db_updates");
  const rows = [
    row("a", "created"),
    row("b", "created"),
    row("c", "created"),
    row("a", "updated"),
    row("c", "deleted"),
    row("b", "updated"),
  ];
  expect(json.results).toEqual(rows);
  expect(json.last_seq).toBe(json.results.at(-1).seq);
  const limited = await ask("GET /_db_updates?limit=4");
  expect(limited.json.results).toEqual(rows.slice(0, 4));
  const rest = await ask(`GET /_db_updates?since=${limited.json.last_seq}`);
  expect(rest.json.results).toEqual(rows.slice(4));
  const backwards = await ask("GET /_db_updates?descending=true&limit=2");
  expect(backwards.json.results).toEqual([row("b", "updated"), row("c", "deleted")]);
});

test("a longpoll feed waits for the next update", async () => {
  const { ask } = await openFilms();
  const { last_seq } = (await ask("GET /_db_updates")).json;
  const answer = ask(`GET /_db_updates?feed=longpoll&since=${last_seq}`);
  await ask("PUT /films/a", { body: {} });
  expect((await answer).json.results).toEqual([row("films", "updated")]);
});

test("a longpoll feed ends when its timeout elapses", async () => {
  const { ask } = await openFilms();
  const { json } = await ask("GET /_db_updates?feed=longpoll&since=now&timeout=10");
  expect(json).toEqual({ results: [], last_seq: seq });
});

test("a continuous feed writes a line per update, and heartbeats while no updates occur", async () => {
  const { ask, stream } = await openFilms();
  const lines = await stream("GET /_db_updates?feed=continuous&since=now&heartbeat=20");
  const next = async (): Promise<string> => {
    for (;;) {
      const { value } = await lines.next();
      if (value !== "") return value;
    }
  };
  expect(await next()).toBe("\n");
  await ask("DELETE /films");
  let line = await next();
  while (line === "\n") line = await next();
  expect(JSON.parse(line)).toEqual(row("films", "deleted"));
  await lines.return?.();
});

test("an eventsource feed writes an event per update", async () => {
  const { stream } = await openFilms();
  const events = await stream("GET /_db_updates?feed=eventsource&timeout=10");
  const pieces: string[] = [];
  for (let piece = await events.next(); !piece.done; piece = await events.next()) {
    pieces.push(piece.value);
  }
  expect(pieces.join("")).toMatch(
    /^data: \{"db_name":"films","type":"created","seq":"([^"]+)"\}\nid: \1\n\n$/,
  );
});

test("concurrent writers to one database do not conflict, and their update rows are reduced to one", async () => {
  const { ask } = await openFilms();
  const rowCount = async () => (await ask("GET /_db_updates")).json.results.length;
  // Writers remove superseded rows at random. A round rarely leaves a superseded row, so it is
  // repeated until there is such a row.
  for (let round = 0; round < 20 && (await rowCount()) <= 2; round++) {
    const write = (n: number) => ask(`PUT /films/${round}-${n}`, { body: {} });
    await Promise.all(Array.from({ length: 20 }, (_, n) => write(n)));
  }
  expect(await rowCount()).toBeGreaterThan(2);
  // Each of these writers removes two superseded rows and adds one row.
  for (let n = 0; n < 20; n++) await ask(`PUT /films/later${n}`, { body: {} });
  const { results } = (await ask("GET /_db_updates")).json;
  expect(results).toEqual([row("films", "created"), row("films", "updated")]);
});
