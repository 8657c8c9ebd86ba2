/**
 * Jobs started by replication documents and by `_replicate` bodies, as `_scheduler` shows them:
 * CouchDB's `couch_replicator_db_tests`, `…_transient_jobs_tests` and others.
 */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { onceThere } from "../support/changes-feed.ts";
import { documentJob, documents, openPair, type Pair, write } from "./pair.fixture.ts";

let pair: Pair;
beforeAll(async () => {
  pair = await openPair("[replicator]\nmin_backoff_penalty_sec = 1\n");
});
beforeEach(() => pair.reset());
afterAll(() => pair.close());

test("default_replicator_db_is_created", async () => {
  expect((await pair.here.call("GET", "/_replicator")).status).toBe(200);
});

test("scheduler_default_headers_returned, default headers for _scheduler/jobs and _scheduler/docs", async () => {
  for (const path of ["jobs", "docs"]) {
    const { headers } = await fetch(`${pair.here.url}/_scheduler/${path}`);
    expect(headers.get("x-couch-request-id")).toMatch(/^[0-9a-f]{10}$/);
    expect(headers.get("x-couchdb-body-time")).toMatch(/^\d+$/);
  }
});

test("continuous_replication_created_from_doc: _scheduler shows the job until the document is deleted", async () => {
  await pair.fill("continuous", documents(1));
  const body = pair.body("continuous", { continuous: true });
  const { body: created } = await pair.here.call("PUT", "/_replicator/continuous", body);
  const job = await documentJob(pair.here, "continuous", "running");
  expect(job).toMatchObject({ database: "_replicator", doc_id: "continuous" });
  const path = `/_scheduler/jobs/${encodeURIComponent(job.id)}`;
  const { body: shown } = await pair.here.call("GET", path);
  expect(shown).toMatchObject({ id: job.id, doc_id: "continuous", state: "running" });
  await pair.here.call("DELETE", `/_replicator/continuous?rev=${created.rev}`);
  expect((await pair.here.call("GET", path)).status).toBe(404);
  const gone = await pair.here.call("GET", "/_scheduler/docs/_replicator/continuous");
  expect(gone.status).toBe(404);
});

test("normal_replication_created_from_doc: the document and _scheduler show the same statistics", async () => {
  await pair.fill("normal", documents(1));
  await pair.here.call("PUT", "/_replicator/normal", pair.body("normal"));
  const { info } = await documentJob(pair.here, "normal", "completed");
  const figures = { docs_written: 1, docs_read: 1, missing_revisions_found: 1 };
  expect(info).toMatchObject(figures);
  const { body: document } = await pair.here.call("GET", "/_replicator/normal");
  expect(document._replication_state).toBe("completed");
  expect(document._replication_stats).toMatchObject(figures);
  await pair.here.call("DELETE", `/_replicator/normal?rev=${document._rev}`);
  const gone = await pair.here.call("GET", "/_scheduler/docs/_replicator/normal");
  expect(gone.status).toBe(404);
});

describe("two jobs of one replication", () => {
  test("duplicate_persistent_replication: the second document fails if two documents request one replication", async () => {
    await pair.fill("twice", documents(1));
    const body = pair.body("twice", { continuous: true });
    await pair.here.call("PUT", "/_replicator/first", body);
    await documentJob(pair.here, "first", "running");
    await pair.here.call("PUT", "/_replicator/second", body);
    const failed = await documentJob(pair.here, "second", "failed");
    expect(failed.info.error).toContain("Duplicate job running");
    expect((await documentJob(pair.here, "first", "running")).state).toBe("running");
  });

  test("duplicate_transient_replication: a document's job waits until a transient job of the same replication has ended", async () => {
    await pair.fill("both", documents(1));
    const body = pair.body("both", { continuous: true });
    const { body: transient } = await pair.here.call("POST", "/_replicate", body);
    await pair.here.call("PUT", "/_replicator/both", body);
    const crashing = await documentJob(pair.here, "both", "crashing");
    expect(crashing.info.error).toContain("Duplicate job running");
    const id = transient._local_id;
    await pair.here.call("POST", "/_replicate", { replication_id: id, cancel: true });
    expect((await documentJob(pair.here, "both", "running")).id).toBe(id);
  });

  test("posting_same_job_is_a_noop: a repeated request returns the same job id, and the run continues", async () => {
    await pair.fill("noop", documents(1));
    const start = () => pair.replicate("noop", { continuous: true });
    const { body: first } = await start();
    const path = `/_scheduler/jobs/${encodeURIComponent(first._local_id)}`;
    const { body: before } = await pair.here.onceAnswered(
      () => pair.here.call("GET", path),
      ({ body }) => body.state === "running",
    );
    expect((await start()).body._local_id).toBe(first._local_id);
    const { body: after } = await pair.here.call("GET", path);
    expect([after.pid, after.history]).toEqual([before.pid, before.history]);
  });

  test("t_can_start_multiple_jobs: a request with other parameters starts another job", async () => {
    await pair.fill("several", documents(2));
    const ids = await Promise.all(
      ["doc-0", "doc-1"].map(async (id) => {
        const { body } = await pair.replicate("several", { continuous: true, doc_ids: [id] });
        return body._local_id;
      }),
    );
    expect(new Set(ids).size).toBe(2);
    await onceThere(pair.there.url, "several", ({ size }) => size === 2);
  });
});

test("transient_job_with_a_bad_filter: the error names the missing filter", async () => {
  await pair.fill("bad-filter", documents(1));
  const { status, body } = await pair.replicate("bad-filter", { filter: "nosuch/filter" });
  expect([status, body.error]).toEqual([404, "not_found"]);
  expect(body.reason).toContain("nosuch");
});

describe("scheduler_docs", () => {
  test("t_scheduler_docs_total_rows: total_rows is the number of jobs of one database or of all databases", async () => {
    await pair.here.call("PUT", "/rows%2F_replicator");
    await pair.fill("rows", documents(1));
    for (const id of ["a", "b"]) {
      await pair.here.call(
        "PUT",
        `/rows%2F_replicator/${id}`,
        pair.body("rows", { doc_ids: [id] }),
      );
    }
    for (const path of ["/_scheduler/docs?limit=1000", "/_scheduler/docs/rows%2F_replicator"]) {
      const { body } = await pair.here.call("GET", path);
      expect(body.total_rows).toBe(body.docs.length);
      expect(body.total_rows).toBeGreaterThanOrEqual(2);
    }
  });

  test("t_local_docs_can_be_written, t_design_docs_can_be_written, t_malformed_docs_are_rejected", async () => {
    for (const database of ["_replicator", "rows%2F_replicator"]) {
      for (const id of ["_local/doc", "_design/ddoc"]) {
        expect((await pair.here.call("PUT", `/${database}/${id}`, {})).status).toBe(201);
      }
      for (const body of [{}, { foo: "bar" }]) {
        expect((await pair.here.call("PUT", `/${database}/bad`, body)).status).toBe(403);
      }
    }
  });

  test("t_doc_fields_are_updated, t_doc_fields_are_ignored: the job overwrites the _replication_* fields and keeps all other fields", async () => {
    await pair.fill("fields", documents(1));
    const junk = { replication_id: "1234abc", id: "x", other_junk: [1] };
    await pair.here.call("PUT", "/_replicator/fields", {
      ...pair.body("fields", junk),
      _replication_state: "error",
      _replication_state_time: "2000-01-01T00:00:00Z",
      _replication_state_reason: "old",
      _replication_id: "other",
    });
    await documentJob(pair.here, "fields", "completed");
    const { body: document } = await pair.here.call("GET", "/_replicator/fields");
    expect(document).toMatchObject({ ...junk, _replication_state: "completed" });
    expect(document._replication_state_time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    expect(document._replication_state_time > "2001").toBe(true);
    expect(document).not.toHaveProperty("_replication_state_reason");
    expect(document).not.toHaveProperty("_replication_id");
  });
});

describe("retain_stats", () => {
  /**
   * Prepares a replication. Each round writes ten documents to the source, and the target refuses
   * five of them.
   */
  async function open(database: string) {
    await pair.fill(database, []);
    const validate = "function (doc) { if (doc.nope) throw { forbidden: 'nope' }; }";
    await pair.there.call("PUT", `/${database}/_design/d`, { validate_doc_update: validate });
    let id = "";
    return {
      start: async () => {
        const { body } = await pair.replicate(database, { continuous: true });
        id = body._local_id;
      },
      cancel: () => pair.here.call("POST", "/_replicate", { replication_id: id, cancel: true }),
      /** Pauses and resumes the job. */
      rest: async () => {
        const path = `/_tandem/jobs/${encodeURIComponent(id)}`;
        await pair.here.call("POST", `${path}/_pause`);
        await pair.here.onceAnswered(
          () => pair.here.call("GET", path),
          ({ body }) => body.state === "pending",
        );
        await pair.here.call("POST", `${path}/_resume`);
        await pair.here.onceAnswered(
          () => pair.here.call("GET", path),
          ({ body }) => body.state === "running",
        );
      },
      write: (round: number) =>
        write(
          pair.here,
          database,
          Array.from({ length: 10 }, (_, number) => {
            return { _id: `${round}-${number}`, nope: number % 2 === 0 };
          }),
        ),
      figures: async (read: number) => {
        const path = `/_scheduler/jobs/${encodeURIComponent(id)}`;
        const { body } = await pair.here.onceAnswered(
          () => pair.here.call("GET", path),
          ({ body: job }) =>
            job.info?.docs_read === read &&
            job.info.checkpointed_source_seq === job.info.source_seq,
        );
        const { docs_read, docs_written, doc_write_failures } = body.info;
        return [docs_read, docs_written, doc_write_failures];
      },
    };
  }

  test("t_stats_retained_on_job_removal: a job that is cancelled and requested again continues its counters", async () => {
    await pair.here.call("PUT", "/_node/_local/_config/replicator/checkpoint_interval", '"100"');
    const job = await open("removed");
    for (const round of [1, 2, 3]) {
      await job.write(round);
      await job.start();
      expect(await job.figures(round * 10)).toEqual([round * 10, round * 5, round * 5]);
      await job.cancel();
    }
    await pair.here.call("DELETE", "/_node/_local/_config/replicator/checkpoint_interval");
  });

  test("t_stats_retained_by_scheduler: a job that is paused and resumed continues its counters", async () => {
    await pair.here.call("PUT", "/_node/_local/_config/replicator/checkpoint_interval", '"100"');
    const job = await open("stopped");
    await job.write(1);
    await job.start();
    expect(await job.figures(10)).toEqual([10, 5, 5]);
    await job.rest();
    expect(await job.figures(10)).toEqual([10, 5, 5]);
    await job.cancel();
    await pair.here.call("DELETE", "/_node/_local/_config/replicator/checkpoint_interval");
  });
});

describe("use_checkpoints", () => {
  test("true: the response contains the replication log, and the next run starts at the checkpoint", async () => {
    await pair.fill("with", documents(2));
    const { body } = await pair.replicate("with");
    expect([typeof body.session_id, body.history.length]).toEqual(["string", 1]);
    expect((await pair.replicate("with")).body.no_changes).toBe(true);
  });

  test("false: the response contains use_checkpoints: false, and no checkpoint is stored", async () => {
    await pair.fill("without", documents(2));
    const { body } = await pair.replicate("without", { use_checkpoints: false });
    expect(body).toEqual({ ok: true, use_checkpoints: false, _local_id: expect.any(String) });
    const { body: local } = await pair.there.call("GET", "/without/_local_docs");
    expect(local.rows).toEqual([]);
  });
});

describe("since_seq", () => {
  /** Writes four documents. Returns the sequence after the first two of them. */
  async function fill(database: string): Promise<string> {
    await pair.fill(database, documents(2));
    const { body } = await pair.here.call("GET", `/${database}/_changes`);
    await write(pair.here, database, [{ _id: "doc-2" }, { _id: "doc-3" }]);
    return body.last_seq;
  }

  test("t_replicate_without_since_seq: the first run copies from the start, and the next run from the checkpoint", async () => {
    await fill("since-none");
    const { body: first } = await pair.replicate("since-none");
    expect(first.history[0]).toMatchObject({ start_last_seq: 0, docs_written: 4 });
    await write(pair.here, "since-none", [{ _id: "doc-4" }]);
    const { body: second } = await pair.replicate("since-none");
    expect(second.history[0]).toMatchObject({
      start_last_seq: first.source_last_seq,
      docs_written: 5,
    });
  });

  test("t_replicate_with_since_seq_only, replicate with since_seq: the run copies only changes after since_seq", async () => {
    const since = await fill("since-only");
    const { body } = await pair.replicate("since-only", { since_seq: since });
    expect(body.history[0]).toMatchObject({
      start_last_seq: since,
      missing_checked: 2,
      docs_read: 2,
      docs_written: 2,
    });
    expect(await pair.ids("since-only")).toEqual(["doc-2", "doc-3"]);
  });

  test("t_replicate_with_checkpoint_and_since_seq: a checkpoint takes precedence over since_seq, and another since_seq makes the request a different replication", async () => {
    const since = await fill("since-both");
    const { body: first } = await pair.replicate("since-both", { since_seq: since });
    await write(pair.here, "since-both", [{ _id: "doc-4" }]);
    const { body: second } = await pair.replicate("since-both", { since_seq: since });
    expect(second.history[0].start_last_seq).toBe(first.source_last_seq);
    const { body: other } = await pair.replicate("since-both", { since_seq: 0 });
    expect(other.history).toHaveLength(1);
    expect(await pair.ids("since-both")).toHaveLength(5);
  });

  test("t_replicator_with_since_seq: a replication document may contain since_seq, and _scheduler shows no id for a completed job", async () => {
    const since = await fill("since-document");
    const body = pair.body("since-document", { since_seq: since });
    await pair.here.call("PUT", "/_replicator/since", body);
    const { id, info } = await documentJob(pair.here, "since", "completed");
    expect([id, info.docs_written]).toEqual([null, 2]);
  });
});
