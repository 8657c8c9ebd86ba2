import { describe, expect, test } from "vitest";
import { CONTEXT, interactive, openStore, replicated, revisionOf } from "./store.fixture.ts";

describe("interactive edits", () => {
  test("a document is created, updated and deleted", async () => {
    const store = await openStore();
    const [created] = await store.edit(interactive("a", undefined, { body: '{"n":1}' }));
    const first = revisionOf(created);
    expect(first).toMatch(/^1-[0-9a-f]{32}$/);
    const second = revisionOf((await store.edit(interactive("a", first, { body: '{"n":2}' })))[0]);
    const document = await store.read((tx, database) => database.read(tx, "a"));
    expect(document).toMatchObject({ revision: second, deleted: false, body: '{"n":2}' });
    expect(document?.revisions).toEqual({ start: 2, hashes: [second.slice(2), first.slice(2)] });
    const [deletion] = await store.edit(interactive("a", second, { deleted: true }));
    expect(revisionOf(deletion)).toMatch(/^3-/);
    const winner = await store.read((tx, database) => database.read(tx, "a"));
    expect(winner).toMatchObject({ deleted: true, revision: revisionOf(deletion) });
    const info = await store.read((tx, database) => database.info(tx));
    expect(info).toMatchObject({ documentCount: 0, deletedDocumentCount: 1 });
    expect(info.sizes.external).toBe(2);
  });

  test("an edit conflicts unless it follows a leaf", async () => {
    const store = await openStore();
    const first = revisionOf((await store.edit(interactive("a")))[0]);
    const conflict = { kind: "conflict", id: "a" };
    expect(await store.edit(interactive("a"))).toEqual([conflict]);
    expect(await store.edit(interactive("a", "1-abc"))).toEqual([conflict]);
    expect(await store.edit(interactive("b", "1-abc"))).toEqual([{ kind: "conflict", id: "b" }]);
    await store.edit(interactive("a", first));
    expect(await store.edit(interactive("a", first))).toEqual([conflict]);
  });

  test("a deleted document is created anew on top of its past", async () => {
    const store = await openStore();
    const first = revisionOf((await store.edit(interactive("a")))[0]);
    const second = revisionOf((await store.edit(interactive("a", first, { deleted: true })))[0]);
    const third = revisionOf((await store.edit(interactive("a", undefined)))[0]);
    expect(third).toMatch(/^3-/);
    const statuses = await store.read((tx, database) => database.revisionStatuses(tx, "a", third));
    expect(statuses).toEqual([
      { revision: third, status: "available" },
      { revision: second, status: "missing" },
      { revision: first, status: "missing" },
    ]);
  });

  test("the second of two edits of a document in a batch sees the first", async () => {
    const store = await openStore();
    const outcomes = await store.edit(interactive("a"), interactive("b"), interactive("a"));
    expect(outcomes.map(({ kind }) => kind)).toEqual(["written", "written", "conflict"]);
    const path = ["2-y", "1-x"];
    const both = await store.edit(replicated("c", ["1-x"]), replicated("c", path));
    expect(both.map(({ kind }) => kind)).toEqual(["written", "written"]);
    const page = await store.read((tx, database) => database.changes(tx, {}));
    expect(page.entries.map(({ id }) => id).sort()).toEqual(["a", "b", "c"]);
    expect(page.entries.find(({ id }) => id === "c")?.winner).toBe("2-y");
    expect(await store.read((tx, database) => database.pendingChanges(tx, "0"))).toBe(3);
  });

  test("a document written twice in one transaction can be read in between", async () => {
    const store = await openStore();
    await store.write(async (tx, database) => {
      const first = await database.write(
        tx,
        interactive("a", undefined, { body: '{"n":1}' }),
        CONTEXT,
      );
      expect((await database.read(tx, "a"))?.body).toBe('{"n":1}');
      const edit = interactive("a", revisionOf(first), { body: '{"n":2}' });
      expect((await database.write(tx, edit, CONTEXT)).kind).toBe("written");
    });
    const document = await store.read((tx, database) => database.read(tx, "a"));
    expect(document?.body).toBe('{"n":2}');
    const info = await store.read((tx, database) => database.info(tx));
    expect(info).toMatchObject({ documentCount: 1 });
    const page = await store.read((tx, database) => database.changes(tx, {}));
    expect(page.entries).toHaveLength(1);
  });
});
