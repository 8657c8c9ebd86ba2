import { afterEach, expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import type { DocumentEdit, WriteContext } from "../../../src/databases/index.ts";
import { replicatedEdit } from "../../../src/documents/index.ts";
import { MemoryStorage } from "../../../src/kv/index.ts";
import { parseWireDocument } from "../../../src/protocol/index.ts";
import { parseReplication } from "../../../src/replicator/index.ts";
import { ADMIN, type Node, openNode } from "../../support/open-node.ts";

const USER = { userName: null, isAdmin: true };
const FOREVER = new AbortController().signal;
const nodes: Node[] = [];

async function open(options: Parameters<typeof openNode>[0] = {}): Promise<Node> {
  const node = await openNode(options);
  nodes.push(node);
  return node;
}

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

async function fill(node: Node, database: string, count: number): Promise<void> {
  await node.createDatabase(database);
  for (let number = 0; number < count; number++) {
    await node.put(database, `doc-${String(number).padStart(4, "0")}`, `{"n":${number}}`);
  }
}

test("a one-shot replication copies everything, and a second one finds no changes", async () => {
  const node = await open();
  node.start();
  await fill(node, "a", 120);
  await node.put("a", "doc-0007", "{}", true);
  const replication = parseReplication({ source: "a", target: "b", create_target: true });
  const first = await node.replicator.ended(
    await node.replicator.start(replication, USER),
    FOREVER,
  );
  expect(first).toMatchObject({
    kind: "completed",
    result: {
      replication_id_version: 4,
      history: [{ docs_written: 120, docs_read: 120, missing_found: 120, start_last_seq: 0 }],
    },
  });
  expect(await node.content("b")).toEqual(await node.content("a"));
  const second = await node.replicator.ended(
    await node.replicator.start(replication, USER),
    FOREVER,
  );
  expect(second).toMatchObject({ kind: "completed", result: { no_changes: true } });
});

test("a document's body is copied byte for byte", async () => {
  const node = await open();
  node.start();
  await node.createDatabase("a");
  const body =
    '{"z":12345678901234567890,"a":1.0,"e":1e2,"zero":-0,"tail":0.1000,"o":{"__proto__":{"x":1},"constructor":2}}';
  await node.put("a", "numbers", body);
  const replication = parseReplication({ source: "a", target: "b", create_target: true });
  await node.replicator.ended(await node.replicator.start(replication, USER), FOREVER);
  expect((await node.read("b", "numbers"))?.body.text).toBe(body);
});

test("the filter function of a local source is applied to each revision", async () => {
  const node = await open();
  node.start();
  await fill(node, "a", 4);
  const filters = { above: "function (doc, req) { return doc.n > Number(req.query.n); }" };
  await node.put("a", "_design/d", JSON.stringify({ filters }));
  const body = { source: "a", target: "b", create_target: true, filter: "d/above" };
  const replication = parseReplication({ ...body, query_params: { n: "1" } });
  await node.replicator.ended(await node.replicator.start(replication, USER), FOREVER);
  expect(Object.keys(await node.content("b"))).toEqual(["doc-0002", "doc-0003"]);
});

test("changing the filter of a running job starts another replication from the beginning", async () => {
  const node = await open();
  node.start();
  await fill(node, "a", 4);
  const filters = (limit: number) =>
    JSON.stringify({ filters: { f: `function (doc) { return doc.n >= ${limit}; }` } });
  await node.put("a", "_design/d", filters(3));
  const body = { source: "a", target: "b", create_target: true, filter: "d/f", continuous: true };
  const replication = parseReplication({ ...body, checkpoint_interval: 50 });
  const jobId = await node.replicator.start(replication, USER);
  const first = await node.event("replication.started");
  await node.event("replication.checkpoint");
  await node.put("a", "_design/d", filters(1));
  const second = await node.event(
    "replication.started",
    ({ replicationId }) => replicationId !== first.replicationId,
  );
  expect(second.jobId).toBe(jobId);
  await node.onceContent("b", ({ length }) => length >= 3);
  expect(Object.keys(await node.content("b"))).toEqual(["doc-0001", "doc-0002", "doc-0003"]);
});

test("if a filter function throws, its job fails with the function's error message", async () => {
  const node = await open();
  node.start();
  await fill(node, "a", 1);
  const filters = { broken: "function () { throw new Error('boom'); }" };
  await node.put("a", "_design/d", JSON.stringify({ filters }));
  const body = { source: "a", target: "b", create_target: true, filter: "d/broken" };
  await node.replicator.start(parseReplication(body), USER);
  expect(await node.event("replication.failed")).toMatchObject({ error: "Error", reason: "boom" });
});

test("writing a replication document creates its job, and the document records the job's outcome", async () => {
  const node = await open();
  await fill(node, "a", 10);
  await node.createDatabase("_replicator");
  await node.put("_replicator", "copy", '{"source":"a","target":"b","create_target":true}');
  node.start();
  await node.event("replication.ended", ({ state }) => state === "completed");
  const document = JSON.parse((await node.read("_replicator", "copy"))?.body.text ?? "{}");
  expect(document).toMatchObject({
    source: "a",
    owner: null,
    _replication_state: "completed",
    _replication_stats: { docs_written: 10, doc_write_failures: 0 },
  });
  expect(await node.content("b")).toEqual(await node.content("a"));
});

test("a document whose job could never run is refused, and the error names the field", async () => {
  const node = await open();
  await node.createDatabase("_replicator");
  const refused = node.put("_replicator", "bad", '{"source":"a","target":7}');
  await expect(refused).rejects.toThrow("`target` must be a string or an object");
  expect(await node.read("_replicator", "bad")).toBeUndefined();
});

test.each(["triggered", "error"])(
  "the job of a document to which a CouchDB has added the state %s runs",
  async (state) => {
    const node = await open();
    node.start();
    await fill(node, "a", 3);
    await node.createDatabase("_replicator");
    const document = { source: "a", target: "b", create_target: true, _replication_state: state };
    await node.put("_replicator", "job", JSON.stringify({ ...document, owner: null }));
    await node.event("replication.ended", (fields) => fields.state === "completed");
    const stored = await node.read("_replicator", "job");
    expect(JSON.parse(stored?.body.text ?? "{}")._replication_state).toBe("completed");
  },
);

test("a continuous job removes the state that a CouchDB has added to its document", async () => {
  const node = await open();
  node.start();
  await fill(node, "a", 1);
  await node.createDatabase("_replicator");
  const document = { source: "a", target: "b", create_target: true, continuous: true };
  const left = { _replication_state: "triggered", _replication_id: "x", owner: null };
  await node.put("_replicator", "job", JSON.stringify({ ...document, ...left }));
  await node.event("replication.started");
  const stored = JSON.parse((await node.read("_replicator", "job"))?.body.text ?? "{}");
  expect(stored).toEqual({ ...document, owner: null });
});

test("a one-shot transient job is retried if a server limits its rate", async () => {
  const node = await open({
    fetch: async () => ({
      status: 429,
      headers: new Map([["retry-after", "0"]]),
      body: (async function* () {})(),
      discard: () => {},
    }),
    runtimeOver: (system) => ({
      ...system,
      clock: { ...system.clock, sleep: (_, signal) => system.clock.sleep(1, signal) },
    }),
  });
  node.start();
  await node.createDatabase("b");
  const replication = parseReplication({ source: "http://busy/a", target: "b" });
  const id = await node.replicator.start(replication, USER);
  await node.event("replication.ended", ({ state }) => state === "crashing");
  expect((await node.replicator.find(id))?.data.failure?.error).toBe("max_backoff");
});

test("an invalid document that a replication has written is marked as failed with the reason", async () => {
  const node = await open();
  node.start();
  await node.createDatabase("_replicator");
  await node.kv.transact(async (tx) => {
    const database = await node.databases.open(tx, "_replicator");
    const text = `{"_id":"bad","_rev":"1-${"ab".repeat(16)}","source":"a"}`;
    await database.write(tx, replicatedEdit(parseWireDocument(text), []), ADMIN);
  });
  await node.event("replication.ended", (fields) => fields.state === "failed");
  const stored = JSON.parse((await node.read("_replicator", "bad"))?.body.text ?? "{}");
  expect(stored._replication_state).toBe("failed");
  expect(stored._replication_state_reason).toContain("Missing `target` field");
});

test("a certificate file is accepted only from a server admin, even in a document written by a replication", async () => {
  const node = await open();
  await node.createDatabase("_replicator");
  const body = JSON.stringify({
    source: { url: "https://couch.example/a", cert_file: "/etc/tandem/cert.pem" },
    target: "b",
    owner: "joe",
  });
  const joe = { userName: "joe", roles: [], isAdmin: false };
  const common = { id: "files", deleted: false, body: Utf8Text.of(body), attachments: [] };
  const write = (edit: DocumentEdit, context: WriteContext) =>
    node.kv.transact(async (tx) =>
      (await node.databases.open(tx, "_replicator")).write(tx, edit, context),
    );
  const own: DocumentEdit = { ...common, mode: "interactive", parent: undefined };
  expect(await write(own, joe)).toMatchObject({
    kind: "rejected",
    error: "forbidden",
    reason: "`cert_file` names a file on the server; this requires server admin rights",
  });
  const revisions = { start: 1, hashes: ["a".repeat(32)] };
  expect((await write({ ...common, mode: "replicated", revisions }, joe)).kind).toBe("written");
  node.start();
  await node.event("replication.ended");
  const document = await node.read("_replicator", "files");
  expect(JSON.parse(document?.body.text ?? "")).toMatchObject({
    _replication_state: "failed",
    _replication_state_reason: expect.stringContaining("requires server admin rights"),
  });
  expect((await write({ ...own, id: "admins" }, ADMIN)).kind).toBe("written");
});

test.each<[unknown, string | null, boolean, string | null]>([
  [undefined, "joe", false, "joe"],
  [undefined, null, true, null],
  ["joe", "joe", false, "joe"],
  [null, "jan", true, "jan"],
  ["joe", "jan", true, "joe"],
])(
  "a document with the owner %j, written by %j (admin: %s), belongs to %j",
  async (given, userName, isAdmin, owner) => {
    const node = await open();
    await node.createDatabase("_replicator");
    const body = JSON.stringify({ source: "a", target: "b", owner: given });
    await node.kv.transact(async (tx) => {
      const database = await node.databases.open(tx, "_replicator");
      const edit = { mode: "interactive", id: "job", parent: undefined, deleted: false } as const;
      await database.write(
        tx,
        { ...edit, body: Utf8Text.of(body), attachments: [] },
        { userName, roles: [], isAdmin },
      );
    });
    expect(JSON.parse((await node.read("_replicator", "job"))?.body.text ?? "{}").owner).toBe(
      owner,
    );
    for await (const { data } of node.replicator.lists.all({})) expect(data.userName).toBe(owner);
  },
);

test.each(["jan", null])(
  "a user cannot write a document of %j, even by a replication",
  async (owner) => {
    const node = await open();
    await node.createDatabase("_replicator");
    const joe: WriteContext = { userName: "joe", roles: [], isAdmin: false };
    const body = JSON.stringify({ source: "a", target: "b", owner });
    const write = (edit: DocumentEdit) =>
      node.kv.transact(async (tx) =>
        (await node.databases.open(tx, "_replicator")).write(tx, edit, joe),
      );
    const base = { id: "job", deleted: false, body: Utf8Text.of(body), attachments: [] } as const;
    const reason = "Can't update replication documents from other users.";
    const revisions = { start: 1, hashes: ["a".repeat(32)] };
    const refused = { kind: "rejected", error: "forbidden", reason };
    for (const edit of [
      { ...base, mode: "interactive", parent: undefined },
      { ...base, mode: "replicated", revisions },
    ] as const) {
      expect(await write(edit)).toMatchObject(refused);
    }
  },
);

test("transient_job_is_removed: an ended transient job is listed for transient_job_max_age_sec", async () => {
  let transientJobAgeSecMax = 9999;
  const node = await open({
    config: {
      get transientJobAgeSecMax() {
        return transientJobAgeSecMax;
      },
    },
  });
  node.start();
  await fill(node, "a", 1);
  const replication = parseReplication({ source: "a", target: "b", create_target: true });
  const id = await node.replicator.start(replication, USER);
  await node.replicator.ended(id, FOREVER);
  await node.cleanUp.removeOldTransients();
  expect((await node.replicator.find(id))?.data.state).toBe("completed");
  transientJobAgeSecMax = 0;
  await node.cleanUp.removeOldTransients();
  expect(await node.replicator.find(id)).toBeUndefined();
});

test("t_warn_on_http_urls, t_dont_warn_on_https_urls, t_dont_warn_if_disabled", async () => {
  for (const [url, plainHttp, warningCount] of [
    ["http://joe:secret@127.0.0.1:1/a", true, 1],
    ["https://joe:secret@127.0.0.1:1/a", true, 0],
    ["http://joe:secret@127.0.0.1:1/a", false, 0],
  ] as const) {
    const node = await open({ config: { warnsOf: { plainHttp, unverifiedTls: true } } });
    node.start();
    await node.replicator.start(parseReplication({ source: url, target: "b" }), USER);
    await node.event("replication.ended");
    const warnings = node.events.filter(({ name }) => name === "replication.plain-http");
    expect(warnings).toHaveLength(warningCount);
    expect(JSON.stringify(warnings)).not.toContain("secret");
  }
});

test("a continuous job copies changes of its source until it is cancelled", async () => {
  const node = await open();
  node.start();
  await fill(node, "a", 5);
  const body = { source: "a", target: "b", create_target: true, continuous: true };
  const jobId = await node.replicator.start(parseReplication(body), USER);
  const replicationId = await node.replicator.started(jobId, FOREVER);
  await node.put("a", "later", "{}");
  await node.onceContent("b", (ids) => ids.includes("later"));
  expect(await node.replicator.cancel(String(replicationId), USER)).toBe(replicationId);
  expect(await node.replicator.find(jobId)).toBeUndefined();
});

test("a continuous job with the failure policy `crash` crashes when a document is refused", async () => {
  const node = await open();
  node.start();
  await fill(node, "a", 5);
  await node.createDatabase("b");
  const validate = 'function () { throw { forbidden: "no" }; }';
  await node.put("b", "_design/v", JSON.stringify({ validate_doc_update: validate }));
  const body = { source: "a", target: "b", continuous: true, failure_policy: "crash" };
  await node.replicator.start(parseReplication(body), USER);
  expect(await node.event("replication.crashed")).toMatchObject({ reason: expect.anything() });
});

test("a job with a missing source crashes, waits, and continues once the source exists", async () => {
  const node = await open();
  node.start();
  await node.createDatabase("b");
  await node.createDatabase("_replicator");
  await node.put("_replicator", "early", '{"source":"late","target":"b"}');
  const crash = await node.event("replication.crashed");
  expect(crash).toMatchObject({ error: "db_not_found" });
  await fill(node, "late", 3);
  await node.event("replication.ended", ({ state }) => state === "completed");
  expect(await node.content("b")).toEqual(await node.content("late"));
});

test("a failing one-shot transient job reports the reason to the client that requested it", async () => {
  const node = await open();
  node.start();
  const replication = parseReplication({ source: "nowhere", target: "b" });
  const outcome = await node.replicator.ended(
    await node.replicator.start(replication, USER),
    FOREVER,
  );
  expect(outcome).toEqual({
    kind: "failed",
    failure: { error: "db_not_found", reason: "could not open http://127.0.0.1:5984/nowhere/" },
  });
});

test("a node that shuts down returns its job to the queue, and the next node resumes the job from the checkpoint", async () => {
  const storage = new MemoryStorage();
  const first = await open({ storage });
  first.start();
  await fill(first, "a", 50);
  const body = { source: "a", target: "b", create_target: true, continuous: true };
  const jobId = await first.replicator.start(parseReplication(body), USER);
  await first.onceContent("b", (ids) => ids.length === 50);
  await first.stop();
  await first.event("replication.ended", ({ state }) => state === "pending");
  const second = await open({ storage });
  await second.put("a", "one-more", "{}");
  second.start();
  await second.onceContent("b", (ids) => ids.includes("one-more"));
  await second.stop();
  const { data } = (await second.replicator.find(jobId)) ?? {};
  // The totals of both runs. If the second run had started from the beginning, it would have
  // checked all documents again.
  expect(data?.statistics).toMatchObject({ missingChecked: 51, docsWritten: 51 });
});

test("deleting a replication document stops its job", async () => {
  const node = await open();
  node.start();
  await fill(node, "a", 5);
  await node.createDatabase("_replicator");
  const body = '{"source":"a","target":"b","create_target":true,"continuous":true}';
  await node.put("_replicator", "follow", body);
  await node.event("replication.started");
  await node.put("_replicator", "follow", "{}", true);
  await node.event("replication.halted");
  const left = [];
  for await (const entry of node.replicator.lists.all({})) left.push(entry);
  expect(left).toEqual([]);
});

test("editing a replication document ends its job's run, and the job runs again with the new version", async () => {
  const node = await open();
  node.start();
  await fill(node, "a", 5);
  await node.createDatabase("_replicator");
  const body = (target: string): string =>
    JSON.stringify({ source: "a", target, create_target: true, continuous: true });
  await node.put("_replicator", "follow", body("b"));
  const { jobId } = await node.event("replication.started");
  await node.put("_replicator", "follow", body("c"));
  await node.event("replication.halted");
  const startCount = () => node.events.filter(({ name }) => name === "replication.started").length;
  await node.event("replication.started", () => startCount() === 2);
  const left = [];
  for await (const entry of node.replicator.lists.all({})) left.push(entry);
  expect(left).toHaveLength(1);
  const entry = await node.replicator.find(String(jobId));
  expect(entry?.data.replication?.target).toMatchObject({ database: "c" });
});

test("a replication document fails if another document's job runs the same replication", async () => {
  const node = await open();
  node.start();
  await fill(node, "a", 5);
  await node.createDatabase("_replicator");
  const body = '{"source":"a","target":"b","create_target":true,"continuous":true}';
  await node.put("_replicator", "first", body);
  await node.event("replication.started");
  await node.put("_replicator", "second", body);
  const failure = await node.event("replication.failed");
  await node.event("replication.ended", ({ state }) => state === "failed");
  expect(failure.reason).toMatch(
    /^Duplicate job running: _replicator\/first \((running|pending)\)$/,
  );
  const document = JSON.parse((await node.read("_replicator", "second"))?.body.text ?? "{}");
  expect(document._replication_state).toBe("failed");
});

test("an expelled node stops its jobs without writing, and then accepts jobs as a new worker", async () => {
  const node = await open();
  node.start();
  await fill(node, "a", 5);
  const replication = parseReplication({
    source: "a",
    target: "b",
    create_target: true,
    continuous: true,
  });
  await node.replicator.start(replication, USER);
  await node.event("replication.started");
  const [worker] = await node.kv.read((tx) => node.jobs.workers.members(tx));
  await node.kv.transact((tx) => node.jobs.workers.expel(tx, worker?.id ?? ""));
  await node.event("replication.halted");
  const startedAgain = () =>
    node.events.filter(({ name }) => name === "replication.started").length === 2;
  await node.event("replication.started", startedAgain);
  expect(node.events.some(({ name }) => name === "replication.ended")).toBe(false);
  const members = await node.kv.read((tx) => node.jobs.workers.members(tx));
  expect(members.length).toBe(1);
  expect(members[0]?.id).not.toBe(worker?.id);
});
