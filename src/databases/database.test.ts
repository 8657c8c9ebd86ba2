import { describe, expect, test, vi } from "vitest";
import { countKeys } from "../../test/support/kv/counting-engine.ts";
import { type Runtime, Utf8Text, utf8Encode } from "../base/index.ts";
import { createSystemRuntime } from "../host/index.ts";
import type { DocumentEdit } from "./document.ts";
import type { AllDocumentsOptions } from "./documents/all-documents.ts";
import type { LocalDocumentsOptions } from "./documents/local-documents.ts";
import { newRevisionHash } from "./documents/new-revision.ts";
import type { DatabaseHook } from "./hooks.ts";
import { SECURITY_ADMIN_ONLY } from "./security/security.ts";
import {
  CONTEXT,
  interactive,
  type OpenStore,
  openStore,
  replicated,
  revisionOf,
} from "./store.fixture.ts";

describe("interactive edits", () => {
  test("a document is created, updated and deleted", async () => {
    const store = await openStore();
    const [created] = await store.edit(interactive("a", undefined, { body: '{"n":1}' }));
    const first = revisionOf(created);
    expect(first).toMatch(/^1-[0-9a-f]{32}$/);
    const second = revisionOf((await store.edit(interactive("a", first, { body: '{"n":2}' })))[0]);
    const document = await store.read((tx, database) => database.documents.read(tx, "a"));
    expect(document).toMatchObject({ revision: second, deleted: false });
    expect(document?.body.text).toBe('{"n":2}');
    expect(document?.revisions).toEqual({ start: 2, hashes: [second.slice(2), first.slice(2)] });
    const [deletion] = await store.edit(interactive("a", second, { deleted: true }));
    expect(revisionOf(deletion)).toMatch(/^3-/);
    const winner = await store.read((tx, database) => database.documents.read(tx, "a"));
    expect(winner).toMatchObject({ deleted: true, revision: revisionOf(deletion) });
    const info = await store.read((tx, database) => database.info(tx));
    expect(info).toMatchObject({ documentCount: 0, deletedDocumentCount: 1 });
    expect(info.sizes.external).toBe(2);
  });

  test("the changes feed of a database that contains only a deleted document is not empty", async () => {
    const store = await openStore();
    const isEmpty = () =>
      store.read(async (tx, database) => (await database.changes.end(tx)).isEmpty);
    expect(await isEmpty()).toBe(true);
    const revision = revisionOf((await store.edit(interactive("a")))[0]);
    expect(await isEmpty()).toBe(false);
    await store.edit(interactive("a", revision, { deleted: true }));
    expect(await isEmpty()).toBe(false);
  });

  test("an edit conflicts unless it follows a leaf", async () => {
    const store = await openStore();
    const first = revisionOf((await store.edit(interactive("a")))[0]);
    const conflict = { kind: "conflict", id: "a" };
    expect(await store.edit(interactive("a"))).toEqual([conflict]);
    expect(await store.edit(interactive("a", "1-abc"))).toEqual([conflict]);
    await store.edit(interactive("a", first));
    expect(await store.edit(interactive("a", first))).toEqual([conflict]);
  });

  test("an edit that names a revision of a missing document is a conflict, and stores nothing", async () => {
    const store = await openStore();
    const conflict = { kind: "conflict", id: "a" };
    const outcomes = await store.edit(interactive("a", "3-abc"), interactive("a", "3-abc"));
    expect(outcomes).toEqual([conflict, conflict]);
    expect(await store.edit(interactive("a", "3-abc", { deleted: true }))).toEqual([conflict]);
    expect(await store.read((tx, database) => database.documents.leaves(tx, "a"))).toEqual([]);
    expect(await store.edit(interactive("a"))).toMatchObject([
      { kind: "written", revision: expect.stringMatching(/^1-/) },
    ]);
  });

  test("an edit of a deleted leaf is accepted only if the document has a leaf that is not deleted", async () => {
    const store = await openStore();
    await store.edit(replicated("a", ["2-gone", "1-a"], { deleted: true }));
    const conflict = [{ kind: "conflict", id: "a" }];
    expect(await store.edit(interactive("a", "2-gone"))).toEqual(conflict);
    expect(await store.edit(interactive("a", "2-gone", { deleted: true }))).toEqual(conflict);
    await store.edit(replicated("a", ["2-here", "1-a"]));
    expect(await store.edit(interactive("a", "2-gone"))).toMatchObject([{ kind: "written" }]);
  });

  test("a deleted document is re-created on top of its history", async () => {
    const store = await openStore();
    const first = revisionOf((await store.edit(interactive("a")))[0]);
    const second = revisionOf((await store.edit(interactive("a", first, { deleted: true })))[0]);
    const third = revisionOf((await store.edit(interactive("a", undefined)))[0]);
    expect(third).toMatch(/^3-/);
    const statuses = await store.read((tx, database) =>
      database.documents.revisionStatuses(tx, "a", third),
    );
    expect(statuses).toEqual([
      { revision: third, status: "available" },
      { revision: second, status: "missing" },
      { revision: first, status: "missing" },
    ]);
  });

  test("the second edit of a document in a batch is checked against the result of the first", async () => {
    const store = await openStore();
    const outcomes = await store.edit(interactive("a"), interactive("b"), interactive("a"));
    expect(outcomes.map(({ kind }) => kind)).toEqual(["written", "written", "conflict"]);
    const path = ["2-y", "1-x"];
    const both = await store.edit(replicated("c", ["1-x"]), replicated("c", path));
    expect(both.map(({ kind }) => kind)).toEqual(["written", "written"]);
    const page = await store.read((tx, database) => database.changes.page(tx, {}));
    expect(page.entries.map(({ id }) => id).sort()).toEqual(["a", "b", "c"]);
    expect(page.entries.find(({ id }) => id === "c")?.winner).toBe("2-y");
    expect(await store.read((tx, database) => database.changes.pendingCount(tx, "0"))).toBe(3);
  });

  test("a document written twice in one transaction can be read in between", async () => {
    const store = await openStore();
    await store.write(async (tx, database) => {
      const first = await database.write(
        tx,
        interactive("a", undefined, { body: '{"n":1}' }),
        CONTEXT,
      );
      expect((await database.documents.read(tx, "a"))?.body.text).toBe('{"n":1}');
      const edit = interactive("a", revisionOf(first), { body: '{"n":2}' });
      expect((await database.write(tx, edit, CONTEXT)).kind).toBe("written");
    });
    const document = await store.read((tx, database) => database.documents.read(tx, "a"));
    expect(document?.body.text).toBe('{"n":2}');
    const info = await store.read((tx, database) => database.info(tx));
    expect(info).toMatchObject({ documentCount: 1 });
    const page = await store.read((tx, database) => database.changes.page(tx, {}));
    expect(page.entries).toHaveLength(1);
  });
});

test("documents can be written concurrently in one transaction", async () => {
  const store = await openStore();
  const outcomes = await store.write((tx, database) =>
    Promise.all(
      ["a", "b", "a", "a"].map((id, n) =>
        database.write(tx, interactive(id, undefined, { body: `{"n":${n}}` }), CONTEXT),
      ),
    ),
  );
  expect(outcomes.map(({ kind }) => kind)).toEqual(["written", "written", "conflict", "conflict"]);
  const path = ["3-c", "2-b", "1-a"];
  await store.write((tx, database) =>
    Promise.all(
      [2, 0, 1].map((from) => database.write(tx, replicated("c", path.slice(from)), CONTEXT)),
    ),
  );
  const leaves = await store.read((tx, database) => database.documents.leaves(tx, "c"));
  expect(leaves.map(({ revision }) => revision)).toEqual(["3-c"]);
  const info = await store.read((tx, database) => database.info(tx));
  expect(info).toMatchObject({ documentCount: 3, sizes: { external: 16 } });
});

describe("new revisions", () => {
  const { digests } = createSystemRuntime();
  const attachment = {
    name: "x",
    contentType: "text/plain",
    revisionPosition: 1,
    digest: "md5-XUFAKrxLKna5cZ2REBfFkg==",
    length: 5,
    encoding: undefined,
    encodedLength: 5,
    contentId: "00".repeat(16),
  };

  // Stored revisions and other nodes depend on these revision names. Changing an expected name
  // changes the protocol between nodes.
  test.each([
    [
      { deleted: false, parent: undefined, body: utf8Encode("{}"), attachments: [] },
      "5b3f680fbade19f08dcd1fefa566aaff",
    ],
    [
      {
        deleted: true,
        parent: { generation: 2, hash: "917fa2381192822767f010b95b45325b" },
        body: utf8Encode('{"n":1.0,"é":12345678901234567890}'),
        attachments: [],
      },
      "a4ab13fc20643257eb5248fa433e47cb",
    ],
    [
      { deleted: false, parent: undefined, body: utf8Encode("{}"), attachments: [attachment] },
      "d4915ccba823b8a5ed0e0cf3d6dc6684",
    ],
  ])("the revision name is a hash of the content: %#", (revision, hash) => {
    expect(newRevisionHash(digests, revision)).toBe(hash);
  });

  // Longer bodies are hashed without a copy.
  test.each([
    [16_384, "b0e0bd927bbf9fbf7d380c6d5336f2f3"],
    [16_385, "e38c87c08b1c08857970dad46249eb92"],
    [200_000, "af06d1724edcbca822705f9c148a6264"],
  ])("a body of %i bytes is hashed to the expected revision name", (byteCount, hash) => {
    const body = utf8Encode(`{"n":"${"x".repeat(byteCount - 8)}"}`);
    const parent = { generation: 2, hash: "917fa2381192822767f010b95b45325b" };
    const revision = { deleted: true, parent, body, attachments: [attachment] };
    expect(newRevisionHash(digests, revision)).toBe(hash);
  });

  test("the revision name depends on every part of the content", () => {
    const base = {
      deleted: false,
      parent: undefined,
      body: utf8Encode("{}"),
      attachments: [attachment],
    };
    const variants = [
      base,
      { ...base, deleted: true },
      { ...base, body: utf8Encode("{ }") },
      { ...base, parent: { generation: 1, hash: "a" } },
      { ...base, attachments: [] },
      { ...base, attachments: [{ ...attachment, name: "y" }] },
      { ...base, attachments: [{ ...attachment, contentType: "text/html" }] },
      { ...base, attachments: [{ ...attachment, encoding: "gzip" as const }] },
      { ...base, attachments: [{ ...attachment, digest: "md5-AAAAAAAAAAAAAAAAAAAAAA==" }] },
    ];
    const hashes = new Set(variants.map((variant) => newRevisionHash(digests, variant)));
    expect(hashes.size).toBe(variants.length);
    const elsewhere = { ...attachment, contentId: "11".repeat(16), revisionPosition: 7 };
    expect(newRevisionHash(digests, { ...base, attachments: [elsewhere] })).toBe(
      newRevisionHash(digests, base),
    );
  });

  test("two nodes that make the same edit create the same revision, and recognize it when replicated", async () => {
    const [here, there] = [await openStore(), await openStore()];
    const first = revisionOf(
      (await here.edit(interactive("a", undefined, { body: '{"n":1}' })))[0],
    );
    expect(await there.edit(replicated("a", [first], { body: '{"n":1}' }))).toMatchObject([
      { kind: "written" },
    ]);
    const update = interactive("a", first, { body: '{"n":2}' });
    const second = revisionOf((await here.edit(update))[0]);
    expect(revisionOf((await there.edit(update))[0])).toBe(second);
    expect(await there.edit(replicated("a", [second, first]))).toMatchObject([{ kind: "known" }]);
  });
});

describe("replicated edits", () => {
  test("the winner is undeleted, has the longest history and, among equals, the largest hash", async () => {
    const store = await openStore();
    await store.edit(
      replicated("a", ["2-b", "1-a"]),
      replicated("a", ["2-c", "1-a"]),
      replicated("a", ["3-z", "2-y", "1-a"], { deleted: true }),
    );
    const leaves = await store.read((tx, database) => database.documents.leaves(tx, "a"));
    expect(leaves.map(({ revision }) => revision)).toEqual(["2-c", "2-b", "3-z"]);
    const latest = await store.read((tx, database) =>
      database.documents.readRevision(tx, "a", "1-a", { latest: true }),
    );
    expect(latest.map(({ revision }) => revision)).toEqual(["2-c", "2-b", "3-z"]);
    const gone = await store.read((tx, database) =>
      database.documents.readRevision(tx, "a", "1-a"),
    );
    expect(gone).toEqual([]);
  });

  test("missing revisions and their possible ancestors are reported", async () => {
    const store = await openStore();
    await store.edit(replicated("a", ["3-c", "2-b", "1-a"]), replicated("a", ["2-x", "1-a"]));
    const ask = async (id: string, revisions: string[]) => {
      const asked = [[id, revisions] as const];
      const answers = await store.read((tx, database) =>
        database.documents.missingRevisions(tx, asked),
      );
      return answers[0];
    };
    expect(await ask("a", ["2-b", "3-c"])).toEqual({ missing: [], possibleAncestors: [] });
    expect(await ask("a", ["4-d", "2-b"])).toEqual({
      missing: ["4-d"],
      possibleAncestors: ["3-c", "2-x"],
    });
    expect(await ask("a", ["3-d"])).toEqual({ missing: ["3-d"], possibleAncestors: ["2-x"] });
    expect(await ask("b", ["1-a"])).toEqual({ missing: ["1-a"], possibleAncestors: [] });
  });

  test("bodies are returned as they were stored, whatever they contain", async () => {
    const store = await openStore();
    const body =
      '{"n":12345678901234567890, "f":1.0,"e":1e2,"z":-0,"d":0.1000,"o":{"__proto__":1,"constructor":2},"t":"\\u00e9é\\ud800"}';
    await store.edit(replicated("a", ["1-a"], { body }));
    expect((await store.read((tx, database) => database.documents.read(tx, "a")))?.body.text).toBe(
      body,
    );
  });

  test("revisions with generation 0 or without a hash are stored, as in CouchDB", async () => {
    const store = await openStore();
    const paths = [["1-"], ["9999-"], ["0-a"], ["0-"], ["2-x", "1-", "0-r"], ["2-y", "1-"]];
    for (const [index, path] of paths.entries()) {
      const id = String(index);
      expect(await store.edit(replicated(id, path))).toMatchObject([{ revision: path[0] }]);
      expect(await store.edit(replicated(id, path))).toMatchObject([{ kind: "known" }]);
      const document = await store.read((tx, database) => database.documents.read(tx, id));
      expect(document?.revision).toBe(path[0]);
      const { start = -1, hashes = [] } = document?.revisions ?? {};
      expect(hashes.map((hash, depth) => `${start - depth}-${hash}`)).toEqual(path);
      const next = await store.edit(interactive(id, path[0]));
      expect(next).toMatchObject([
        { kind: "written", revision: expect.stringMatching(`^${start + 1}-`) },
      ]);
    }
    await store.edit(replicated("4", ["2-z", "1-"]));
    const feed = await store.read((tx, database) => database.changes.page(tx, {}));
    expect(feed.entries.at(-1)?.id).toBe("4");
  });

  test("invalid revisions are refused", async () => {
    const store = await openStore();
    const invalid = { code: "STORE_REVISION_INVALID" };
    await expect(store.edit(replicated("a", ["0-a", "-1-b"]))).rejects.toMatchObject(invalid);
    await expect(store.edit(interactive("a", "abc"))).rejects.toMatchObject(invalid);
    await expect(store.edit(interactive("a", "-1-abc"))).rejects.toMatchObject(invalid);
  });

  test("ancestors beyond the revision limit are dropped", async () => {
    const store = await openStore();
    await store.write((tx, database) => database.setRevisionLimit(tx, 3));
    expect(await store.read((tx, database) => database.revisionLimit(tx))).toBe(3);
    const path = Array.from({ length: 10 }, (_, index) => `${10 - index}-r`);
    expect((await store.edit(replicated("a", path)))[0]?.kind).toBe("written");
    const document = await store.read((tx, database) => database.documents.read(tx, "a"));
    expect(document?.revisions).toEqual({ start: 10, hashes: ["r", "r", "r"] });
    expect((await store.edit(replicated("a", path)))[0]?.kind).toBe("known");
    expect((await store.edit(replicated("a", path.slice(1))))[0]?.kind).toBe("known");
    await expect(
      store.write((tx, database) => database.setRevisionLimit(tx, 0)),
    ).rejects.toMatchObject({ code: "STORE_REVISION_LIMIT_INVALID" });
  });

  test("long histories of many branches are stored in chunks", async () => {
    const store = await openStore();
    const hash = (text: string) => text.padEnd(32, "0");
    const trunk = (letter: string) =>
      Array.from(
        { length: 1000 },
        (_, index) => `${1000 - index}-${hash(letter + index.toString(16))}`,
      );
    for (const letter of "abcdefgh") {
      expect((await store.edit(replicated("doc", trunk(letter))))[0]?.kind).toBe("written");
    }
    const document = await store.read((tx, database) => database.documents.readLeaves(tx, "doc"));
    expect(document.map(({ revisions }) => revisions.hashes.length)).toEqual(
      new Array(8).fill(1000),
    );
    await store.write((tx, database) => database.setRevisionLimit(tx, 5));
    await store.edit(replicated("doc", [`1001-${hash("a")}`, ...trunk("a")]));
    const stemmed = await store.read((tx, database) => database.documents.readLeaves(tx, "doc"));
    expect(stemmed.map(({ revisions }) => revisions.hashes.length)).toEqual(new Array(8).fill(5));
  });

  test("a record of several chunks is one row of the list, and moves as a whole when its document is deleted, re-created or purged", async () => {
    const store = await openStore();
    // Foreign hashes, which are stored as text.
    const branches = "abcdefgh".split("").map((letter) => {
      return Array.from({ length: 500 }, (_, at) => `${500 - at}-${letter}${at}`.padEnd(60, "x"));
    });
    await store.edit(interactive("a"), interactive("z"));
    for (const branch of branches) await store.edit(replicated("doc", branch));
    const list = async (options: AllDocumentsOptions) => {
      const page = await store.read((tx, database) => database.allDocuments.page(tx, options));
      return page.entries.map(({ id }) => id);
    };
    const rowCounts = () =>
      store.read((tx, { keys }) =>
        Promise.all(
          [keys.document, keys.tombstone].map(async (rows) => {
            return (await tx.getRangePage(rows.range())).entries.length;
          }),
        ),
      );
    expect(await rowCounts()).toEqual([5, 0]);
    expect(await list({ limit: 2 })).toEqual(["a", "doc"]);
    expect(await list({ limit: 3 })).toEqual(["a", "doc", "z"]);
    expect(await list({ descending: true, limit: 2 })).toEqual(["z", "doc"]);
    expect(await list({ startId: "doc", endId: "doc" })).toEqual(["doc"]);
    for (const [tip] of branches) {
      await store.edit(interactive("doc", tip, { deleted: true }));
    }
    expect(await rowCounts()).toEqual([2, 3]);
    expect(await list({})).toEqual(["a", "z"]);
    await store.edit(interactive("doc"));
    expect(await rowCounts()).toEqual([5, 0]);
    const leaves = await store.read((tx, database) => database.documents.leaves(tx, "doc"));
    const revisions = leaves.map(({ revision }) => revision);
    await store.write((tx, database) => database.purge(tx, [{ id: "doc", revisions }], CONTEXT));
    expect(await rowCounts()).toEqual([2, 0]);
  });

  test("a page of changes ends when it has loaded ten documents with hundreds of conflicts", async () => {
    const store = await openStore();
    const ids = Array.from({ length: 12 }, (_, index) => `d${index}`);
    for (const id of ids) {
      const edits = Array.from({ length: 101 }, (_, leaf) => replicated(id, [`1-${leaf}`]));
      await store.edit(...edits);
    }
    const page = (since: string) =>
      store.read((tx, database) => database.changes.page(tx, { since }));
    const first = await page("0");
    const second = await page(first.entries.at(-1)?.sequence ?? "");
    expect([first, second].map(({ entries }) => entries.length)).toEqual([10, 2]);
    expect([first.stoppedBy, second.stoppedBy]).toEqual(["row-limit", "exhausted"]);
  });

  test("several revisions of one document are read with one load of the document", async () => {
    const store = await openStore();
    const revisions = Array.from({ length: 20 }, (_, leaf) => `1-${leaf}`);
    await store.edit(...revisions.map((revision) => replicated("a", [revision])));
    const counts = { readCount: 0, writtenCount: 0 };
    await store.write(async (tx, database) => {
      countKeys(tx, counts);
      const wanted = revisions.map((revision) => ({ id: "a", revision }));
      const found = await database.documents.readRevisions(tx, wanted);
      expect(found.flat().map(({ revision }) => revision)).toEqual(revisions);
    });
    // The document, and the bodies of all leaves but one, which is stored with the document.
    expect(counts.readCount).toBeLessThanOrEqual(1 + revisions.length);
  });

  test("a document with hundreds of conflicts shows all of them in the feed", async () => {
    const store = await openStore();
    const edits = Array.from({ length: 210 }, (_, index) => replicated("a", [`1-${index}`]));
    await store.edit(...edits);
    const page = await store.read((tx, database) => database.changes.page(tx, {}));
    expect(page.entries[0]?.leaves).toHaveLength(210);
  });

  test("a search for conflicts loads at most 50 documents in a transaction", async () => {
    const store = await openStore();
    const ids = Array.from({ length: 120 }, (_, index) => `doc-${index}`);
    await store.edit(...ids.flatMap((id) => [replicated(id, ["1-a"]), replicated(id, ["1-b"])]));
    const found = (): Promise<number> =>
      store.read(async (tx, { conflicts }) => {
        return (await conflicts.page(tx, { limit: 1_000 })).entries.length;
      });
    await store.write(async (tx, { keys }) => {
      tx.clearRange(keys.conflict.range());
      tx.clear(keys.conflictSearch.key({}));
    });
    const search = (): Promise<boolean> => store.write((tx, { conflicts }) => conflicts.search(tx));
    const steps: [isLast: boolean, found: number][] = [];
    do steps.push([await search(), await found()]);
    while (steps.at(-1)?.[0] === false);
    expect(steps).toEqual([
      [false, 50],
      [false, 100],
      [true, 120],
    ]);
  });
});

describe("documents", () => {
  const openSealing = async (seal: () => DatabaseHook["seal"], isFormat3 = true) => {
    const store = await openStore({
      isFormat3: async () => isFormat3,
      hooks: [
        {
          appliesTo: () => true,
          get seal() {
            return seal();
          },
        },
      ],
    });
    const bodyRowCount = () =>
      store.read(async (tx, { keys }) => (await tx.getRangePage(keys.body.range())).entries.length);
    return { store, bodyRowCount };
  };

  test.each([
    { name: "a short body", length: 2_000, isFormat3: true, expected: 0 },
    { name: "a longer body", length: 3_000, isFormat3: true, expected: 1 },
    { name: "a body in a store of format 2", length: 2_000, isFormat3: false, expected: 1 },
  ])("$name needs $expected rows of its own", async ({ length, isFormat3, expected }) => {
    const { store, bodyRowCount } = await openSealing(() => undefined, isFormat3);
    const body = JSON.stringify({ text: "x".repeat(length) });
    await store.edit(interactive("a", undefined, { body }));
    expect(await bodyRowCount()).toBe(expected);
    expect((await store.read((tx, { documents }) => documents.read(tx, "a")))?.body.text).toBe(
      body,
    );
  });

  test("a batch writes the tree of a document once, however many of its leaves it contains", async () => {
    const store = await openStore();
    const edits = ["3-c", "2-e", "4-d"].map((leaf) => replicated("x", [leaf]));
    const treeCount = await store.write(async (tx, database) => {
      const set = vi.spyOn(tx, "setVersionstampedValue");
      const outcomes = await database.writeMany(tx, edits, CONTEXT);
      expect(outcomes.map(({ kind }) => kind)).toEqual(["written", "written", "written"]);
      const key = database.keys.document.key({ id: "x", chunk: 0 }).join();
      return set.mock.calls.filter(([each]) => each.join() === key).length;
    });
    expect(treeCount).toBe(1);
    const leaves = await store.read((tx, { documents }) => documents.readLeaves(tx, "x"));
    expect(leaves.map(({ revision }) => revision)).toEqual(["4-d", "3-c", "2-e"]);
  });

  test("a document record contains at most one body", async () => {
    const { store, bodyRowCount } = await openSealing(() => undefined);
    const bodyOf = (hash: string) => JSON.stringify({ hash });
    for (const hash of ["a", "c", "b"]) {
      await store.edit(replicated("x", [`1-${hash}`], { body: bodyOf(hash) }));
    }
    expect(await bodyRowCount()).toBe(2);
    const leaves = await store.read((tx, { documents }) => documents.readLeaves(tx, "x"));
    expect(leaves.map(({ body }) => body.text)).toEqual(["c", "b", "a"].map(bodyOf));
    await store.write((tx, database) =>
      database.purge(tx, [{ id: "x", revisions: ["1-a", "1-c"] }], CONTEXT),
    );
    const [left] = await store.read((tx, { documents }) => documents.readLeaves(tx, "x"));
    expect(left?.body.text).toBe(bodyOf("b"));
    expect(await bodyRowCount()).toBeLessThanOrEqual(1);
  });

  test("an empty body is not sealed", async () => {
    const { store, bodyRowCount } = await openSealing(() => ({
      seal: () => {
        throw new Error("sealed");
      },
      open: () => {
        throw new Error("opened");
      },
      isCurrent: () => false,
    }));
    await store.edit(interactive("a"));
    expect(await bodyRowCount()).toBe(0);
    const renewed = await store.write((tx, { bodyRenewal }) => bodyRenewal.renew(tx, "a", 0));
    expect(renewed).toEqual({ renewedCount: 0, nextLeaf: undefined });
    const read = await store.read((tx, { documents }) => documents.read(tx, "a"));
    expect(read?.body.text).toBe("{}");
  });

  test("the seal of a body that was stored unsealed moves it to a row of its own", async () => {
    let seal: DatabaseHook["seal"];
    const { store, bodyRowCount } = await openSealing(() => seal);
    const body = JSON.stringify({ secret: "x" });
    await store.edit(interactive("a", undefined, { body }));
    seal = {
      seal: (plain) => plain.map((byte) => byte ^ 0xff),
      open: (sealed) => sealed.map((byte) => byte ^ 0xff),
      isCurrent: () => true,
    };
    const renew = () => store.write((tx, { bodyRenewal }) => bodyRenewal.renew(tx, "a", 0));
    expect(await renew()).toEqual({ renewedCount: 1, nextLeaf: undefined });
    expect(await renew()).toEqual({ renewedCount: 0, nextLeaf: undefined });
    expect(await bodyRowCount()).toBe(1);
    const stored = await store.read((tx, { keys }) => tx.getRangePage(keys.everything));
    const text = utf8Encode("secret").join();
    expect(stored.entries.some(({ value }) => value.join().includes(text))).toBe(false);
    const read = await store.read((tx, { documents }) => documents.read(tx, "a"));
    expect(read?.body.text).toBe(body);
  });

  test("a page of documents ends when the bodies reach a limit, and has at least two rows", async () => {
    const store = await openStore();
    const body = (length: number) => JSON.stringify({ text: "x".repeat(length) });
    const lengths = [10, 10, 10, 1_500_000, 1_500_000, 5_000_000];
    await store.edit(
      ...lengths.map((length, at) => interactive(`d${at}`, undefined, { body: body(length) })),
    );
    const page = async (startId: string) => {
      const { entries, stoppedBy } = await store.read((tx, { allDocuments }) =>
        allDocuments.page(tx, { startId, withDocument: true }),
      );
      return [stoppedBy, ...entries.map(({ id }) => id)];
    };
    expect(await page("d0")).toEqual(["byte-limit", "d0", "d1", "d2", "d3", "d4"]);
    expect(await page("d4")).toEqual(["exhausted", "d4", "d5"]);
    await store.edit(interactive("d6"));
    expect(await page("d4")).toEqual(["byte-limit", "d4", "d5"]);
  });

  test("reads of several documents end when the bodies reach a limit, and return at least one", async () => {
    const store = await openStore();
    const sizes = { a: 10, b: 3_000_000, c: 3_000_000, d: 5_000_000 };
    const bodyOf = (size: number) => JSON.stringify({ text: "x".repeat(size) });
    const edits = Object.entries(sizes).map(([id, size]) =>
      replicated(id, ["1-a"], { body: bodyOf(size) }),
    );
    edits.push(replicated("c", ["1-b"], { body: bodyOf(3_000_000) }));
    for (const edit of edits) await store.edit(edit);
    const read = (ids: readonly string[]) =>
      store.read(async (tx, { documents }) => {
        const wanted = ids.map((id) => ({ id, revision: "1-a" }));
        return {
          winners: (await documents.pageOfWinners(tx, ids)).map((winner) => winner?.id),
          revisions: (await documents.readRevisions(tx, wanted)).map(([first]) => first?.id),
          leaves: (await documents.candidates(tx, ids, { allLeaves: true })).map(
            ({ length }) => length,
          ),
        };
      });
    expect(await read(["none", "a", "b", "c"])).toEqual({
      winners: [undefined, "a", "b"],
      revisions: [undefined, "a", "b"],
      leaves: [0, 1, 1],
    });
    expect(await read(["d", "a"])).toEqual({ winners: ["d"], revisions: ["d"], leaves: [1] });
    expect((await read(["c", "a"])).leaves).toEqual([2]);
    expect((await read(["a", "a", "b"])).winners).toEqual(["a", "a", "b"]);
  });

  test("bodies of up to 8 MiB are stored in chunks, and larger bodies are refused", async () => {
    const store = await openStore();
    const body = JSON.stringify({ text: "é".repeat(4_000_000) });
    const first = revisionOf((await store.edit(interactive("a", undefined, { body })))[0]);
    expect((await store.read((tx, database) => database.documents.read(tx, "a")))?.body.text).toBe(
      body,
    );
    await store.edit(interactive("a", first));
    const info = await store.read((tx, database) => database.info(tx));
    expect(info.sizes.external).toBe(2);
    const larger = JSON.stringify({ text: "x".repeat(8 * 1024 * 1024) });
    await expect(store.edit(interactive("b", undefined, { body: larger }))).rejects.toMatchObject({
      code: "STORE_DOCUMENT_TOO_LARGE",
    });
  });

  test.each([
    "simple",
    "with space",
    "a/b?c#d%25&e=f+g",
    '"quoted\\"',
    "zero\0byte",
    "line\nbreak\ttab",
    "é\u0301\u200d😀",
    "\uffff",
    "_design/films",
    "x".repeat(7_000),
  ])("accepts an id: %#", async (id) => {
    const store = await openStore();
    const revision = revisionOf((await store.edit(interactive(id)))[0]);
    await store.edit(replicated(id, [`9-${"h".repeat(500)}`]));
    const leaves = await store.read((tx, database) => database.documents.leaves(tx, id));
    expect(leaves[1]?.revision).toBe(revision);
    const all = await store.read((tx, database) =>
      database.allDocuments.page(tx, { withDocument: true }),
    );
    expect(all.entries.map((row) => row.document?.id)).toEqual([id]);
    const page = await store.read((tx, database) => database.changes.page(tx, {}));
    expect(page.entries[0]?.id).toBe(id);
  });

  test.each([
    "",
    "_x",
    "_design/",
    "_local/",
    "_designs",
    "\ud800",
    "x".repeat(7_001),
    "é".repeat(3_501),
  ])("refuses an id: %#", async (id) => {
    const store = await openStore();
    for (const edit of [interactive(id), replicated(id, ["1-a"])]) {
      await expect(store.edit(edit)).rejects.toMatchObject({ code: "STORE_DOCUMENT_ID_INVALID" });
    }
  });

  test("an invalid id is never found, but can be the bound of a range", async () => {
    const store = await openStore();
    await store.edit(interactive("a"), interactive("x".repeat(7_000)), interactive("y"));
    for (const id of ["", "_x", "x".repeat(20_000), "\ud800"]) {
      expect(await store.read((tx, database) => database.documents.read(tx, id))).toBeUndefined();
      expect(await store.read((tx, database) => database.documents.leaves(tx, id))).toEqual([]);
    }
    const long = "x".repeat(20_000);
    await store.read((tx, database) => database.local.page(tx, { startId: long }));
    expect(await store.kv.read((tx) => store.registry.names(tx, { endName: long }))).toEqual([
      "films",
    ]);
    await expect(
      store.kv.read((tx) => store.registry.open(tx, "x".repeat(20_000))),
    ).rejects.toMatchObject({ code: "STORE_DATABASE_NOT_FOUND" });
  });

  test("documents are listed in byte order, between bounds, in both directions", async () => {
    const store = await openStore();
    const ids = ["a", "a\0", "aa", "b", "é", "\uffff", "😀"];
    await store.edit(...[...ids].reverse().map((id) => interactive(id)));
    await store.edit(replicated("gone", ["1-a"], { deleted: true }));
    const list = async (options: AllDocumentsOptions) => {
      const page = await store.read((tx, database) => database.allDocuments.page(tx, options));
      return page.entries.map(({ id }) => id);
    };
    expect(await list({})).toEqual(ids);
    expect(await list({ descending: true })).toEqual([...ids].reverse());
    expect(await list({ startId: "aa", endId: "é" })).toEqual(["aa", "b", "é"]);
    expect(await list({ startId: "aa", endId: "é", inclusiveEnd: false })).toEqual(["aa", "b"]);
    expect(await list({ startId: "é", endId: "aa", descending: true })).toEqual(["é", "b", "aa"]);
    expect(
      await list({ startId: "é", endId: "aa", descending: true, inclusiveEnd: false }),
    ).toEqual(["é", "b"]);
    expect(await list({ limit: 2, skip: 1 })).toEqual(["a\0", "aa"]);
    expect(await list({ limit: 0 })).toEqual([]);
    expect(await list({ startId: "z", endId: "a" })).toEqual([]);
  });
});

describe("changes", () => {
  async function loaded(count: number): Promise<OpenStore> {
    const store = await openStore();
    for (let at = 0; at < count; at += 500) {
      await store.edit(
        ...Array.from({ length: Math.min(500, count - at) }, (_, index) =>
          interactive(`d${at + index}`),
        ),
      );
    }
    return store;
  }

  test("the sequence of an empty database can be used as `since`", async () => {
    const store = await openStore();
    const since = await store.read((tx, database) => database.changes.lastSequence(tx));
    expect(since).toBe("0");
    await store.edit(interactive("a"));
    const page = await store.read((tx, database) => database.changes.page(tx, { since }));
    expect(page).toMatchObject({ stoppedBy: "exhausted", entries: [{ id: "a" }] });
    expect(await store.read((tx, database) => database.changes.lastSequence(tx))).toBe(
      page.entries[0]?.sequence,
    );
  });

  test("changes of selected documents are read without reading other changes", async () => {
    const store = await loaded(25);
    const { kv } = store;
    const ranges = await kv.read(async (tx) => {
      const database = await store.registry.open(tx, "films");
      const read = vi.spyOn(tx, "getRangePage");
      const page = await database.changes.pageOf(tx, ["d20", "d3", "none"], { since: "0" });
      const all = await database.changes.page(tx, {});
      expect(page.entries).toEqual([all.entries[3], all.entries[20]]);
      expect(page).toMatchObject({ stoppedBy: "exhausted" });
      expect(page.lastSequence).toBe(all.entries[24]?.sequence);
      return read.mock.calls.slice(0, -1).map(([, options]) => options);
    });
    expect(ranges).toEqual([expect.objectContaining({ limit: 1 })]);
  });

  test("each page continues after the previous one, in both directions", async () => {
    const store = await loaded(25);
    for (const descending of [false, true]) {
      const ids: string[] = [];
      let at: string | undefined;
      for (;;) {
        const bound = at === undefined ? {} : descending ? { before: at } : { since: at };
        const page = await store.read((tx, database) =>
          database.changes.page(tx, { ...bound, limit: 10, descending }),
        );
        ids.push(...page.entries.map(({ id }) => id));
        at = page.entries.at(-1)?.sequence;
        if (page.stoppedBy === "exhausted") break;
      }
      const expected = Array.from({ length: 25 }, (_, index) => `d${index}`);
      expect(ids).toEqual(descending ? expected.reverse() : expected);
    }
    const none = await store.read((tx, database) => database.changes.page(tx, { limit: 0 }));
    expect(none).toEqual({ entries: [], stoppedBy: "row-limit" });
  });

  test.each([
    "",
    "1",
    "abc",
    "0-",
    "1-000000000000000000000000",
    "-1",
    "0-00000000000000000000000G",
  ])("%j is not a sequence", async (since) => {
    const store = await openStore();
    const invalid = { code: "STORE_SEQUENCE_INVALID" };
    await expect(
      store.read((tx, database) => database.changes.page(tx, { since })),
    ).rejects.toMatchObject(invalid);
    await expect(
      store.read((tx, database) => database.changes.pendingCount(tx, since)),
    ).rejects.toMatchObject(invalid);
  });

  test("the pending count is correct at every position of a long and busy sequence", async () => {
    const store = await loaded(4_000);
    // Each round updates old documents, which moves them to the end of the sequence, while several
    // writers are active and boundaries are added.
    for (let round = 0; round < 6; round++) {
      await Promise.all(
        [0, 1, 2].map((writer) =>
          store.write(async (tx, database) => {
            const ids = Array.from(
              { length: 150 },
              (_, index) => `d${(round * 97 + index * 13 + writer * 1_311) % 4_000}`,
            );
            const edits: DocumentEdit[] = [];
            for (const id of new Set(ids)) {
              edits.push(interactive(id, (await database.documents.leaves(tx, id))[0]?.revision));
            }
            await database.writeMany(tx, edits, CONTEXT);
          }),
        ),
      );
    }
    const { sequences, pending, boundaries } = await store.read(async (tx, database) => {
      const page = await database.changes.page(tx, {});
      const every = page.entries.map(({ sequence }) => sequence);
      const sampled = every.filter((_, index) => index % 37 === 0 || index > 3_950);
      const counted = await Promise.all(
        ["0", ...sampled].map((sequence) => database.changes.pendingCount(tx, sequence)),
      );
      const drawn = await tx.getRangePage(database.keys.boundary.range());
      return {
        sequences: ["0", ...every],
        pending: new Map(["0", ...sampled].map((sequence, index) => [sequence, counted[index]])),
        boundaries: drawn.entries.length,
      };
    });
    expect(sequences).toHaveLength(4_001);
    expect(boundaries).toBeGreaterThan(0);
    for (const [sequence, count] of pending) {
      expect(count).toBe(4_000 - sequences.indexOf(sequence));
    }
  });

  test("many small concurrent transactions are counted correctly, and do not conflict", async () => {
    let retryCount = 0;
    const system = createSystemRuntime();
    const event = (name: string): void => {
      if (name === "kv.retry") retryCount++;
    };
    const store = await openStore({ runtime: { ...system, trace: { event } } });
    const parents = new Map<string, string>();
    for (let round = 0; round < 4; round++) {
      await Promise.all(
        Array.from({ length: 24 }, async (_, writer) => {
          for (let index = writer; index < 600; index += 24) {
            const id = `d${index}`;
            const [outcome] = await store.edit(
              interactive(id, parents.get(id), { body: `{"n":${round}}` }),
            );
            parents.set(id, revisionOf(outcome));
          }
        }),
      );
    }
    await store.read(async (tx, database) => {
      const { entries } = await database.changes.page(tx, {});
      expect(entries).toHaveLength(600);
      for (let index = 0; index < entries.length; index += 7) {
        const { sequence } = entries[index] as { sequence: string };
        expect(await database.changes.pendingCount(tx, sequence)).toBe(599 - index);
      }
    });
    // Sweeps can conflict with each other; writers do not conflict.
    expect(retryCount).toBeLessThan(10);
  });

  test("a watch fires when a document is written, but not for a local document", async () => {
    const store = await openStore();
    const watch = await store.write(async (tx, database) => database.changes.watch(tx));
    let fired = false;
    const firing = watch.fired().then(() => {
      fired = true;
    });
    await store.write((tx, database) =>
      database.local.write(tx, { id: "_local/x", parent: undefined, body: Utf8Text.of("{}") }),
    );
    // If a watch fires at all, it does so by the next turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    expect(fired).toBe(false);
    await store.edit(interactive("a"));
    await firing;
    expect(fired).toBe(true);
  });

  test("writers of different documents do not conflict", async () => {
    let retryCount = 0;
    const system = createSystemRuntime();
    const runtime: Runtime = {
      ...system,
      trace: {
        event: (name) => {
          if (name === "kv.retry") retryCount++;
        },
      },
    };
    const store = await openStore({ runtime });
    await Promise.all(
      Array.from({ length: 100 }, (_, index) => store.edit(interactive(`d${index}`))),
    );
    const leaves = await store.read((tx, database) => database.documents.leaves(tx, "d0"));
    await Promise.all(
      Array.from({ length: 100 }, async (_, index) =>
        store.edit(interactive(`d${index}`, leaves[0]?.revision, { body: '{"n":2}' })),
      ),
    );
    expect(retryCount).toBe(0);
    const info = await store.read((tx, database) => database.info(tx));
    expect(info.documentCount).toBe(100);
  });
});

describe("local documents and settings", () => {
  test("a local document is written without reading the stored one", async () => {
    const store = await openStore();
    const id = "_local/checkpoint";
    const write = (parent: string | undefined, body: string) =>
      store.write((tx, database) =>
        database.local.write(tx, { id, parent, body: Utf8Text.of(body) }),
      );
    const read = async () => {
      const found = await store.read((tx, database) => database.local.read(tx, id));
      return found && { ...found, body: found.body.text };
    };
    expect(await read()).toBeUndefined();
    expect(revisionOf(await write(undefined, '{"n":1}'))).toBe("0-1");
    const large = `{"n":"${"x".repeat(300_000)}"}`;
    expect(revisionOf(await write("0-1", large))).toBe("0-2");
    expect(await read()).toEqual({ id, revision: "0-2", body: large });
    expect(revisionOf(await write("0-2", '{"n":3}'))).toBe("0-3");
    expect(await read()).toEqual({ id, revision: "0-3", body: '{"n":3}' });
    expect(await store.read((tx, database) => database.changes.lastSequence(tx))).toBe("0");
    const remove = () => store.write((tx, database) => database.local.remove(tx, id, "0-3"));
    expect(await remove()).toEqual({ kind: "written", id, revision: "0-0" });
    expect(await remove()).toEqual({ kind: "conflict", id });
    expect(await read()).toBeUndefined();
    await expect(write("1-abc", "{}")).rejects.toMatchObject({ code: "STORE_REVISION_INVALID" });
  });

  test("local documents are listed in order, between bounds, in both directions", async () => {
    const store = await openStore();
    const ids = ["_local/a", "_local/a\0", "_local/b", "_local/c"];
    await store.edit(...ids.map((id) => interactive(id)));
    const list = async (options: LocalDocumentsOptions) => {
      const page = await store.read((tx, database) => database.local.page(tx, options));
      return page.entries.map(({ id }) => id);
    };
    expect(await list({})).toEqual(ids);
    expect(await list({ descending: true, limit: 2 })).toEqual(["_local/c", "_local/b"]);
    expect(await list({ startId: "_local/a", endId: "_local/b" })).toEqual(ids.slice(0, 3));
    expect(await list({ startId: "_local/a\0", endId: "_local/c", inclusiveEnd: false })).toEqual(
      ids.slice(1, 3),
    );
    expect(
      await list({ startId: "_local/c", endId: "_local/a", inclusiveEnd: false, descending: true }),
    ).toEqual(["_local/c", "_local/b", "_local/a\0"]);
  });

  test("a security object of any length is stored unchanged", async () => {
    const store = await openStore();
    expect(await store.read((tx, database) => database.security(tx))).toBe(SECURITY_ADMIN_ONLY);
    for (const text of [`{"members":{"names":["${"x".repeat(200_000)}"]}}`, '{ "admins": {} }']) {
      await store.write((tx, database) => database.setSecurity(tx, text));
      expect(await store.read((tx, database) => database.security(tx))).toBe(text);
    }
  });
});
