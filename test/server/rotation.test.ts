/** The key for a store's secrets is rotated while nodes serve the store. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Utf8Text } from "../../src/base/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import { KeyValueStore, MemoryEngine, MemoryStorage } from "../../src/kv/index.ts";
import { parseReplication } from "../../src/replicator/index.ts";
import { KeyFollower } from "../../src/server/secrets/key-follower.ts";
import { establishKeys, readKeyRecord } from "../../src/server/secrets/key-record.ts";
import { KEY_BYTES, KeyRing, keyIdOf, sealedKeyId } from "../../src/server/secrets/key-ring.ts";
import { type KeySource, keySource, readKeys } from "../../src/server/secrets/key-source.ts";
import { Rotation } from "../../src/server/secrets/rotation.ts";
import { composeNode } from "../support/compose-node.ts";
import { secretsIn } from "../support/find-secrets.ts";
import { ADMIN } from "../support/open-node.ts";
import { withDirectory } from "../support/with-directory.ts";

const SECRET = "Kw7-secret-of-a-job";
const KEY = Buffer.alloc(KEY_BYTES, 1);
const DOCUMENT_COUNT = 250;

interface Options {
  readonly storage: MemoryStorage;
  readonly directory: string;
  /** Whether the node seals secrets. Nodes with earlier versions do not seal secrets. */
  readonly seals?: boolean;
  readonly source?: KeySource;
  readonly isSharedStore?: boolean;
  readonly onPause?: () => void | Promise<void>;
  /** Called in each pass. Reseals values outside documents and jobs, and returns their number. */
  readonly renewOthers?: () => Promise<number>;
}

async function openNode({
  storage,
  directory,
  seals = true,
  source = fileIn(directory),
  isSharedStore = false,
  onPause = () => {},
  renewOthers = async () => 0,
}: Options) {
  const system = createSystemRuntime();
  // The test does not wait, because no other nodes exist. A sleep of 0 ms only yields.
  const clock = {
    ...system.clock,
    sleep: async (durationMs: number) => {
      if (durationMs > 0) await onPause();
    },
  };
  const runtime = { ...system, clock };
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime, storage }) });
  const ring = new KeyRing({ random: runtime.random, readKeys: () => readKeys(source) });
  if (seals) await establishKeys({ random: runtime.random, kv, ring, source });
  const parts = composeNode({ runtime, kv, ...(seals ? { seal: ring } : {}) });
  await parts.replicator.prepare();
  const others = { renewOthers, isSharedStore, ring, source };
  const rotation = new Rotation({ ...parts, ...others });
  return {
    ...parts,
    ring,
    rotation,
    record: () => kv.read(readKeyRecord),
    async rotate(signal = new AbortController().signal): Promise<void> {
      const over = new AbortController();
      const running = rotation.run(AbortSignal.any([signal, over.signal]));
      await rotation.begin();
      for (;;) {
        const { state } = (await rotation.status()).rotation;
        if (signal.aborted || state === "done" || state === "failed") break;
        await new Promise(setImmediate);
      }
      over.abort(new Error("The rotation is over"));
      await running.catch(() => {});
    },
  };
}

function fileIn(directory: string): KeySource {
  return keySource({
    environment: {},
    namedFile: undefined,
    configFile: undefined,
    dataDirectory: join(directory, "data"),
    random: createSystemRuntime().random,
    isLasting: true,
  });
}

type Node = Awaited<ReturnType<typeof openNode>>;

const bodyOf = (more = {}) =>
  JSON.stringify({ source: `http://jan:${SECRET}@127.0.0.1:1/a`, target: "b", ...more });

/**
 * Writes documents with jobs: one with two leaves, one deleted, and others whose sizes are just
 * below and above one row of the store.
 */
async function fill({ kv, databases, replicator }: Node): Promise<void> {
  await kv.transact((tx) => databases.create(tx, "_replicator"));
  const put = (id: string, body: string, more: object = {}) =>
    kv.transact(async (tx) => {
      const database = await databases.open(tx, "_replicator");
      const edit = { mode: "interactive", id, parent: undefined, deleted: false } as const;
      const text = Utf8Text.of(body);
      return database.write(tx, { ...edit, body: text, attachments: [], ...more } as never, ADMIN);
    });
  for (let number = 0; number < DOCUMENT_COUNT; number++) await put(`job-${number}`, bodyOf());
  const length = bodyOf({ note: "" }).length;
  for (const more of [-1, 0, 1]) {
    await put(`long${more}`, bodyOf({ note: "x".repeat(90_000 - 2 + more - length) }));
  }
  const revisions = { start: 2, hashes: ["f".repeat(32), "e".repeat(32)] };
  await put("job-1", bodyOf({ number: 2 }), { mode: "replicated", revisions });
  await put("gone", bodyOf(), { mode: "replicated", revisions, deleted: true });
  const replication = parseReplication(JSON.parse(bodyOf({ continuous: true })));
  await replicator.start(replication, { userName: "jan", isAdmin: false });
}

/** Returns the user-visible state of the documents and jobs. */
async function shown({ kv, databases, replicator }: Node) {
  const documents = await kv.read(async (tx) => {
    const database = await databases.open(tx, "_replicator");
    const { entries } = await database.changes.page(tx, { limit: 10_000 });
    const leaves = await Promise.all(
      entries.map(({ id }) => database.documents.readLeaves(tx, id)),
    );
    return entries.map((change, index) => [change, leaves[index]?.map(({ body }) => body.text)]);
  });
  const jobs: unknown[] = [];
  for await (const { data } of replicator.lists.all({})) jobs.push(data);
  return { documents, jobs };
}

/**
 * Returns the ids of all keys used in sealed values, and whether any secret is stored in plain
 * text.
 */
async function stored({ kv, ring }: Node) {
  const page = await kv.read((tx) =>
    tx.getRangePage({ begin: Uint8Array.of(), end: Uint8Array.of(255) }, { byteLimit: 1e9 }),
  );
  const bytes = Buffer.concat(page.entries.map(({ value }) => value));
  const named = ring.ids.filter((id) => {
    const head = Buffer.from(`01${id}`, "hex");
    return bytes.includes(head) || bytes.includes(head.toString("base64").slice(0, 6));
  });
  return { secrets: secretsIn(bytes, [SECRET]), named };
}

test("data of an earlier version is sealed without changes that are visible to users", () =>
  withDirectory(async (directory) => {
    const storage = new MemoryStorage();
    const earlier = await openNode({ storage, directory, seals: false });
    await fill(earlier);
    const before = await shown(earlier);
    const node = await openNode({ storage, directory });
    expect(await shown(node)).toEqual(before);
    expect((await stored(node)).secrets).toEqual([SECRET]);
    await node.rotate();
    const { rotation, record } = await node.rotation.status();
    expect(rotation).toMatchObject({ state: "done", error: undefined });
    // Each document except the deleted one has a job. One document has two leaves.
    expect(rotation.renewedCount).toBe(2 * (DOCUMENT_COUNT + 3) + 3);
    expect(record.inUse).toEqual([record.sealingId]);
    expect(await shown(node)).toEqual(before);
    expect(await stored(node)).toEqual({ secrets: [], named: [record.sealingId] });
  }));

test("all values are resealed with a new key, and the old key is removed from the key file", () =>
  withDirectory(async (directory) => {
    const node = await openNode({ storage: new MemoryStorage(), directory });
    await fill(node);
    const before = await shown(node);
    const [oldId] = node.ring.ids;
    await node.rotate();
    const { record, rotation } = await node.rotation.status();
    expect(rotation.unneededIds).toEqual([oldId]);
    expect(node.ring.ids).toEqual([record.sealingId]);
    expect(record.sealingId).not.toBe(oldId);
    expect(readFileSync(join(directory, "data.key"), "utf8").match(/^[^#\n]+$/gm)).toHaveLength(1);
    expect(await shown(node)).toEqual(before);
    expect((await stored(node)).named).toEqual([record.sealingId]);
  }));

test("values outside documents and jobs are counted, and resealed until a pass finds no more of them", () =>
  withDirectory(async (directory) => {
    const left = [7, 2];
    const renewOthers = async () => left.shift() ?? 0;
    const node = await openNode({ storage: new MemoryStorage(), directory, renewOthers });
    await fill(node);
    await node.rotate();
    // The second pass resealed 2 values. A third pass therefore followed, and found no values.
    expect((await node.rotation.status()).rotation).toMatchObject({
      state: "done",
      renewedCount: 2 * (DOCUMENT_COUNT + 3) + 3 + 7 + 2,
    });
    expect(left).toEqual([]);
  }));

test("an interrupted rotation continues with the same new key", () =>
  withDirectory(async (directory) => {
    const storage = new MemoryStorage();
    const killed = new AbortController();
    const onPause = () => killed.abort(new Error("killed"));
    const node = await openNode({ storage, directory, onPause });
    await fill(node);
    const [oldId] = node.ring.ids;
    await node.rotate(killed.signal);
    const half = await node.record();
    expect(half?.inUse).toEqual([oldId, half?.sealingId]);
    // In the meantime, another node has sealed values with the old key.
    node.ring.sealWith(oldId as string);
    await node.kv.transact(async (tx) => {
      const database = await node.databases.open(tx, "_replicator");
      const body = Utf8Text.of(bodyOf());
      const edit = { mode: "interactive", parent: undefined, deleted: false } as const;
      return database.write(tx, { ...edit, id: "late", body, attachments: [] }, ADMIN);
    });
    const again = await openNode({ storage, directory });
    expect(again.ring.ids).toEqual([oldId, half?.sealingId]);
    await again.rotate();
    expect(await again.record()).toEqual({ sealingId: half?.sealingId, inUse: [half?.sealingId] });
    expect((await again.rotation.status()).rotation.renewedCount).toBe(2);
    expect(again.ring.ids).toEqual([half?.sealingId]);
    expect((await stored(again)).named).toEqual([half?.sealingId]);
  }));

test("values that a node seals with the old key during a rotation are resealed before the old key is removed", () =>
  withDirectory(async (directory) => {
    const storage = new MemoryStorage();
    let late: Node | undefined;
    const onPause = async () => {
      // This node has not yet switched to the new key.
      const { replicator } = late as Node;
      const replication = parseReplication(JSON.parse(bodyOf({ target: "late" })));
      await replicator.start(replication, { userName: "sue", isAdmin: false });
    };
    const node = await openNode({ storage, directory, onPause });
    await fill(node);
    late = await openNode({ storage, directory });
    await node.rotate();
    const { sealingId } = (await node.rotation.status()).record;
    expect(await stored(node)).toEqual({ secrets: [], named: [sealingId] });
    expect((await shown(node)).jobs).toHaveLength(DOCUMENT_COUNT + 3 + 2);
    let changes = 0;
    const onChanged = () => {
      changes++;
    };
    const follower = new KeyFollower(late.runtime, late.kv, late.ring, onChanged);
    await follower.follow();
    await follower.follow();
    expect([late.ring.sealingId, changes]).toEqual([sealingId, 1]);
  }));

test("a document whose leaves do not fit into one transaction is resealed leaf by leaf", () =>
  withDirectory(async (directory) => {
    const node = await openNode({ storage: new MemoryStorage(), directory });
    await node.kv.transact((tx) => node.databases.create(tx, "_replicator"));
    const body = Utf8Text.of(bodyOf({ note: "x".repeat(1_900_000) }));
    for (const hash of ["a", "b", "c", "d", "e", "f"]) {
      const revisions = { start: 1, hashes: [hash.repeat(32)] };
      const edit = { mode: "replicated", id: "a", deleted: false, body, attachments: [] } as const;
      await node.kv.transact(async (tx) => {
        const database = await node.databases.open(tx, "_replicator");
        await database.write(tx, { ...edit, revisions }, ADMIN);
      });
    }
    await node.rotate();
    const { rotation, record } = await node.rotation.status();
    expect(rotation).toMatchObject({ state: "done", error: undefined });
    expect(rotation.renewedCount).toBeGreaterThanOrEqual(6);
    expect((await stored(node)).named).toEqual([record.sealingId]);
  }));

test("keys in the environment are rotated by placing the new key before the old one", () =>
  withDirectory(async (directory) => {
    const next = Buffer.alloc(KEY_BYTES, 2);
    const text = KEY.toString("base64");
    const source = { kind: "environment", text } as const;
    const storage = new MemoryStorage();
    const node = await openNode({ storage, directory, source });
    await fill(node);
    await expect(node.rotation.begin()).rejects.toMatchObject({
      code: "SECRETS_NO_NEW_KEY",
      details: { reason: expect.stringContaining("TANDEM_SECRETS_KEY on every node") },
    });
    const both = { ...source, text: `${text},${next.toString("base64")}` };
    const given = await openNode({ storage, directory, source: both });
    await given.rotate();
    const { record, rotation } = await given.rotation.status();
    expect(record).toEqual({ sealingId: keyIdOf(next), inUse: [keyIdOf(next)] });
    expect(rotation.unneededIds).toEqual([keyIdOf(KEY)]);
    expect((await stored(given)).named).toEqual([keyIdOf(next)]);
  }));

test("no key is generated for a store that is shared with other machines", () =>
  withDirectory(async (directory) => {
    const node = await openNode({ storage: new MemoryStorage(), directory, isSharedStore: true });
    await expect(node.rotation.begin()).rejects.toMatchObject({ code: "SECRETS_NO_NEW_KEY" });
    const file = join(directory, "data.key");
    writeFileSync(file, `${readFileSync(file, "utf8")}${KEY.toString("base64")}\n`);
    await node.rotate();
    expect((await node.rotation.status()).record.sealingId).toBe(keyIdOf(KEY));
  }));

test("a value that cannot be opened ends the rotation with an error, and the old key is kept", () =>
  withDirectory(async (directory) => {
    const storage = new MemoryStorage();
    const source = { kind: "environment", text: KEY.toString("base64") } as const;
    const foreign = await openNode({ storage, directory, source });
    await fill(foreign);
    const sealed = foreign.ring.seal(Uint8Array.of(1), "x");
    expect(sealedKeyId(sealed)).toBe(keyIdOf(KEY));
    const lost = Buffer.alloc(KEY_BYTES, 3).toString("base64");
    const ring = { kind: "environment", text: lost } as const;
    await foreign.kv.transact(async (tx) => {
      const record = { format: 1, sealingId: keyIdOf(Buffer.alloc(KEY_BYTES, 3)), inUse: [] };
      const { KEY_RECORD_KEY } = await import("../../src/server/layout.ts");
      tx.set(KEY_RECORD_KEY, Buffer.from(JSON.stringify(record)));
    });
    const next = Buffer.alloc(KEY_BYTES, 4).toString("base64");
    const both = { ...ring, text: `${lost},${next}` };
    const node = await openNode({ storage, directory, source: both });
    await node.rotate();
    const { rotation, record } = await node.rotation.status();
    expect(rotation).toMatchObject({ state: "failed" });
    expect(rotation.error).toContain(`lacks the key ${keyIdOf(KEY)}`);
    expect(record.inUse).toHaveLength(1);
  }));
