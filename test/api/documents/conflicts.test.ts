/**
 * A request gets the same response if its transaction runs twice or if the outcome of its commit is
 * unknown.
 */
import { expect, test } from "vitest";
import {
  type CommitOutcome,
  unknownCommits,
} from "../../../src/library/kv-conformance/unknown-commits.ts";
import { spuriousConflicts } from "../../support/faults/spurious-conflicts.ts";
import { openFilms } from "../api.fixture.ts";

test("an edit whose transaction runs twice is written once", async () => {
  const { ask, stream } = await openFilms({ wrapEngine: spuriousConflicts });
  const pieces = await stream("GET /films/_changes?feed=continuous&since=now");
  await pieces.next();
  const change = pieces.next();
  const docs = [{ _id: "a" }, { _id: "b" }, { _id: "a" }];
  const written = await ask("POST /films/_bulk_docs", { body: { docs } });
  expect(written.json).toMatchObject([{ ok: true }, { ok: true }, { error: "conflict" }]);
  expect((await change).value.trimEnd().split("\n")).toHaveLength(2);
  const { rev } = written.json[0];
  const attached = await ask(`PUT /films/a/x?rev=${rev}`, { body: "abc" });
  expect(attached.json.rev).toMatch(/^2-/);
  expect((await ask("GET /films/a/x")).text).toBe("abc");
  expect((await ask("PUT /films/_local/l", { body: {} })).json.rev).toBe("0-1");
  expect((await ask("GET /films")).json).toMatchObject({ doc_count: 2, doc_del_count: 0 });
  expect((await ask("DELETE /films")).status).toBe(200);
  await pieces.return?.();
});

test.each<CommitOutcome>(["carried out", "lost"])(
  "a request succeeds if the outcome of its commit is unknown (the commit was %s)",
  async (outcome) => {
    const outcomes: CommitOutcome[] = [];
    const { ask } = await openFilms({ wrapEngine: (engine) => unknownCommits(engine, outcomes) });
    const once = async (request: string, body?: unknown) => {
      outcomes.push(outcome);
      const answer = await ask(request, body === undefined ? {} : { body });
      expect(outcomes).toEqual([]);
      return answer;
    };
    expect((await once("PUT /other")).status).toBe(201);
    const written = await once("PUT /films/a", { n: 1 });
    expect(written.status).toBe(201);
    const { rev } = written.json;
    const docs = [{ _id: "b", _rev: "1-b" }];
    const bulk = await once("POST /films/_bulk_docs", { new_edits: false, docs });
    expect(bulk).toMatchObject({ status: 201, json: [] });
    expect((await once("PUT /films/_local/l", {})).json.rev).toBe("0-1");
    expect((await once("DELETE /films/_local/l")).status).toBe(200);
    expect((await once(`DELETE /films/a?rev=${rev}`)).status).toBe(200);
    expect((await once("DELETE /other")).status).toBe(200);
  },
);
