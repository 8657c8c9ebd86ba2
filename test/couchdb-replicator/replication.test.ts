/**
 * CouchDB's `replication_test.exs` (Elixir): copying one database repeatedly while it changes, and
 * the permissions of users.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { compare } from "../support/compare.ts";
import { type Answer, Processes, type TandemNode } from "../support/open-process.ts";
import { documents, openPair, type Pair, write } from "./pair.fixture.ts";

let pair: Pair;
beforeAll(async () => {
  pair = await openPair();
});
beforeEach(() => pair.reset());
afterAll(() => pair.close());

test("source database not found with host", async () => {
  const { status, body } = await pair.replicate("nosuch");
  expect([status, body.error]).toEqual([500, "db_not_found"]);
  expect(body.reason).toBe(`could not open ${pair.source.url}/nosuch/`);
});

/** Adds an attachment to a document. Returns the new revision. */
async function attach(path: string, rev: string, type: string, data: string): Promise<string> {
  const response = await fetch(`${pair.here.url}/${path}?rev=${rev}`, {
    method: "PUT",
    headers: { "content-type": type },
    body: data,
  });
  return ((await response.json()) as { rev: string }).rev;
}

test("replicating attachment without conflict (COUCHDB-885)", async () => {
  const database = "attachment";
  await pair.fill(database, [{ _id: "doc" }]);
  const { body: first } = await pair.replicate(database);
  expect(first.history[0]).toMatchObject({ docs_read: 1, docs_written: 1, doc_write_failures: 0 });
  const { body: doc } = await pair.here.call("GET", `/${database}/doc`);
  const rev = await attach(`${database}/doc/text`, doc._rev, "text/plain", "text ".repeat(1000));
  await attach(`${database}/doc/bytes`, rev, "application/binary", "bytes");
  const { body: second } = await pair.replicate(database);
  expect(second.history).toHaveLength(2);
  expect(second.history[0]).toMatchObject({ docs_read: 2, docs_written: 2, doc_write_failures: 0 });
  const path = `/${database}/doc?conflicts=true&att_encoding_info=true`;
  const { body: copy } = await pair.there.call("GET", path);
  expect(copy).not.toHaveProperty("_conflicts");
  expect(copy._attachments.text.encoding).toBe("gzip");
  expect(copy._attachments.bytes).not.toHaveProperty("encoding");
});

test("simple replication: each run adds its statistics to those of earlier runs", async () => {
  const database = "simple";
  const attachments = { text: { content_type: "text/plain", data: btoa("text") } };
  const docs = documents(20).map((doc, number) =>
    number % 4 === 0 ? { ...doc, _attachments: attachments } : doc,
  );
  await pair.fill(database, [...docs, { _id: "_design/foo", language: "javascript" }]);
  let runCount = 0;
  /**
   * Replicates once, and compares the totals of all runs: revisions checked, revisions missing,
   * documents read, documents written.
   */
  const expectFigures = async (...figures: readonly number[]): Promise<void> => {
    const { body } = await pair.replicate(database);
    expect(body.history).toHaveLength(++runCount);
    const [latest] = body.history;
    const { missing_checked, missing_found, docs_read, docs_written } = latest;
    expect([missing_checked, missing_found, docs_read, docs_written]).toEqual(figures);
    expect([latest.doc_write_failures, body.session_id]).toEqual([0, latest.session_id]);
    expect(latest.start_last_seq === 0).toBe(runCount === 1);
    const time = expect.stringMatching(/^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/);
    expect(latest).toMatchObject({ start_time: time, end_time: time });
    const [from, to] = [pair.here, pair.there].map(({ url }) => `${url}/${database}`);
    expect((await compare(String(from), String(to))).differences).toEqual([]);
  };
  await expectFigures(21, 21, 21, 21);
  const { body: zero } = await pair.there.call("GET", `/${database}/doc-0`);
  expect(zero._attachments.text).toMatchObject({ revpos: 1, stub: true });

  await write(
    pair.here,
    database,
    Array.from({ length: 6 }, (_, number) => ({ _id: `more-${number}` })),
  );
  await expectFigures(27, 27, 27, 27);

  const current = async (id: string) => (await pair.here.call("GET", `/${database}/${id}`)).body;
  const deleted = await current("more-1");
  await pair.here.call("DELETE", `/${database}/more-1?rev=${deleted._rev}`);
  await expectFigures(28, 28, 28, 28);

  // The document is created and deleted between two runs.
  await write(pair.here, database, [{ _id: "short" }]);
  const short = await current("short");
  await pair.here.call("DELETE", `/${database}/short?rev=${short._rev}`);
  await expectFigures(29, 29, 29, 29);

  await write(pair.here, database, [{ ...(await current("more-2")), round: 1 }]);
  await expectFigures(30, 30, 30, 30);

  // Both databases edit the same revision, so the replication creates a conflict on the target.
  const both = await current("more-3");
  await write(pair.here, database, [{ ...both, side: "here" }]);
  await write(pair.there, database, [{ ...both, side: "there" }]);
  const { body } = await pair.replicate(database);
  runCount++;
  expect(body.history[0]).toMatchObject({ missing_found: 31, docs_written: 31 });
  const path = `/${database}/more-3?conflicts=true`;
  const { body: conflict } = await pair.there.call("GET", path);
  expect(conflict._conflicts).toHaveLength(1);
  // Resolve the conflict: delete the leaf that the target's own edit created.
  for (const rev of [conflict._rev, ...conflict._conflicts]) {
    const { body: leaf } = await pair.there.call("GET", `/${database}/more-3?rev=${rev}`);
    if (leaf.side === "there") await pair.there.call("DELETE", `/${database}/more-3?rev=${rev}`);
  }
  expect((await pair.there.call("GET", path)).body.side).toBe("here");

  // Replicates in the opposite direction, so that the source has the target's revisions. The next
  // run checks these revisions but does not find them missing.
  const back = { source: `${pair.there.url}/${database}`, target: `${pair.here.url}/${database}` };
  expect((await pair.here.call("POST", "/_replicate", back)).body.ok).toBe(true);
  const { body: known } = await pair.replicate(database);
  runCount++;
  expect(known.history[0]).toMatchObject({ missing_found: 31, docs_written: 31 });
  expect(known.history[0].missing_checked).toBeGreaterThan(31);

  const { body: nothing } = await pair.replicate(database);
  expect([nothing.no_changes, nothing.history.length]).toEqual([true, runCount]);
});

test("validate_doc_update failure replications: 3 documents are written, and the failure list names the 4 refused ones", async () => {
  const database = "validated";
  const numbered = [1, 2, 3, 4, 5, 6, 7].map((value) => ({ _id: `doc-${value}`, value }));
  await pair.fill(database, numbered);
  const validate = `function (doc) {
    if (doc.value && doc.value % 2 === 0) throw { forbidden: "only odd ones" };
    if (doc.value === 3) throw { unauthorized: "not this one" };
  }`;
  await pair.there.call("PUT", `/${database}/_design/test`, { validate_doc_update: validate });
  const { body } = await pair.replicate(database);
  expect(body.history[0]).toMatchObject({ docs_read: 7, docs_written: 3, doc_write_failures: 4 });
  expect(await pair.failures(database)).toEqual([
    "doc-2: 403 forbidden: only odd ones",
    "doc-3: 401 unauthorized: not this one",
    "doc-4: 403 forbidden: only odd ones",
    "doc-6: 403 forbidden: only odd ones",
  ]);
  for (const { _id } of numbered.slice(0, 2)) {
    const { status } = await pair.there.call("GET", `/${database}/${_id}`);
    expect(status).toBe(_id === "doc-1" ? 200 : 404);
  }
});

const FILTER = "function (doc, req) { return doc.number % Number(req.query.modulus) === 0; }";

test("filtered replications: each run copies the new documents that the filter accepts", async () => {
  const database = "filtered";
  const numbered = (from: number, to: number): object[] =>
    Array.from({ length: to - from }, (_, index) => ({
      _id: `doc-${from + index}`,
      number: from + index,
    }));
  await pair.fill(database, numbered(0, 32));
  await pair.here.call("PUT", `/${database}/_design/mod`, { filters: { of: FILTER } });
  const more = { filter: "mod/of", query_params: { modulus: "2" } };
  const { body: first } = await pair.replicate(database, more);
  expect(first.history[0]).toMatchObject({ missing_checked: 16, docs_written: 16 });
  await write(pair.here, database, numbered(32, 38));
  const { body: second } = await pair.replicate(database, more);
  expect(second.history[0]).toMatchObject({ missing_checked: 19, docs_written: 19 });
  expect(await pair.ids(database)).toHaveLength(19);
});

test("filter by view (view_filtered_replication_test): only documents for which the view emits a row arrive", async () => {
  const database = "by-view";
  await pair.fill(database, [{ _id: "yes", kind: "a" }, { _id: "no" }]);
  const map = "function (doc) { if (doc.kind) emit(doc._id); }";
  await pair.here.call("PUT", `/${database}/_design/d`, { views: { kinds: { map } } });
  const more = { filter: "_view", query_params: { view: "d/kinds" } };
  expect((await pair.replicate(database, more)).body.history[0].docs_written).toBe(1);
  expect(await pair.ids(database)).toEqual(["yes"]);
});

test("replication restarts after filter change (COUCHDB-892): the replication starts from the beginning with a new history", async () => {
  const database = "restarted";
  await pair.fill(database, documents(3));
  const filters = (text: string) => ({ filters: { f: `function (doc) { return ${text}; }` } });
  const path = `/${database}/_design/d`;
  await pair.here.call("PUT", path, filters("doc._id === 'doc-0'"));
  const { body: first } = await pair.replicate(database, { filter: "d/f" });
  expect(first.history[0].docs_written).toBe(1);
  const { body: design } = await pair.here.call("GET", path);
  const changed = { _id: design._id, _rev: design._rev, ...filters("doc._id !== 'doc-0'") };
  await pair.here.call("PUT", path, changed);
  const { body: second } = await pair.replicate(database, { filter: "d/f" });
  expect(second.history).toHaveLength(1);
  expect(second.history[0]).toMatchObject({ docs_written: 3, start_last_seq: 0 });
});

test("continuous replication: the job copies changes until a request with the same body cancels it", async () => {
  const database = "followed";
  await pair.fill(database, documents(25));
  const start = () => pair.replicate(database, { continuous: true });
  const { status, body: started } = await start();
  expect(status).toBe(202);
  const path = `/_scheduler/jobs/${encodeURIComponent(started._local_id)}`;
  const arrived = (revisionCount: number) =>
    pair.here.onceAnswered(
      () => pair.here.call("GET", path),
      ({ body: { info } }: Answer) =>
        info?.revisions_checked >= revisionCount && info.through_seq === info.source_seq,
    );
  await arrived(25);
  await write(
    pair.here,
    database,
    Array.from({ length: 6 }, (_, number) => ({ _id: `more-${number}` })),
  );
  await arrived(31);
  const { body: doc } = await pair.here.call("GET", `/${database}/doc-0`);
  await attach(`${database}/doc-0/note`, doc._rev, "text/plain", "note");
  await arrived(32);
  const note = await fetch(`${pair.there.url}/${database}/doc-0/note`);
  expect(await note.text()).toBe("note");
  const { body: gone } = await pair.here.call("GET", `/${database}/doc-1`);
  await pair.here.call("DELETE", `/${database}/doc-1?rev=${gone._rev}`);
  await arrived(33);
  expect((await pair.there.call("GET", `/${database}/doc-1`)).status).toBe(404);

  const { body: cancelled } = await pair.replicate(database, { continuous: true, cancel: true });
  expect(cancelled).toEqual({ ok: true, _local_id: started._local_id });
  await write(pair.here, database, [{ _id: "late" }]);
  expect((await pair.here.call("GET", path)).status).toBe(404);
  expect((await pair.there.call("GET", `/${database}/late`)).status).toBe(404);
});

test("replication cancellation: a request with the job's id cancels the job, which then no longer exists", async () => {
  await pair.here.call("PUT", "/cancelled");
  const more = { continuous: true, create_target: true };
  const { body } = await pair.replicate("cancelled", more);
  const id = body._local_id;
  const { body: jobs } = await pair.here.call("GET", "/_scheduler/jobs?limit=1000");
  expect(jobs.jobs.map((job: { id: string }) => job.id)).toContain(id);
  const cancel = () => pair.here.call("POST", "/_replicate", { replication_id: id, cancel: true });
  expect((await cancel()).status).toBe(200);
  expect((await cancel()).status).toBe(404);
});

test("compressed attachment replication: the attachment is copied in its compressed form", async () => {
  const database = "compressed";
  const data = btoa("a few words ".repeat(500));
  const attachments = { "words.txt": { content_type: "text/plain", data } };
  await pair.fill(database, [{ _id: "doc", _attachments: attachments }]);
  await pair.replicate(database);
  const path = `/${database}/doc?att_encoding_info=true`;
  const { body: original } = await pair.here.call("GET", path);
  const { body: copy } = await pair.there.call("GET", path);
  expect(copy).toEqual(original);
  const { encoding, length, encoded_length } = copy._attachments["words.txt"];
  expect([encoding, encoded_length < length]).toEqual(["gzip", true]);
  const sent = pair.target.requests.find(
    ({ method, path: to }) => method === "PUT" && /doc/.test(to),
  );
  expect(Number(sent?.body.length)).toBeLessThan(length);
});

describe("users", () => {
  const PASSWORD = "apple";
  const processes = new Processes();
  let guarded: TandemNode;
  const as = async (user: string, method: string, path: string, body?: unknown) => {
    const response = await fetch(guarded.url + path, {
      method,
      headers: {
        "content-type": "application/json",
        authorization: `Basic ${btoa(`${user}:${PASSWORD}`)}`,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Answer["body"] };
  };
  const urlAs = (user: string, database: string): string =>
    `${guarded.url.replace("://", `://${user}:${PASSWORD}@`)}/${database}`;

  beforeAll(async () => {
    guarded = await processes.openHere({
      environment: { COUCHDB_USER: "admin", COUCHDB_PASSWORD: PASSWORD },
      ini: "[chttpd_auth]\niterations = 10\n",
    });
    for (const name of ["joe", "jane"]) {
      await as("admin", "PUT", `/_users/org.couchdb.user:${name}`, {
        name,
        password: PASSWORD,
        roles: [],
        type: "user",
      });
    }
    await as("admin", "PUT", "/joes");
    await as("admin", "PUT", "/joes/_security", { members: { names: ["joe"], roles: [] } });
  });
  afterAll(() => processes.close());

  test("non-admin user on target: all documents arrive except the design document, which the failure list contains", async () => {
    await pair.here.call("PUT", "/joes");
    await write(pair.here, "joes", [...documents(5), { _id: "_design/foo" }]);
    const { body } = await pair.here.call("POST", "/_replicate", {
      source: "joes",
      target: urlAs("joe", "joes"),
    });
    expect(body.history[0]).toMatchObject({ docs_written: 5, doc_write_failures: 1 });
    expect(await pair.failures("joes")).toEqual([expect.stringMatching(/^_design\/foo: 40[13] /)]);
  });

  test("non-admin or reader user on source: a member can replicate the database, and any other user is refused", async () => {
    await as("admin", "PUT", "/joes/secret", {});
    const run = (user: string) =>
      pair.here.call("POST", "/_replicate", {
        source: urlAs(user, "joes"),
        target: `of-${user}`,
        create_target: true,
      });
    const refused = await run("jane");
    expect([refused.status, refused.body.error]).toEqual([403, "forbidden"]);
    expect((await pair.here.call("GET", "/of-jane")).body.doc_count ?? 0).toBe(0);
    expect((await run("joe")).body.ok).toBe(true);
    expect((await pair.here.call("GET", "/of-joe/secret")).status).toBe(200);
  });

  test("a member of a _replicator database can neither copy its documents nor write to it", async () => {
    const members = { members: { names: ["joe"], roles: [] } };
    await as("admin", "PUT", "/_replicator/_security", members);
    for (const body of [
      { source: "_replicator", target: "joes" },
      { source: "joes", target: "_replicator" },
    ]) {
      const { status, body: answer } = await as("joe", "POST", "/_replicate", body);
      expect([status, answer.reason]).toEqual([403, "You are not a server admin."]);
    }
  });

  test("unauthorized replication cancellation: a user cannot cancel an administrator's job", async () => {
    const job = { source: "joes", target: "copy", create_target: true, continuous: true };
    const { body } = await as("admin", "POST", "/_replicate", job);
    const cancel = { replication_id: body._local_id, cancel: true };
    const refused = await as("joe", "POST", "/_replicate", cancel);
    expect([refused.status, refused.body.error]).toEqual([401, "unauthorized"]);
    expect((await as("admin", "POST", "/_replicate", cancel)).status).toBe(200);
  });
});
