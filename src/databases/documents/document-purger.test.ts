import { describe, expect, test } from "vitest";
import { KeyValueError } from "../../kv/index.ts";
import { AttachmentStore } from "../attachments/attachment-store.ts";
import type { Document } from "../document.ts";
import type { DatabaseHook } from "../hooks.ts";
import {
  CONTEXT,
  interactive,
  type OpenStore,
  openStore,
  replicated,
  revisionOf,
} from "../store.fixture.ts";
import type { Purge } from "./document-purger.ts";
import { PurgeSize } from "./purge-size.ts";

const purge = (store: OpenStore, id: string, ...revisions: string[]) =>
  store.write((tx, database) => database.purge(tx, [{ id, revisions }], CONTEXT));

const purgedOf = async (...args: Parameters<typeof purge>) => (await purge(...args)).purged;

const updateSequence = (store: OpenStore) =>
  store.read((tx, database) => database.changes.lastSequence(tx));

const versionOf = (sequence: string) => Number.parseInt(sequence, 10);

describe("a purge", () => {
  test("removes all traces of a document", async () => {
    const store = await openStore();
    const [written] = await store.edit(interactive("a"));
    const revision = revisionOf(written);
    expect(await purgedOf(store, "a", revision)).toEqual([{ id: "a", revisions: [revision] }]);
    await store.read(async (tx, database) => {
      expect(await database.documents.leaves(tx, "a")).toEqual([]);
      expect((await database.changes.page(tx, {})).entries).toEqual([]);
      expect(await database.info(tx)).toMatchObject({
        documentCount: 0,
        deletedDocumentCount: 0,
        purgeCount: 1,
        sizes: { external: 0, active: 0 },
      });
    });
    // The document can be created again with a first revision, without a conflict.
    const [again] = await store.edit(interactive("a"));
    expect(revisionOf(again)).toMatch(/^1-/);
  });

  test("keeps the remaining leaves of a document, at a new sequence", async () => {
    const store = await openStore();
    await store.edit(replicated("a", ["2-x", "1-r"]), replicated("a", ["2-y", "1-r"]));
    await store.edit(interactive("b"));
    await purge(store, "a", "2-y");
    await store.read(async (tx, database) => {
      const { entries } = await database.changes.page(tx, {});
      expect(entries.map(({ id, winner }) => [id, winner])).toEqual([
        ["b", expect.stringMatching(/^1-/)],
        ["a", "2-x"],
      ]);
      const [left] = await database.documents.readLeaves(tx, "a");
      expect(left?.revisions).toEqual({ start: 2, hashes: ["x", "r"] });
    });
  });

  test("removes nothing for an ancestor or an unknown revision, but records the purge", async () => {
    const store = await openStore();
    await store.edit(replicated("a", ["2-x", "1-r"]));
    expect(await purgedOf(store, "a", "9-z", "1-r")).toEqual([{ id: "a", revisions: [] }]);
    expect(await store.read((tx, database) => database.purges.infos(tx))).toEqual([
      { id: "a", revisions: ["1-r", "9-z"] },
    ]);
    expect(await store.read((tx, database) => database.documents.leaves(tx, "a"))).toHaveLength(1);
  });

  test("never moves the update sequence back", async () => {
    const store = await openStore();
    const [written] = await store.edit(interactive("a"));
    const before = await updateSequence(store);
    await purge(store, "a", revisionOf(written));
    const after = await updateSequence(store);
    expect(versionOf(after)).toBeGreaterThan(versionOf(before));
    const behind = await store.read((tx, database) => database.changes.pendingCount(tx, after));
    expect(behind).toBe(0);
  });

  test("releases the bytes of attachments, which are then reclaimed", async () => {
    const store = await openStore();
    const attachments = new AttachmentStore(store);
    const database = await store.read(async (_, opened) => opened);
    const content = await attachments.stage(database, bytes("poster"), {});
    const [written] = await store.edit({
      ...interactive("a"),
      attachments: [{ kind: "staged", name: "p", contentType: "image/png", content }],
    });
    await purge(store, "a", revisionOf(written));
    const { begin, end } = database.keys.contentChunk.range();
    const chunkCount = () =>
      store.kv.read(async (tx) => (await tx.getRangePage({ begin, end })).entries.length);
    expect(await chunkCount()).toBe(1);
    expect(await attachments.reclaim(database, { ageMs: -1 })).toEqual({ contentCount: 1 });
    expect(await chunkCount()).toBe(0);
  });

  test("takes several transactions for large leaves, and none of these leaves becomes the winner in between", async () => {
    const store = await openStore({ keepOldBodiesMs: () => 0 });
    const attachments = new AttachmentStore(store);
    const database = await store.read(async (_, opened) => opened);
    const content = await attachments.stage(database, bytes("poster"), {});
    const named = (count: number) =>
      Array.from({ length: count }, (_, n) => {
        return { kind: "staged", name: `p${n}`, contentType: "image/png", content } as const;
      });
    const hashes = ["a", "b", "c", "d", "e", "f"];
    for (const hash of hashes) {
      const revisions = [`2-${hash}`, "1-r"];
      await store.edit({ ...replicated("x", revisions), attachments: named(200) });
    }
    await store.edit(replicated("x", ["2-0", "1-r"]), replicated("y", ["1-z"]));
    let asked: readonly Purge[] = [
      { id: "x", revisions: ["1-r", ...hashes.map((hash) => `2-${hash}`)] },
      { id: "y", revisions: ["1-z"] },
    ];
    const pages: unknown[] = [];
    while (asked.length > 0) {
      const purges = asked;
      const page = await store.write((tx, opened) => opened.purge(tx, purges, CONTEXT));
      const winner = (await store.read((tx, opened) => opened.documents.read(tx, "x")))?.revision;
      pages.push({ purged: page.purged, winner });
      expect((await store.read((tx, opened) => opened.info(tx))).documentCount).toBe(
        page.rest.length > 0 ? 2 : 1,
      );
      asked = page.rest;
    }
    expect(pages).toEqual([
      { purged: [{ id: "x", revisions: ["2-a", "2-b"] }], winner: "2-f" },
      { purged: [{ id: "x", revisions: ["2-c", "2-d"] }], winner: "2-f" },
      {
        purged: [
          { id: "x", revisions: ["2-e", "2-f"] },
          { id: "y", revisions: ["1-z"] },
        ],
        winner: "2-0",
      },
    ]);
    const infos = await store.read((tx, opened) => opened.purges.infos(tx));
    expect(infos.flatMap(({ revisions }) => revisions)).toHaveLength(hashes.length + 2);
  });

  test("takes at most as many documents and revisions as its size permits", async () => {
    const store = await openStore();
    const hashes = ["x", "y", "z"];
    await store.edit(...hashes.map((hash) => replicated("a", [`1-${hash}`])));
    const size = new PurgeSize();
    const tooLarge = new KeyValueError("KV_TOO_LARGE");
    while (size.revisionCountMax > 2) expect(size.halveAfter(tooLarge)).toBe(true);
    const page = (...asked: Purge[]) =>
      store.write((tx, database) => database.purge(tx, asked, CONTEXT, size));
    const all = { id: "a", revisions: ["1-x", "1-y", "1-z", "9-q"] };
    const others = { id: "b", revisions: ["1-b"] };
    const first = await page(all, others);
    // The revision that is not a leaf, and the leaf that loses to all others.
    expect(first.purged).toEqual([{ id: "a", revisions: ["1-x"] }]);
    expect(first.rest).toEqual([{ id: "a", revisions: ["1-y", "1-z"] }, others]);
    const second = await page(...first.rest);
    expect(second).toEqual({ purged: [{ id: "a", revisions: ["1-y", "1-z"] }], rest: [others] });
    expect(size.halveAfter(new KeyValueError("KV_CONFLICT"))).toBe(false);
    expect(size.halveAfter(tooLarge)).toBe(true);
    expect(size.halveAfter(tooLarge)).toBe(false);
  });

  test("is reported to hooks as a deletion of purged documents, and as a write of remaining documents", async () => {
    const reported: Pick<Document, "id" | "revision" | "deleted">[] = [];
    const hook: DatabaseHook = {
      appliesTo: () => true,
      afterWrite: async (_tx, _database, { id, revision, deleted }) => {
        reported.push({ id, revision, deleted });
      },
    };
    const store = await openStore({ hooks: [hook] });
    await store.edit(replicated("a", ["2-x", "1-r"]), replicated("a", ["2-y", "1-r"]));
    reported.length = 0;
    await purge(store, "a", "2-y");
    await purge(store, "a", "2-x");
    expect(reported).toEqual([
      { id: "a", revision: "2-x", deleted: false },
      { id: "a", revision: "2-x", deleted: true },
    ]);
  });

  test("drops the oldest purge records, but counts all purges", async () => {
    const store = await openStore();
    await store.write((tx, database) => database.purges.setInfosLimit(tx, 2));
    for (const id of ["a", "b", "c"]) await purge(store, id, "1-x");
    await store.read(async (tx, database) => {
      expect((await database.purges.infos(tx)).map(({ id }) => id)).toEqual(["b", "c"]);
      expect((await database.info(tx)).purgeCount).toBe(3);
    });
  });

  test("wakes clients waiting for a change", async () => {
    const store = await openStore();
    const [written] = await store.edit(interactive("a"));
    const watch = await store.write(async (tx, database) => database.changes.watch(tx));
    const woken = watch.fired(AbortSignal.timeout(5_000));
    await purge(store, "a", revisionOf(written));
    await woken;
  });
});

async function* bytes(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
