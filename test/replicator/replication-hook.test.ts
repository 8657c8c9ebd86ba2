/** What a write to a `_replicator` database asks for. */
import { afterEach, expect, test } from "vitest";
import { Utf8Text } from "../../src/base/index.ts";
import type { WriteContext } from "../../src/databases/index.ts";
import { REPLICATOR_CONFIG_DEFAULT } from "../../src/replicator/index.ts";
import { ADMIN, type Node, openNode } from "../support/open-node.ts";

const nodes: Node[] = [];

afterEach(async () => {
  for (const node of nodes.splice(0)) await node.stop();
});

/** A node that runs no jobs, and how often it parsed a replication. */
async function open() {
  let parseCount = 0;
  const config = {
    // Whoever parses a replication reads which URLs are allowed, once.
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

test("a document is parsed once for each write", async () => {
  const { node, sourceOf, parses } = await open();
  await node.put("_replicator", "first", bodyFrom("a"));
  expect(parses()).toBe(1);
  await node.put("_replicator", "first", bodyFrom("c"));
  expect(parses()).toBe(2);
  expect(await sourceOf("first")).toBe("c");
});

test("the documents of one transaction have jobs of their own", async () => {
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

test("the job does what the winning revision says, though another was written", async () => {
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

test("the owner that a document gets changes nothing of what it asks for", async () => {
  const { node, sourceOf, parses } = await open();
  await node.put("_replicator", "ownerless", '{"source":"a","target":"b"}');
  expect(parses()).toBe(1);
  expect(await sourceOf("ownerless")).toBe("a");
});

test("what an admin may have is no precedent for another writer in the same transaction", async () => {
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
