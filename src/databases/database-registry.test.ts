import { describe, expect, test } from "vitest";
import { Utf8Text } from "../base/index.ts";
import { Subspace } from "../kv/index.ts";
import { DatabaseRegistry } from "./database-registry.ts";
import { isDatabaseName } from "./names.ts";
import { CONTEXT, interactive, openStore, replicated, revisionOf } from "./store.fixture.ts";

/** Root subspace, as in `openStore`. */
const ROOT = Subspace.fromTuple([1]);

describe("the registry", () => {
  test.each([
    ["films", true],
    ["a", true],
    ["a/b+c$(d)-e_1", true],
    ["_users", true],
    ["_replicator", true],
    ["_global_changes", true],
    ["team/_replicator", true],
    ["team/_users", true],
    ["a".repeat(238), true],
    ["a".repeat(239), false],
    ["", false],
    ["Films", false],
    ["1a", false],
    ["_other", false],
    ["a b", false],
    ["films\n", false],
    ["é", false],
  ])("%j is allowed as a database name: %s", (name, allowed) => {
    expect(isDatabaseName(name)).toBe(allowed);
  });

  test("an existing database cannot be created again, and a removed database cannot be opened", async () => {
    const { kv, registry } = await openStore();
    const create = (name: string) => kv.transact((tx) => registry.create(tx, name));
    await expect(create("films")).rejects.toMatchObject({ code: "STORE_DATABASE_EXISTS" });
    await expect(create("Films")).rejects.toMatchObject({ code: "STORE_DATABASE_NAME_INVALID" });
    await kv.transact((tx) => registry.remove(tx, "films"));
    await expect(kv.read((tx) => registry.open(tx, "films"))).rejects.toMatchObject({
      code: "STORE_DATABASE_NOT_FOUND",
    });
    await expect(kv.transact((tx) => registry.remove(tx, "films"))).rejects.toMatchObject({
      code: "STORE_DATABASE_NOT_FOUND",
    });
  });

  test("a re-created database is empty and differs from the removed one", async () => {
    const store = await openStore();
    await store.edit(interactive("a"), interactive("_local/l"));
    const old = await store.read(async (_tx, database) => database);
    await store.kv.transact(async (tx) => {
      await store.registry.remove(tx, "films");
      await store.registry.create(tx, "films");
    });
    const info = await store.read((tx, database) => database.info(tx));
    expect(info).toMatchObject({ documentCount: 0, updateSequence: "0" });
    expect(info.uuid).not.toBe(old.uuid);
    expect(info.instanceStartTime).not.toBe(old.instanceStartTime);
    expect(await store.read((tx, database) => database.local.read(tx, "_local/l"))).toBeUndefined();
    const write = store.kv.transact((tx) => old.write(tx, interactive("b"), CONTEXT));
    await expect(write).rejects.toMatchObject({ code: "STORE_DATABASE_NOT_FOUND" });
  });

  test("databases that are created concurrently, or re-created, have no keys in common", async () => {
    const { kv, registry } = await openStore();
    const begins = new Set<string>();
    const names = Array.from({ length: 40 }, (_, index) => `d${index}`);
    for (let round = 0; round < 2; round++) {
      await Promise.all(
        names.map(async (name) => {
          const { keys } = await kv.transact((tx) => registry.create(tx, name));
          begins.add(keys.everything.begin.join());
        }),
      );
      for (const name of names) await kv.transact((tx) => registry.remove(tx, name));
    }
    expect(begins.size).toBe(80);
  });

  test("the keys of a database contain a short number, and in a store of format 2 its uuid", async () => {
    const lengthIn = async (isFormat3: boolean) => {
      const { read } = await openStore({ isFormat3: async () => isFormat3 });
      return read(async (_tx, { keys }) => keys.changed.key({}).length);
    };
    expect(await lengthIn(true)).toBeLessThanOrEqual((await lengthIn(false)) - 15);
  });

  test("a watcher of an empty database is notified of its removal", async () => {
    const store = await openStore();
    const watch = await store.write(async (tx, database) => database.changes.watch(tx));
    await store.kv.transact((tx) => store.registry.remove(tx, "films"));
    await watch.fired();
  });

  test("a removed database leaves only its updates and the count of removals in the store", async () => {
    const store = await openStore();
    const keyCount = () =>
      store.kv.read(async (tx) => {
        const range = { begin: new Uint8Array(0), end: new Uint8Array([0xff]) };
        return (await tx.getRangePage(range)).entries.length;
      });
    const before = await keyCount();
    await store.kv.transact((tx) => store.registry.create(tx, "other"));
    await store.kv.transact(async (tx) => {
      const database = await store.registry.open(tx, "other");
      await database.writeMany(tx, [interactive("a"), interactive("_local/l")], CONTEXT);
      await database.setSecurity(tx, '{"admins":{}}');
    });
    expect(await keyCount()).toBeGreaterThan(before);
    await store.kv.transact((tx) => store.registry.remove(tx, "other"));
    const { entries } = await store.kv.read((tx) => store.registry.updates.page(tx, {}));
    const kinds = entries.filter(({ name }) => name === "other").map(({ kind }) => kind);
    expect(kinds).toEqual(["created", "updated", "deleted"]);
    await store.removeGarbage();
    // Each kind of update has a row, and an entry by name. The last key is the count of removals.
    expect(await keyCount()).toBe(before + 2 * kinds.length + 1);
  });

  test("rows of updates from other processes are merged, and the last update is the last row", async () => {
    const { kv, runtime, registry } = await openStore();
    const nodes = [registry, ...[1, 2, 3].map(() => new DatabaseRegistry({ runtime, root: ROOT }))];
    let written = 0;
    const writeTogether = (nodeCount: number) =>
      Promise.all(
        nodes.slice(0, nodeCount).flatMap((node) =>
          [1, 2, 3, 4].map(() => {
            const edit = interactive(`document-${written++}`);
            return kv.transact(async (tx) =>
              (await node.open(tx, "films")).write(tx, edit, CONTEXT),
            );
          }),
        ),
      );
    for (let round = 0; round < 20; round++) await writeTogether(nodes.length);
    const rows = async () => {
      const { entries } = await kv.read((tx) => registry.updates.page(tx, {}));
      return entries.filter(({ kind }) => kind === "updated");
    };
    // Each concurrent writer can leave a row, and some rows might not have been cleared yet.
    expect((await rows()).length).toBeLessThan(4 * nodes.length * 3);
    // A single node clears the remaining rows, including those of the other nodes.
    for (let round = 0; round < 400; round++) await writeTogether(1);
    expect((await rows()).length).toBeLessThan(12);
    await kv.transact((tx) => registry.create(tx, "other"));
    await writeTogether(1);
    const { entries } = await kv.read((tx) => registry.updates.page(tx, { descending: true }));
    expect(entries[0]).toMatchObject({ name: "films", kind: "updated" });
  });

  test("names are returned in order, within bounds", async () => {
    const { kv, registry } = await openStore();
    for (const name of ["b", "a/x", "a", "_users"]) {
      await kv.transact((tx) => registry.create(tx, name));
    }
    const names = (options = {}) => kv.read((tx) => registry.names(tx, options));
    expect(await names()).toEqual(["_users", "a", "a/x", "b", "films"]);
    expect(await names({ startName: "a", endName: "b" })).toEqual(["a", "a/x", "b"]);
    expect(await names({ descending: true, limit: 2 })).toEqual(["films", "b"]);
    expect(await names({ descending: true, startName: "b", endName: "a" })).toEqual([
      "b",
      "a/x",
      "a",
    ]);
    expect(await names({ limit: 0 })).toEqual([]);
  });
});

describe("hooks", () => {
  test("refused edits are not written, edits changed by a hook are written as changed, and other edits are unaffected", async () => {
    const store = await openStore({
      hooks: [
        {
          appliesTo: () => false,
          beforeWrite: async () => ({ rejected: "forbidden", reason: "no" }),
        },
        {
          appliesTo: (name) => name === "films",
          beforeWrite: async (_tx, _database, edit) =>
            edit.id === "bad"
              ? { rejected: "forbidden", reason: "bad is bad" }
              : { edit: { ...edit, body: Utf8Text.of('{"changed":true}') } },
        },
      ],
    });
    const outcomes = await store.edit(interactive("bad"), interactive("good"), interactive("good"));
    expect(outcomes).toMatchObject([
      { kind: "rejected", id: "bad", error: "forbidden", reason: "bad is bad" },
      { kind: "written", id: "good" },
      { kind: "conflict", id: "good" },
    ]);
    const good = await store.read((tx, database) => database.documents.read(tx, "good"));
    expect(good?.body.text).toBe('{"changed":true}');
    expect(await store.read((tx, database) => database.documents.read(tx, "bad"))).toBeUndefined();
  });

  test("a hook is called for each written edit in the same transaction, and can write documents", async () => {
    const seen: string[] = [];
    const store = await openStore({
      hooks: [
        {
          appliesTo: (name) => name === "films",
          afterWrite: async (tx, database, winner, context) => {
            seen.push(`${winner.id} ${winner.body.text}`);
            if (winner.id.startsWith("log-") || winner.id === "b") return;
            const log = interactive(`log-${winner.id}`, undefined, { body: winner.body.text });
            await database.write(tx, log, context);
            // The batch has written document `b` before.
            const b = interactive("b", undefined, { body: '{"by":"hook"}' });
            expect((await database.write(tx, b, context)).kind).toBe("conflict");
          },
        },
      ],
    });
    const outcomes = await store.edit(
      interactive("a", undefined, { body: '{"n":1}' }),
      interactive("b"),
      interactive("_local/x"),
    );
    expect(outcomes.map(({ kind }) => kind)).toEqual(["written", "written", "written"]);
    expect(seen).toEqual(['a {"n":1}', 'log-a {"n":1}', "b {}"]);
    const failing = store.write(async (tx, database) => {
      await database.write(tx, interactive("c"), CONTEXT);
      throw new Error("given up");
    });
    await expect(failing).rejects.toThrow("given up");
    expect(
      await store.read((tx, database) => database.documents.read(tx, "log-c")),
    ).toBeUndefined();
  });

  test("a follow-up replaces afterWrite if, and only if, the edit becomes the winner", async () => {
    const seen: string[] = [];
    const store = await openStore({
      hooks: [
        {
          appliesTo: (name) => name === "films",
          beforeWrite: (_tx, _database, edit) => {
            const followUp = async () => void seen.push(`follow-up of ${edit.body.text}`);
            return edit.id === "plain" ? { edit } : { edit, followUp };
          },
          afterWrite: async (_tx, _database, { body }) => void seen.push(`after: ${body.text}`),
        },
      ],
    });
    const loser = "1-0";
    await store.edit(
      interactive("plain", undefined, { body: "1" }),
      replicated("a", [loser], { body: "2" }),
      replicated("a", ["3-b", "2-b", "1-b"], { body: "3" }),
      interactive("a", loser, { body: "4" }),
      interactive("a", "1-unknown", { body: "5" }),
    );
    expect(seen).toEqual([
      "after: 1",
      "follow-up of 2",
      "follow-up of 3",
      // Edit 3 added a losing leaf.
      "after: 3",
    ]);
    const [first] = await store.edit(interactive("b", undefined, { body: "{}" }));
    const [second] = await store.edit(interactive("b", revisionOf(first), { body: '"6"' }));
    await store.edit(interactive("c", undefined, { body: "{}" }));
    await store.edit(replicated("c", [revisionOf(second)], { body: '"6"' }));
    seen.length = 0;
    // The revision has been written by a replication. The edit only adds its parent.
    await store.edit(interactive("c", revisionOf(first), { body: '"6"' }));
    expect(seen).toEqual(['after: "6"']);
  });

  test("a hook is called once for all writes of a batch, and receives the index set", async () => {
    const reported: { readonly ids: readonly string[]; readonly hasIndexes: boolean }[] = [];
    const store = await openStore({
      hooks: [
        {
          appliesTo: () => true,
          afterBatch: async (tx, database, { ids, indexSet }) => {
            reported.push({ ids: ids.toSorted(), hasIndexes: indexSet !== 0 });
            expect(await database.indexSet(tx)).toBe(indexSet);
            const winners = await database.documents.winners(tx, [...ids, "unknown"]);
            expect(winners.map((winner) => winner?.id)).toEqual([...ids, undefined]);
          },
        },
      ],
    });
    const outcomes = await store.edit(
      interactive("a"),
      interactive("b"),
      interactive("a", "1-unknown"),
      interactive("_local/x"),
    );
    await store.edit(interactive("a"), interactive("_local/x"));
    await store.write((tx, database) => database.changeIndexSet(tx, false));
    await store.edit(interactive("c"));
    const revisions = outcomes.slice(1, 2).map(revisionOf);
    await store.edit(interactive("b", revisions[0], { body: '{"n":1}' }));
    expect(reported).toEqual([
      { ids: ["a", "b"], hasIndexes: false },
      { ids: ["c"], hasIndexes: true },
      { ids: ["b"], hasIndexes: true },
    ]);
  });

  test("a change of the index set conflicts with a write that began before it", async () => {
    const store = await openStore();
    let attemptCount = 0;
    await store.write(async (tx, database) => {
      await database.write(tx, interactive("a"), CONTEXT);
      if (attemptCount++ === 0) {
        await store.write((other, same) => same.changeIndexSet(other, false));
      }
    });
    expect(attemptCount).toBe(2);
    const set = await store.read((tx, database) => database.indexSet(tx));
    expect(set).toBeGreaterThan(0);
    await store.write((tx, database) => database.changeIndexSet(tx, true));
    expect(await store.read((tx, database) => database.indexSet(tx))).toBe(0);
  });
});
