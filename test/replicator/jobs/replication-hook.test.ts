/** How writes to a `_replicator` database change jobs. */
import { afterEach, expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import type { WriteContext } from "../../../src/databases/index.ts";
import { REPLICATOR_CONFIG_DEFAULT } from "../../../src/replicator/index.ts";
import { ADMIN, type Node, openNode } from "../../support/open-node.ts";

const nodes: Node[] = [];

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

/** Opens a node that runs no jobs, and counts how often it parses a replication. */
async function open() {
  let parseCount = 0;
  const config = {
    // Each parse of a replication reads the allowed protocols once, so this counter equals the
    // number of parses.
    get protocols() {
      parseCount++;
      return REPLICATOR_CONFIG_DEFAULT.protocols;
    },
  };
  const node = await openNode({ config });
  nodes.push(node);
  await node.createDatabase("_replicator");
  const sourceOf = async (id: string): Promise<string | undefined> => {
    const { uuid } = await node.kv.read((tx) => node.databases.open(tx, "_replicator"));
    const source = (await node.replicator.findDocument(uuid, id))?.data.replication?.source;
    return source?.kind === "local" ? source.database : undefined;
  };
  return { node, sourceOf, parses: () => parseCount };
}

function bodyFrom(source: string): string {
  return JSON.stringify({ source, target: "b", owner: null });
}

test("each write of a document parses the document once", async () => {
  const { node, sourceOf, parses } = await open();
  await node.put("_replicator", "first", bodyFrom("a"));
  expect(parses()).toBe(1);
  await node.put("_replicator", "first", bodyFrom("c"));
  expect(parses()).toBe(2);
  expect(await sourceOf("first")).toBe("c");
});

test("each document that a transaction writes gets a separate job", async () => {
  const { node, sourceOf, parses } = await open();
  const edits = ["a", "c"].map((source) => ({
    mode: "interactive" as const,
    id: `from-${source}`,
    parent: undefined,
    deleted: false,
    body: Utf8Text.of(bodyFrom(source)),
    attachments: [],
  }));
  await node.kv.transact(async (tx) => {
    const database = await node.databases.open(tx, "_replicator");
    await database.writeMany(tx, edits, ADMIN);
  });
  expect(await sourceOf("from-a")).toBe("a");
  expect(await sourceOf("from-c")).toBe("c");
  expect(parses()).toBe(2);
});

test("a document's job follows the winning revision, even if a losing revision is written", async () => {
  const { node, sourceOf } = await open();
  const write = (edit: object) =>
    node.kv.transact(async (tx) => {
      const database = await node.databases.open(tx, "_replicator");
      const shared = { id: "rivals", deleted: false, attachments: [] };
      return database.write(tx, { ...shared, ...edit } as never, ADMIN);
    });
  const rival = (hash: string, source: string) => ({
    mode: "replicated",
    revisions: { start: 1, hashes: [hash] },
    body: Utf8Text.of(bodyFrom(source)),
  });
  await write({ ...rival("x", "a"), revisions: { start: 5, hashes: ["x"] } });
  await write(rival("y", "c"));
  const outcome = await write({
    mode: "interactive",
    parent: "1-y",
    body: Utf8Text.of(bodyFrom("d")),
  });
  expect(outcome.kind).toBe("written");
  expect(await sourceOf("rivals")).toBe("a");
});

test("adding the owner to a document does not change the job's request", async () => {
  const { node, sourceOf, parses } = await open();
  await node.put("_replicator", "ownerless", '{"source":"a","target":"b"}');
  expect(parses()).toBe(1);
  expect(await sourceOf("ownerless")).toBe("a");
});

test("an admin's permissions do not apply to another user's write in the same transaction", async () => {
  const { node } = await open();
  const members = { source: "http://host/a", target: "b", owner: "joe", cert_file: "/own.pem" };
  const shared = { deleted: false, body: Utf8Text.of(JSON.stringify(members)), attachments: [] };
  const joe: WriteContext = { userName: "joe", roles: [], isAdmin: false };
  const uuid = await node.kv.transact(async (tx) => {
    const database = await node.databases.open(tx, "_replicator");
    const created = { ...shared, mode: "interactive", id: "admin's", parent: undefined } as const;
    await database.write(tx, created, ADMIN);
    const revisions = { start: 1, hashes: ["x"] };
    await database.write(tx, { ...shared, mode: "replicated", id: "joe's", revisions }, joe);
    return database.uuid;
  });
  const refusalOf = async (id: string) =>
    (await node.replicator.findDocument(uuid, id))?.data.refusal?.error;
  expect(await refusalOf("admin's")).toBeUndefined();
  expect(await refusalOf("joe's")).toBe("forbidden");
});

const PAUSING = { requestId: "request", why: "taken over" };

/** Adopts a document as paused. Returns the job's state and the stored operator decision. */
async function taken(node: Node, members: object, hash = "x", start = 1) {
  const uuid = await node.kv.transact(async (tx) => {
    const database = await node.databases.open(tx, "_replicator");
    const edit = {
      mode: "replicated",
      id: "taken",
      deleted: false,
      attachments: [],
      revisions: { start, hashes: start === 1 ? [hash] : [hash, "x"] },
      body: Utf8Text.of(JSON.stringify({ source: "a", target: "b", owner: "old", ...members })),
    } as const;
    await database.write(tx, edit, { ...ADMIN, userName: "ann", pausing: PAUSING });
    return database.uuid;
  });
  const entry = await node.replicator.findDocument(uuid, "taken");
  const jobId = entry?.jobId ?? "";
  const [control] = await node.replicator.commands.controls([jobId]);
  return { state: entry?.state, owner: entry?.data.userName, jobId, control };
}

test("an adopted job is paused before it can run, and runs after it is resumed", async () => {
  const { node } = await open();
  await node.createDatabase("a");
  await node.createDatabase("b");
  node.start();
  const { jobId, state, owner, control } = await taken(node, { _replication_state: "triggered" });
  expect([state, owner, control?.isPaused]).toEqual(["pending", "old", true]);
  expect(control?.events).toMatchObject([{ action: "pause", userName: "ann", why: "taken over" }]);
  // Another job is added after the paused job, and runs first.
  await node.put("_replicator", "other", bodyFrom("a"));
  await node.event("replication.ended");
  const started = () => node.events.filter(({ name }) => name === "replication.started");
  expect(started()).toHaveLength(1);
  expect(await node.replicator.commands.resume(jobId, { userName: "ann" })).toBe("done");
  await node.event("replication.ended", (event) => event.jobId === jobId);
  expect(started()).toHaveLength(2);
});

test("adopting a document again pauses its job if the job was resumed, and otherwise keeps the existing pause", async () => {
  const { node } = await open();
  const { jobId } = await taken(node, {});
  await node.replicator.commands.resume(jobId, { userName: "ann" });
  const again = await taken(node, {}, "y", 2);
  expect(again.control?.isPaused).toBe(true);
  const same = await taken(node, {}, "z", 3);
  expect(same.control).toEqual(again.control);
});

test("a paused job stays paused when a user changes its document", async () => {
  const { node } = await open();
  const { jobId } = await taken(node, {});
  const change = async (members: object, start: number) => {
    await node.kv.transact(async (tx) => {
      const database = await node.databases.open(tx, "_replicator");
      const body = Utf8Text.of(
        JSON.stringify({ source: "a", target: "b", owner: "old", ...members }),
      );
      const revisions = { start, hashes: ["z"] };
      const edit = { mode: "replicated", id: "taken", deleted: false, attachments: [] } as const;
      await database.write(tx, { ...edit, revisions, body }, ADMIN);
    });
    const [control] = await node.replicator.commands.controls([jobId]);
    const entry = await node.replicator.find(jobId);
    return [control?.isPaused, entry?.data.replication?.continuous, entry?.state];
  };
  expect(await change({ continuous: true }, 2)).toEqual([true, true, "pending"]);
  const [control] = await node.replicator.commands.controls([jobId]);
  expect(control?.events).toMatchObject([{ action: "pause", userName: "ann", why: "taken over" }]);
  await node.replicator.commands.resume(jobId, { userName: "ann" });
  expect(await change({ continuous: false }, 3)).toEqual([false, false, "pending"]);
});

test("adopting the document of a completed job again leaves the job completed", async () => {
  const { node } = await open();
  await taken(node, {});
  const ended = await taken(node, { _replication_state: "completed" }, "y", 2);
  expect([ended.state, ended.control?.isPaused]).toEqual(["completed", false]);
});

test("the number of conflicting revisions and the length of revisions of a replication document are limited in every kind of write", async () => {
  const { node } = await open();
  const joe: WriteContext = { userName: "joe", roles: [], isAdmin: false };
  const write = (edit: object, writer = joe) =>
    node.kv.transact(async (tx) => {
      const database = await node.databases.open(tx, "_replicator");
      const shared = { id: "rivals", mode: "replicated", deleted: false, attachments: [] };
      return database.write(tx, { ...shared, ...edit } as never, writer);
    });
  const body = Utf8Text.of(JSON.stringify({ source: "a", target: "b", owner: "joe" }));
  const hash = (number: number): string => number.toString(16).padStart(32, "0");
  const leaf = (number: number) => ({ body, revisions: { start: 2, hashes: [hash(number), "f"] } });
  for (let number = 0; number < 50; number++) {
    expect(await write(leaf(number))).toMatchObject({ kind: "written" });
  }
  const refused = { kind: "rejected", reason: expect.stringContaining("50 conflicting") };
  expect(await write(leaf(50))).toMatchObject(refused);
  expect(await write(leaf(50), ADMIN)).toMatchObject(refused);
  // Extending a leaf adds no leaf. A deleted leaf does not count, so there is room for another.
  const following = { start: 3, hashes: [hash(90), hash(0)] };
  expect(await write({ body, revisions: following })).toMatchObject({ kind: "written" });
  const deletion = { start: 3, hashes: [hash(91), hash(1)] };
  const gone = { body: Utf8Text.of("{}"), deleted: true, revisions: deletion };
  expect(await write(gone)).toMatchObject({ kind: "written" });
  expect(await write(leaf(50))).toMatchObject({ kind: "written" });
  const long = Utf8Text.of(JSON.stringify({ owner: "joe", text: "x".repeat(2_000_001) }));
  expect(await write({ ...leaf(1), id: "long", body: long })).toMatchObject({ kind: "rejected" });
});
