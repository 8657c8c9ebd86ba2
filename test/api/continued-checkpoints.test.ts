/** Continuing a stored replication log: a single request adds the latest session to the log. */
import { expect, test } from "vitest";
import { openFilms } from "./api.fixture.ts";
import { refusal } from "./rows.ts";

/** An entry of a replication log. */
function entry(session_id: string, start_last_seq: string, end_last_seq: string) {
  const recorded_seq = end_last_seq;
  return { session_id, start_last_seq, end_last_seq, recorded_seq, docs_read: 3 };
}

test("a repeated request to continue the stored replication log adds its session only once", async () => {
  const { ask } = await openFilms();
  const history = [entry("one", "0", "5-x")];
  const first = { session_id: "one", source_last_seq: "5-x", history };
  await ask("PUT /films/_local/log", { body: first });
  const next = {
    session_id: "two",
    source_last_seq: "7-x",
    history: [entry("two", "5-x", "7-x")],
  };
  for (const rev of ["0-2", "0-3"]) {
    expect(await ask("POST /films/_local/log/_continue", { body: next })).toMatchObject({
      status: 201,
      json: { ok: true, id: "_local/log", rev },
    });
  }
  const { json } = await ask("GET /films/_local/log");
  expect(json).toMatchObject({ _rev: "0-3", session_id: "two", source_last_seq: "7-x" });
  expect(json.history).toMatchObject([entry("two", "5-x", "7-x"), entry("one", "0", "5-x")]);
  const late = {
    session_id: "three",
    source_last_seq: "8-x",
    history: [entry("three", "5-x", "8-x")],
  };
  const refused = await ask("POST /films/_local/log/_continue", { body: late });
  expect(refused).toMatchObject(
    refusal(
      409,
      "conflict",
      "The stored replication log has another session_id or source_last_seq.",
    ),
  );
  expect((await ask("GET /films/_local/log")).json).toEqual(json);
});

test("the API writes a replication log only to the database with the given instance_start_time", async () => {
  const { ask } = await openFilms();
  const { instance_start_time: madeAt } = (await ask("GET /films")).json;
  const history = [entry("one", "0", "5-x")];
  const body = { session_id: "one", source_last_seq: "5-x", history };
  const at = (time: string) =>
    ask(`POST /films/_local/log/_continue?instance_start_time=${time}`, { body });
  expect(await at("1")).toMatchObject(
    refusal(409, "conflict", "The database was re-created: its instance_start_time differs."),
  );
  expect((await ask("GET /films/_local/log")).status).toBe(404);
  expect((await at(madeAt)).json.rev).toBe("0-1");
  expect((await ask("GET /films/_local/log")).json).toMatchObject(body);
});

test("the API refuses to continue a stored log longer than one megabyte", async () => {
  const { ask } = await openFilms();
  const history = [entry("one", "0", "5-x")];
  const stored = { session_id: "one", source_last_seq: "5-x", history };
  await ask("PUT /films/_local/log", { body: { ...stored, more: "x".repeat(1024 * 1024) } });
  const next = [entry("two", "5-x", "7-x")];
  const body = { session_id: "two", source_last_seq: "7-x", history: next };
  const reason =
    "The stored log has more than 1048576 bytes, so nothing can be appended; read it and write the whole document.";
  expect(await ask("POST /films/_local/log/_continue", { body })).toMatchObject(
    refusal(413, "too_large", reason),
  );
});

test("a request to continue a missing log is answered with 404", async () => {
  const { ask } = await openFilms();
  const body = { session_id: "two", source_last_seq: "7-x", history: [entry("two", "5-x", "7-x")] };
  expect(await ask("POST /films/_local/x/_continue", { body })).toMatchObject(
    refusal(404, "not_found", "missing"),
  );
});

test.each([{}, { session_id: "two", history: [] }, { session_id: "two", history: [{}] }, []])(
  "the API refuses an invalid replication log: %j",
  async (body) => {
    const { ask } = await openFilms();
    const reason =
      "The body must be a replication log with `session_id`, `source_last_seq`, and a `history` with one entry, whose `session_id` is the same and whose `recorded_seq` equals `source_last_seq`.";
    expect(await ask("POST /films/_local/x/_continue", { body })).toMatchObject(
      refusal(400, "bad_request", reason),
    );
  },
);

test.each([
  { session_id: "s", history: [entry("s", "0", "5")] },
  { session_id: "s", source_last_seq: "5", history: [] },
  { session_id: "s", source_last_seq: "5", history: [entry("s", "0", "5"), entry("r", "0", "0")] },
  { session_id: "s", source_last_seq: "5", history: [entry("other", "0", "5")] },
  { session_id: "s", source_last_seq: "5", history: [entry("s", "0", "7")] },
])("the API refuses %j, which is not the replication log of exactly one run", async (body) => {
  const { ask } = await openFilms();
  const { instance_start_time: madeAt } = (await ask("GET /films")).json;
  const path = `/films/_local/log/_continue?instance_start_time=${madeAt}`;
  expect((await ask(`POST ${path}`, { body })).status).toBe(400);
});

test("the API refuses a log without the JSON content type, which a page of another site could send", async () => {
  const { ask } = await openFilms();
  const { instance_start_time: madeAt } = (await ask("GET /films")).json;
  const body = { session_id: "s", source_last_seq: "5", history: [entry("s", "0", "5")] };
  const path = `/films/_local/log/_continue?instance_start_time=${madeAt}`;
  const headers = { "content-type": "text/plain" };
  expect((await ask(`POST ${path}`, { body, headers })).status).toBe(415);
});
