/** Moves from servers that behave differently from Tandem. */
import { expect, test } from "vitest";
import type { Connections } from "../../library/index.ts";
import { AnswerError } from "../server/server-client.ts";
import { ReplicatorServer } from "./replicator-server.ts";
import { back, type Outcome, type StepParts, start, stop, writtenBack } from "./steps.ts";

type Answers = Readonly<Record<string, unknown>>;

/**
 * A server that returns `answers` by method and path (without the query), and 404 to all other
 * requests. Records the requests.
 */
function serverOf(answers: Answers) {
  const requests: string[] = [];
  const ask = async (method: string, path: string): Promise<unknown> => {
    const request = `${method} ${path.replace(/\?.*/, "")}`;
    requests.push(request);
    const answer = answers[request];
    if (answer === undefined) throw new AnswerError(404, "404 not_found: missing");
    if (answer instanceof Error) throw answer;
    return typeof answer === "function" ? answer() : answer;
  };
  return { server: new ReplicatorServer({ ask }), requests };
}

async function outcomes(
  step: typeof stop,
  from: Answers,
  here: Answers,
  { anyway = false, only }: Partial<Pick<StepParts, "anyway" | "only">> = {},
) {
  const there = serverOf(from);
  const own = serverOf(here);
  const parts: StepParts = {
    from: there.server,
    here: own.server,
    fromUrl: "http://old",
    only,
    limit: 10,
    anyway,
    uuids: async () => ({ here: "", there: "" }),
    connections: {} as Connections,
    signal: new AbortController().signal,
  };
  const found: Outcome[] = [];
  for await (const outcome of step(parts, "_replicator")) found.push(outcome);
  return { found, asked: { there: there.requests, here: own.requests } };
}

const rows = (doc: object = {}) => ({
  rows: [{ id: "a", key: "a", value: { rev: "1-a" }, doc: { _id: "a", ...doc } }],
});
const job = { id: "id", database: "_replicator", doc_id: "a" };
const HERE: Answers = {
  "POST /_replicator/_revs_diff": {},
  "POST /_replicator/_all_docs": rows(),
  "GET /_replicator/_all_docs": rows(),
};
const DELETE = "DELETE /_replicator/a";

test("a running job is stopped even if its document says that it has ended", async () => {
  let isDeleted = false;
  const from = {
    "GET /_replicator/_all_docs": rows(),
    "GET /_scheduler/docs/_replicator/a": { state: "completed", id: null },
    "GET /_scheduler/jobs": () => ({ jobs: isDeleted ? [] : [job] }),
    [DELETE]: () => {
      isDeleted = true;
      return {};
    },
  };
  const { found } = await outcomes(stop, from, HERE);
  expect(found).toMatchObject([{ outcome: "stopped" }]);
  expect(isDeleted).toBe(true);
});

test("`stop` skips ended jobs", async () => {
  const from = {
    "GET /_replicator/_all_docs": rows(),
    "GET /_scheduler/docs/_replicator/a": { state: "failed", id: null },
    "GET /_scheduler/jobs": { jobs: [] },
  };
  const { found, asked } = await outcomes(stop, from, HERE);
  expect([found, asked.there.includes(DELETE)]).toEqual([[], false]);
});

const RUNNING: Answers = {
  "GET /_replicator/_all_docs": rows(),
  "GET /_scheduler/docs/_replicator/a": { state: "running", id: "id" },
  "GET /_scheduler/jobs": { jobs: [job] },
};

test.each([
  ["run `take` first", RUNNING, { ...HERE, "POST /_replicator/_revs_diff": { a: {} } }],
  [
    "conflicting revisions",
    { ...RUNNING, "GET /_replicator/_all_docs": rows({ _conflicts: ["1-x"] }) },
    HERE,
  ],
  [
    "changed on the old server in the meantime",
    { ...RUNNING, [DELETE]: new AnswerError(409, "conflict") },
    HERE,
  ],
])("reports why a job is not stopped: %s", async (reason, from, here) => {
  const { found } = await outcomes(stop, from, here);
  expect(found).toMatchObject([{ outcome: "not stopped", isProblem: true }]);
  expect(found[0]?.reason).toContain(reason);
});

test.each([
  { ...job, doc_id: "other" },
  { ...job, database: "other" },
])(
  "a job counts as stopped if its replication now runs for another document: %j",
  async (other) => {
    const from = { ...RUNNING, [DELETE]: {}, "GET /_scheduler/jobs/id": other };
    const { found } = await outcomes(stop, from, HERE);
    expect(found).toMatchObject([{ outcome: "stopped" }]);
  },
);

const PAUSED = {
  "GET /_tandem/jobs": {
    bookmark: null,
    jobs: [
      { id: "id", doc_id: "a", control: [{ action: "pause", why: "taken over from http://old" }] },
      { id: "x", doc_id: "x", control: [{ action: "pause", why: "at night" }] },
    ],
  },
  "POST /_tandem/jobs/_replicator%2Fa/_resume": {},
};

test.each([
  ["the old server still runs it", [job], undefined],
  ["another job on the old server runs the same", [{ ...job, doc_id: "other" }], undefined],
  ["its document still exists", [], { state: null, id: null }],
])("reports why a job is not started: %s", async (reason, jobs, scheduled) => {
  const from = {
    "GET /_scheduler/jobs": { jobs },
    ...(scheduled === undefined ? {} : { "GET /_scheduler/docs/_replicator/a": scheduled }),
  };
  const { found } = await outcomes(start, from, PAUSED);
  expect(found).toMatchObject([{ id: "a", outcome: "not started", isProblem: true }]);
  expect(found[0]?.reason).toContain(reason);
});

test("with `anyway`, jobs paused by `take` are started without querying the old server", async () => {
  const { found, asked } = await outcomes(start, {}, PAUSED, { anyway: true });
  expect([found.map(({ id }) => id), asked.there]).toEqual([["a"], []]);
});

test("`start` skips jobs that are not selected", async () => {
  const options = { anyway: true, only: new Set(["b"]) };
  expect((await outcomes(start, {}, PAUSED, options)).found).toEqual([]);
});

test("a document is not moved back if the old server deleted a different document with the same id", async () => {
  const from = {
    "POST /_replicator/_all_docs": { rows: [{ key: "a", value: { rev: "2-z", deleted: true } }] },
    "POST /_replicator/_revs_diff": { a: { missing: ["1-a"] } },
  };
  const document = { _id: "a", _rev: "1-a", _revisions: { start: 1, ids: ["a"] } };
  const { found, asked } = await outcomes(back, from, { ...HERE, "GET /_replicator/a": document });
  expect(found).toMatchObject([
    { outcome: "kept, because it did not come from the old server", isProblem: false },
  ]);
  expect(asked.here).not.toContain(DELETE);
});

test("a document is written back without the state of a running job", () => {
  const body = { _id: "a", _rev: "1-a", source: "s", _replication_state: "error" };
  expect(writtenBack(body)).toEqual({ _id: "a", source: "s" });
  const ended = { _id: "a", _replication_state: "completed", _replication_stats: {} };
  expect(writtenBack({ ...ended, _rev: "2-b" })).toEqual(ended);
});
