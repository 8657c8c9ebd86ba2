import { describe, expect, test } from "vitest";
import { concatBytes, utf8Decode, utf8Encode } from "../../base/index.ts";
import { AttachmentStore } from "../attachments/attachment-store.ts";
import type { Attachment } from "../document.ts";
import { CONTEXT, openStore, replicated } from "../store.fixture.ts";

/** Body longer than a chunk. */
const LONG = "x".repeat(150_000);

async function openKeeping() {
  const store = await openStore({ keepOldBodiesMs: () => 3_600_000 });
  const attachments = new AttachmentStore(store);
  const database = await store.read(async (_, opened) => opened);
  /** Writes revision `1-x` of a document: `text` is in its body, `name` is its attachment. */
  const writeFirst = async (id: string, { name = "file", text = LONG } = {}): Promise<void> => {
    const content = await attachments.stage(database, piecesOf("poster"), {});
    await store.edit({
      ...replicated(id, ["1-x"], { body: JSON.stringify({ text }) }),
      attachments: [{ kind: "staged", name, contentType: "text/plain", content }],
    });
  };
  return {
    ...store,
    writeFirst,
    /** Returns the body of a leaf, and its attachments' bytes by name. */
    async readLeaf(id: string) {
      const document = await store.read((tx, opened) => opened.documents.read(tx, id));
      if (document === undefined) return undefined;
      const files: Record<string, string> = {};
      for (const attachment of document.attachments as Attachment[]) {
        const chunks: Uint8Array[] = [];
        const read = attachments.read(database, attachment, { decoded: true });
        for await (const chunk of read) chunks.push(chunk);
        files[attachment.name] = utf8Decode(concatBytes(chunks));
      }
      return { revision: document.revision, length: document.body.length, files };
    },
    async sweepAndReclaim(): Promise<number> {
      const beforeMs = store.runtime.clock.nowMs() + 1;
      const { bodyCount } = await store.write((tx, opened) => opened.oldBodies.sweep(tx, beforeMs));
      await attachments.reclaim(database, { ageMs: -1_000 });
      await store.removeGarbage();
      return bodyCount;
    },
    rowCount: () =>
      store.kv.read(async (tx) => {
        const { begin, end } = database.keys.contentChunk.range();
        return (await tx.getRangePage({ begin, end })).entries.length;
      }),
  };
}

async function* piecesOf(text: string): AsyncGenerator<Uint8Array> {
  yield utf8Encode(text);
}

describe("a sweep of old bodies", () => {
  test.each([
    ["the same attachment and body", {}, { file: "poster" }],
    ["another name of the attachment", { name: "other" }, { other: "poster" }],
    ["a shorter body", { text: "short" }, { file: "poster" }],
  ])("keeps all rows of a revision that became a leaf again: %s", async (_, again, files) => {
    const store = await openKeeping();
    await store.writeFirst("a");
    await store.edit(replicated("a", ["2-y", "1-x"]));
    await store.write((tx, opened) => opened.purge(tx, [{ id: "a", revisions: ["2-y"] }], CONTEXT));
    await store.writeFirst("a", again);
    const before = await store.readLeaf("a");
    expect(before).toMatchObject({ revision: "1-x", files });
    expect(await store.sweepAndReclaim()).toBe(1);
    expect(await store.readLeaf("a")).toEqual(before);
  });

  test("releases the attachments of revisions that are not leaves", async () => {
    const store = await openKeeping();
    await store.writeFirst("a");
    await store.edit(replicated("a", ["2-y", "1-x"]));
    expect(await store.rowCount()).toBe(1);
    expect(await store.sweepAndReclaim()).toBe(1);
    expect(await store.rowCount()).toBe(0);
    expect(await store.readLeaf("a")).toMatchObject({ revision: "2-y", files: {} });
  });

  test("keeps attachments that a branch still refers to", async () => {
    const store = await openKeeping();
    await store.writeFirst("a");
    await store.writeFirst("b");
    await store.edit(replicated("a", ["2-y", "1-x"]));
    expect(await store.sweepAndReclaim()).toBe(1);
    expect(await store.readLeaf("b")).toMatchObject({ files: { file: "poster" } });
  });
});

test("the file size includes superseded bodies and their attachments until a sweep", async () => {
  const store = await openKeeping();
  const sizes = async () => (await store.read((tx, opened) => opened.info(tx))).sizes;
  await store.writeFirst("a");
  const length = JSON.stringify({ text: LONG }).length;
  const first = await sizes();
  expect(first.file).toBe(first.active);
  const file = { kind: "stub", name: "file" } as const;
  await store.edit({ ...replicated("a", ["2-y", "1-x"]), attachments: [file] });
  const second = await sizes();
  // Revision 2 has the attachment, too.
  expect(second.file).toBe(second.active + length);
  await store.edit(replicated("a", ["3-z", "2-y"]));
  const third = await sizes();
  expect(third.file).toBe(third.active + length + "{}".length + "poster".length);
  expect(await store.sweepAndReclaim()).toBe(2);
  expect(await sizes()).toEqual({ ...third, file: third.active });
});

test("a store of format 2 neither stores nor counts the size of superseded bodies", async () => {
  const store = await openStore({ keepOldBodiesMs: () => 1, isFormat3: async () => false });
  await store.edit(replicated("a", ["1-x"]), replicated("a", ["2-y", "1-x"]));
  await store.read(async (tx, opened) => {
    const { file, active } = (await opened.info(tx)).sizes;
    expect(file).toBe(active);
    const { entries } = await tx.getRangePage(opened.keys.oldBody.range());
    expect(entries.map(({ value }) => value[0])).toEqual([1]);
  });
  const endMs = store.runtime.clock.nowMs() + 1;
  await store.write((tx, opened) => opened.oldBodies.sweep(tx, endMs));
  const { sizes } = await store.read((tx, opened) => opened.info(tx));
  expect(sizes.file).toBe(sizes.active);
});
