/**
 * The rights of a leaf of a replication document. A leaf has the rights of its author, whichever
 * user makes it the winner.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import { DatabaseRegistry, type WriteContext } from "../../../src/databases/index.ts";
import type { Transaction } from "../../../src/kv/index.ts";
import { SUBSPACES } from "../../../src/server/layout.ts";
import { type Node, openNode } from "../../support/open-node.ts";

const ROOT: WriteContext = { userName: "root", roles: ["_admin"], isAdmin: true };
const EVE: WriteContext = { userName: "eve", roles: [], isAdmin: false };
const TOKEN_ROOT: WriteContext = { userName: "root", roles: [], isAdmin: false, vouchedBy: "jwt" };

const PLAIN = { source: "a", target: "b" };
const SECRET = {
  source: { url: "http://evil.example/a", headers: { "x-key": "env:CREDENTIAL_A" } },
  target: "b",
};
const CERTIFICATE = {
  source: { url: "https://evil.example/a", cert_file: "/etc/cert", key_file: "/etc/key" },
  target: "b",
};

let node: Node;

beforeEach(async () => {
  node = await openNode();
  await node.createDatabase("_replicator");
});
afterEach(() => node.stop());

type Opened = Awaited<ReturnType<DatabaseRegistry["open"]>>;

const change = <T>(body: (tx: Transaction, database: Opened) => Promise<T>): Promise<T> =>
  node.kv.transact(async (tx) => body(tx, await node.databases.open(tx, "_replicator")));

interface Leaf {
  readonly path: readonly string[];
  readonly body?: object;
}

/** Writes a replicated revision. `path` contains the hash of the revision, then its ancestors'. */
function graft(writer: WriteContext, { path, body }: Leaf, databases = node.databases) {
  const hashes = path.map((name) => name.repeat(32));
  return node.kv.transact(async (tx) => {
    const database = await databases.open(tx, "_replicator");
    const edit = {
      mode: "replicated",
      id: "one",
      deleted: body === undefined,
      body: Utf8Text.of(JSON.stringify(body ?? {})),
      revisions: { start: path.length, hashes },
      attachments: [],
    } as const;
    const outcome = await database.write(tx, edit, writer);
    if (outcome.kind !== "written") throw new Error(JSON.stringify(outcome));
  });
}

/** Creates the document or replaces its winner. */
const save = (writer: WriteContext, body: object | undefined) =>
  change(async (tx, database) => {
    const winner = await database.documents.read(tx, "one");
    const edit = {
      mode: "interactive",
      id: "one",
      parent: winner?.deleted === false ? winner.revision : undefined,
      deleted: body === undefined,
      body: Utf8Text.of(JSON.stringify(body ?? {})),
      attachments: [],
    } as const;
    return (await database.write(tx, edit, writer)).kind;
  });

async function job() {
  const { uuid } = await node.kv.read((tx) => node.databases.open(tx, "_replicator"));
  const entry = await node.replicator.findDocument(uuid, "one");
  if (entry === undefined) return undefined;
  const { userName, refusal, replication, vouched, isCopy } = entry.data;
  return { jobId: entry.jobId, userName, refusal, replication, vouched, isCopy };
}

const ADMIN_ONLY = {
  error: "forbidden",
  reason: expect.stringContaining("requires server admin rights"),
};

/** Operations of a privileged user that make another leaf the winner. */
const ROUTES: readonly (readonly [string, () => Promise<unknown>])[] = [
  ["an administrator deletes the winner", () => save(ROOT, undefined)],
  [
    "an administrator cancels the job",
    async () => node.replicator.commands.cancel((await job())?.jobId ?? "", { userName: "root" }),
  ],
  [
    "an administrator purges the winner",
    () =>
      change(async (tx, database) => {
        const { revision } = (await database.documents.read(tx, "one")) as { revision: string };
        return database.purge(tx, [{ id: "one", revisions: [revision] }], ROOT);
      }),
  ],
  ["a replication deletes the winner", () => graft(ROOT, { path: ["d", "f", "0"] })],
  [
    "a replication job deletes the winner",
    () => graft({ ...ROOT, bringsCopies: true }, { path: ["d", "f", "0"] }),
  ],
];

describe.each([
  ["a reference to a secret", SECRET],
  ["a certificate file", CERTIFICATE],
])("a losing leaf of a user with %s", (_, body) => {
  test.each(ROUTES)("is refused when %s", async (_name, route) => {
    await graft(EVE, { path: ["f", "0"], body: { ...PLAIN, owner: "eve" } });
    await graft(EVE, { path: ["a", "0"], body: { ...body, owner: "eve" } });
    expect(await job()).toMatchObject({ userName: "eve", refusal: undefined });
    await route();
    expect(await job()).toMatchObject({ userName: "eve", refusal: ADMIN_ONLY });
  });

  test("the leaf is refused if it becomes the winner in the transaction in which an administrator saves the same body", async () => {
    const text = { ...body, owner: "eve" };
    await graft(EVE, { path: ["f", "1", "0"], body: text });
    await graft(ROOT, { path: ["a", "0"], body: { ...PLAIN, owner: "eve" } });
    await change(async (tx, database) => {
      const parent = `2-${"a".repeat(32)}`;
      const edit = { mode: "interactive", id: "one", parent, deleted: false } as const;
      const same = { ...edit, body: Utf8Text.of(JSON.stringify(text)), attachments: [] };
      await database.write(tx, same, ROOT);
    });
    expect((await job())?.refusal).toEqual(ADMIN_ONLY);
  });
});

test("an administrator's leaf may use its secret reference if the deletion of another leaf makes it the winner", async () => {
  const owner = "eve";
  await save(ROOT, SECRET);
  await graft({ ...ROOT, userName: "chief" }, { path: ["f", "e", "d"], body: { ...PLAIN, owner } });
  expect(await job()).toMatchObject({ userName: "eve" });
  await graft(ROOT, { path: ["1", "f", "e", "d"] });
  expect(await job()).toMatchObject({ userName: "root", refusal: undefined });
});

test("a status update by the replicator keeps the document's author", async () => {
  await save(TOKEN_ROOT, PLAIN);
  const before = await node.read("_replicator", "one");
  expect(before?.authority).toMatchObject({ userName: "root", wasAdmin: false });
  node.start();
  await node.event("replication.ended");
  const after = await node.read("_replicator", "one");
  expect(after?.authority).toEqual(before?.authority);
});

test("saving another user's document gives it no additional rights", async () => {
  await save(TOKEN_ROOT, { ...PLAIN, owner: "root" });
  const other = { ...ROOT, userName: "chief" };
  expect(await save(other, { ...PLAIN, owner: "root", worker_batch_size: 7 })).toBe("written");
  expect(await job()).toMatchObject({ userName: "root", vouched: { by: "jwt", roles: [] } });
  expect(await save(other, { ...SECRET, owner: "root" })).toBe("rejected");
});

test("deleting a winning leaf gives the job to the next winner's author, even if the next winner has the state completed", async () => {
  const ended = { ...PLAIN, owner: "eve", _replication_state: "completed" };
  await graft(EVE, { path: ["a", "0"], body: ended });
  await graft(ROOT, { path: ["f", "0"], body: { ...PLAIN, owner: "root" } });
  expect(await job()).toMatchObject({ userName: "root" });
  await graft(ROOT, { path: ["d", "f", "0"] });
  expect(await job()).toMatchObject({ userName: "eve" });
});

test("a purged leaf that a user writes again by a replication has only the rights of that user", async () => {
  const body = { ...SECRET, owner: "eve" };
  await save(ROOT, SECRET);
  const { revision } = (await node.read("_replicator", "one")) as { revision: string };
  const purges = [{ id: "one", revisions: [revision] }];
  await change((tx, database) => database.purge(tx, purges, ROOT));
  await graft(EVE, { path: ["a"], body });
  expect((await job())?.refusal).toEqual(ADMIN_ONLY);
});

test("a leaf keeps its first author if another user writes it again", async () => {
  await graft(EVE, { path: ["a"], body: { ...SECRET, owner: "eve" } });
  await graft(ROOT, { path: ["a", "0"], body: { ...SECRET, owner: "eve" } });
  expect(await job()).toMatchObject({ userName: "eve", refusal: ADMIN_ONLY });
});

describe("documents written by a replication", () => {
  const JOB: WriteContext = { ...ROOT, bringsCopies: true };

  test("have the rights of the replication job that wrote them, whichever owner they name", async () => {
    await graft(JOB, { path: ["a"], body: { ...PLAIN, owner: "boss" } });
    expect(await job()).toMatchObject({ userName: "root", isCopy: true, refusal: undefined });
  });

  test.each([SECRET, CERTIFICATE])("may not refer to secrets or files: %j", async (body) => {
    for (const writer of [JOB, ROOT]) {
      await graft(writer, { path: [writer === JOB ? "a" : "b"], body: { ...body, owner: "root" } });
      expect((await job())?.refusal).toEqual(ADMIN_ONLY);
    }
  });

  test.each(
    ["_users", "_replicator", "_global_changes", "joe/_replicator"].flatMap((name) => [
      [name, { source: name, target: "b" }],
      [name, { source: "a", target: name, create_target: true }],
    ]),
  )("may not copy from or to the system database %s: %j", async (name, body) => {
    const others = ["a", "b", String(name)].filter((each) => each !== "_replicator");
    for (const each of others) await node.createDatabase(each);
    await graft(JOB, { path: ["a"], body: body as object });
    node.start();
    await node.event("replication.ended");
    const { jobId } = (await job()) as { jobId: string };
    const failure = (await node.replicator.find(jobId))?.data.failure;
    expect(failure).toMatchObject({ error: "forbidden" });
  });

  test("may not create a system database", async () => {
    await node.createDatabase("a");
    const body = { source: "a", target: "_users", create_target: true };
    await graft(JOB, { path: ["a"], body });
    node.start();
    await node.event("replication.ended");
    expect(await node.kv.read((tx) => node.databases.find(tx, "_users"))).toBeUndefined();
  });
});

describe("a leaf that an older version stored without its author", () => {
  /** Writes a leaf as a version that does not store authors would. */
  const older = (leaf: Leaf) => {
    const { runtime } = node;
    return graft(ROOT, leaf, new DatabaseRegistry({ runtime, root: SUBSPACES.databases }));
  };

  test("is refused as the winner until the document is saved again", async () => {
    await older({ path: ["a", "0"], body: { source: "a", target: "c", owner: "root" } });
    await graft(ROOT, { path: ["f", "0"], body: { ...PLAIN, owner: "root" } });
    await graft(ROOT, { path: ["d", "f", "0"] });
    expect((await job())?.refusal).toMatchObject({
      error: "forbidden",
      reason: expect.stringContaining("save the document again"),
    });
    expect(await save(ROOT, PLAIN)).toBe("written");
    expect(await job()).toMatchObject({ userName: "root", refusal: undefined });
  });

  test("keeps its existing job", async () => {
    await save(ROOT, PLAIN);
    const before = await job();
    const { revision, revisions } = (await node.read("_replicator", "one")) as {
      revision: string;
      revisions: { hashes: readonly string[] };
    };
    expect(revision).toContain(revisions.hashes[0]);
    const { runtime } = node;
    const plain = new DatabaseRegistry({ runtime, root: SUBSPACES.databases });
    // Replaces the revision by the same revision without its author.
    await node.kv.transact(async (tx) => {
      const database = await plain.open(tx, "_replicator");
      await database.purge(tx, [{ id: "one", revisions: [revision] }], ROOT);
    });
    await node.kv.transact(async (tx) => {
      const database = await plain.open(tx, "_replicator");
      const body = Utf8Text.of(JSON.stringify({ ...PLAIN, owner: "root" }));
      const edit = {
        mode: "replicated",
        id: "one",
        deleted: false,
        body,
        attachments: [],
      } as const;
      const path = { start: 1, hashes: revisions.hashes };
      await database.write(tx, { ...edit, revisions: path }, ROOT);
    });
    expect((await node.read("_replicator", "one"))?.authority).toBeUndefined();
    await graft(ROOT, { path: ["0"], body: { ...PLAIN, owner: "root" } });
    expect(await job()).toEqual(before);
  });
});
