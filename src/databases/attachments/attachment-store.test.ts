import { gzipSync } from "node:zlib";
import { describe, expect, test, vi } from "vitest";
import { concatBytes, type Runtime, utf8Decode, utf8Encode } from "../../base/index.ts";
import { createSystemRuntime } from "../../host/index.ts";
import type { Attachment, AttachmentEdit, DocumentEdit, StagedContent } from "../document.ts";
import { contentIdOf } from "../records/database-keys.ts";
import {
  interactive,
  type OpenStore,
  openStore,
  replicated,
  revisionOf,
} from "../store.fixture.ts";
import { AttachmentStore, type ReadContentOptions, type StageOptions } from "./attachment-store.ts";

interface Fixture extends OpenStore {
  /** Number of yields to the event loop. */
  readonly turnCount: () => number;
  readonly attachments: AttachmentStore;
  stage(bytes: Uint8Array, options?: StageOptions): Promise<StagedContent>;
  bytesOf(attachment: Attachment, options?: Partial<ReadContentOptions>): Promise<Uint8Array>;
  attachmentsOf(id: string): Promise<readonly Attachment[]>;
  storedContentCount(): Promise<number>;
  reclaim(ageMs?: number): Promise<number>;
}

async function openAttachments(): Promise<Fixture> {
  let nowMs = 1_000_000;
  const system = createSystemRuntime();
  let turnCount = 0;
  const clock = {
    ...system.clock,
    nowMs: () => nowMs++,
    sleep: (durationMs: number, signal?: AbortSignal) => {
      if (durationMs === 0) turnCount++;
      return system.clock.sleep(durationMs, signal);
    },
  };
  const runtime: Runtime = { ...system, clock };
  const store = await openStore({ runtime });
  const attachments = new AttachmentStore({ runtime, kv: store.kv });
  const database = await store.read(async (_tx, opened) => opened);
  return {
    ...store,
    attachments,
    turnCount: () => turnCount,
    stage: (bytes, options = {}) => attachments.stage(database, pieces(bytes), options),
    bytesOf: async (attachment, options = {}) => {
      const chunks: Uint8Array[] = [];
      const read = attachments.read(database, attachment, { decoded: true, ...options });
      for await (const chunk of read) chunks.push(chunk);
      return concatBytes(chunks);
    },
    attachmentsOf: (id) =>
      store.read(async (tx, opened) => (await opened.documents.read(tx, id))?.attachments ?? []),
    storedContentCount: () =>
      store.read(async (tx) => {
        const contents = new Set<string>();
        for await (const { key } of tx.getRange(database.keys.contentChunk.range())) {
          contents.add(contentIdOf(database.keys.contentChunk.unpack(key)));
        }
        return contents.size;
      }),
    reclaim: async (ageMs = 0) => {
      const { contentCount } = await attachments.reclaim(database, { ageMs });
      await store.removeGarbage();
      return contentCount;
    },
  };
}

async function* pieces(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes.length; start += 10_007) {
    yield bytes.subarray(start, start + 10_007);
  }
}

function withAttachments(edit: DocumentEdit, ...attachments: AttachmentEdit[]): DocumentEdit {
  return { ...edit, attachments };
}

function stagedEdit(
  name: string,
  content: StagedContent,
  revisionPosition?: number,
): AttachmentEdit {
  const edit = { kind: "staged", name, contentType: "text/plain", content } as const;
  return revisionPosition === undefined ? edit : { ...edit, revisionPosition };
}

const HELLO = utf8Encode("hello");
const HELLO_DIGEST = "md5-XUFAKrxLKna5cZ2REBfFkg==";

function noise(byteCount: number): Uint8Array {
  const bytes = new Uint8Array(byteCount);
  for (let index = 0; index < byteCount; index++) bytes[index] = (index * 7919) >> 5;
  return bytes;
}

describe("staging and reading", () => {
  test("stores attachments from memory in batches, with the same result as storing each separately", async () => {
    const store = await openAttachments();
    const database = await store.read(async (_tx, opened) => opened);
    const transact = vi.spyOn(store.kv, "transact");
    const small = Array.from({ length: 30 }, (_, index) => ({
      bytes: noise(index * 3_001),
      options: index % 2 === 0 ? {} : { compressionLevel: 8 },
    }));
    await store.attachments.stageAll(database, small);
    expect(transact).toHaveBeenCalledTimes(2);

    const zipped = { bytes: gzipSync(HELLO), options: { encoding: "gzip" } } as const;
    const contents = [...small.slice(20), { bytes: noise(3_000_000), options: {} }, zipped];
    const staged = await store.attachments.stageAll(database, contents);
    for (const [index, { bytes, options }] of contents.entries()) {
      const content = staged[index] as StagedContent;
      expect({ ...content, contentId: "" }).toEqual({
        ...(await store.stage(bytes, options)),
        contentId: "",
      });
      const id = `doc-${index}`;
      await store.edit(withAttachments(interactive(id), stagedEdit("a", content)));
      const [attachment] = (await store.attachmentsOf(id)) as [Attachment];
      const read = await store.bytesOf(attachment, { decoded: false });
      const { createMd5 } = createSystemRuntime().digests;
      const md5 = createMd5();
      md5.update(read);
      expect(`md5-${Buffer.from(md5.digest()).toString("base64")}`).toBe(content.digest);
    }
  });

  test("stores small streamed attachments together, and large ones in parts as their bytes arrive", async () => {
    const store = await openAttachments();
    const database = await store.read(async (_tx, opened) => opened);
    const transact = vi.spyOn(store.kv, "transact");
    let taken = 0;
    const contents = async function* () {
      for (const byteCount of [3, 0, 200_000, 3_000_000, 7]) {
        const bytes = noise(byteCount);
        // No item is requested before the previous one was received.
        expect(taken).toBe(0);
        taken = byteCount;
        const chunks = async function* () {
          for (let at = 0; at < byteCount; at += 65_000) {
            const chunk = bytes.subarray(at, at + 65_000);
            taken -= chunk.length;
            yield chunk;
          }
        };
        yield { chunks: chunks(), options: { expectedLength: byteCount } };
      }
    };
    const staged = await store.attachments.stageAll(database, contents());
    // The large attachment needs three transactions of a megabyte each. All small attachments
    // together need one.
    expect(transact).toHaveBeenCalledTimes(4);
    expect(staged.map(({ length }) => length)).toEqual([3, 0, 200_000, 3_000_000, 7]);
    for (const [index, content] of staged.entries()) {
      await store.edit(withAttachments(interactive(`doc-${index}`), stagedEdit("a", content)));
      const [attachment] = (await store.attachmentsOf(`doc-${index}`)) as [Attachment];
      const read = await store.bytesOf(attachment, { decoded: false });
      expect(Buffer.from(read).equals(noise(content.length))).toBe(true);
    }
  });

  test("identical small attachments are stored once, and can be read under each name", async () => {
    const store = await openAttachments();
    const database = await store.read(async (_tx, opened) => opened);
    const contents = Array(3).fill({ bytes: HELLO, options: {} });
    const staged = await store.attachments.stageAll(database, contents);
    expect(new Set(staged.map(({ contentId }) => contentId)).size).toBe(1);
    expect(await store.storedContentCount()).toBe(1);
    const edits = staged.map((content, index) => stagedEdit(`name ${index}`, content));
    await store.edit(withAttachments(interactive("doc"), ...edits));
    const attachments = await store.attachmentsOf("doc");
    expect(attachments.map(({ name }) => name)).toEqual(["name 0", "name 1", "name 2"]);
    for (const attachment of attachments) {
      expect(Buffer.from(await store.bytesOf(attachment, { decoded: false }))).toEqual(
        Buffer.from(HELLO),
      );
    }
  });

  test("yields to the event loop more than once while writing a document with many attachments", async () => {
    const store = await openAttachments();
    const database = await store.read(async (_tx, opened) => opened);
    const contents = Array.from({ length: 501 }, (_, at) => ({ bytes: noise(at), options: {} }));
    const staged = await store.attachments.stageAll(database, contents);
    const edits = staged.map((content, index) => stagedEdit(`name ${index}`, content));
    await store.edit(withAttachments(interactive("few"), ...edits.slice(0, 10)));
    const before = store.turnCount();
    await store.edit(withAttachments(interactive("many"), ...edits));
    expect(store.turnCount()).toBeGreaterThan(before + 1);
    expect(await store.attachmentsOf("many")).toHaveLength(501);
  });

  test("an upload with an unexpected length fails, and its stored bytes are reclaimed", async () => {
    const store = await openAttachments();
    const database = await store.read(async (_tx, opened) => opened);
    const contents = [
      { bytes: noise(600_000), options: {} },
      { bytes: HELLO, options: {} },
      { bytes: HELLO, options: { expectedLength: 6 } },
    ];
    await expect(store.attachments.stageAll(database, contents)).rejects.toMatchObject({
      code: "STORE_ATTACHMENT_LENGTH_MISMATCH",
    });
    expect(await store.storedContentCount()).toBe(1);
    await store.reclaim();
    expect(await store.storedContentCount()).toBe(0);
  });

  test("bytes are returned unchanged, for any size and offset", async () => {
    const store = await openAttachments();
    for (const byteCount of [0, 1, 65_535, 65_536, 65_537, 1_048_576, 3_000_000]) {
      const bytes = noise(byteCount);
      const content = await store.stage(bytes);
      expect(content).toMatchObject({ length: byteCount, encodedLength: byteCount });
      const id = `doc-${byteCount}`;
      await store.edit(withAttachments(interactive(id), stagedEdit("a", content)));
      const [attachment] = (await store.attachmentsOf(id)) as [Attachment];
      expect(Buffer.from(await store.bytesOf(attachment)).equals(bytes)).toBe(true);
      const part = await store.bytesOf(attachment, { start: 65_000, end: 140_000 });
      expect(Buffer.from(part).equals(bytes.subarray(65_000, 140_000))).toBe(true);
    }
  });

  test("the expected digest and length are compared with those of the received bytes", async () => {
    const store = await openAttachments();
    const content = await store.stage(HELLO, { expectedDigest: HELLO_DIGEST, expectedLength: 5 });
    expect(content.digest).toBe(HELLO_DIGEST);
    await expect(
      store.stage(HELLO, { expectedDigest: "md5-AAAAAAAAAAAAAAAAAAAAAA==" }),
    ).rejects.toMatchObject({ code: "STORE_ATTACHMENT_DIGEST_MISMATCH" });
    await expect(store.stage(HELLO, { expectedLength: 6 })).rejects.toMatchObject({
      code: "STORE_ATTACHMENT_LENGTH_MISMATCH",
    });
    const compressed = await store.stage(HELLO, {
      expectedDigest: HELLO_DIGEST,
      compressionLevel: 6,
    });
    expect(compressed.digest).not.toBe(HELLO_DIGEST);
  });

  test("compressed bytes are read decoded or as stored", async () => {
    const store = await openAttachments();
    const text = utf8Encode("abc".repeat(100_000));
    const content = await store.stage(text, { compressionLevel: 6 });
    expect(content).toMatchObject({ encoding: "gzip", length: 300_000 });
    expect(content.encodedLength).toBeLessThan(10_000);
    await store.edit(withAttachments(interactive("a"), stagedEdit("t", content)));
    const [attachment] = (await store.attachmentsOf("a")) as [Attachment];
    expect((await store.bytesOf(attachment)).length).toBe(300_000);
    expect((await store.bytesOf(attachment, { decoded: false })).length).toBe(
      content.encodedLength,
    );
    const part = await store.bytesOf(attachment, { start: 299_998 });
    expect(utf8Decode(part)).toBe("bc");
  });

  test("compressed uploads are stored as they are, with their decoded length", async () => {
    const store = await openAttachments();
    const zipped = new Uint8Array(gzipSync(noise(500_000)));
    const content = await store.stage(zipped, { encoding: "gzip", compressionLevel: 6 });
    expect(content).toMatchObject({
      encoding: "gzip",
      length: 500_000,
      encodedLength: zipped.length,
    });
    await expect(store.stage(noise(500_000), { encoding: "gzip" })).rejects.toMatchObject({
      code: "STORE_ATTACHMENT_ENCODING_INVALID",
    });
    const trailing = concatBytes([zipped, noise(600_000)]);
    await store.stage(trailing, { encoding: "gzip" }).catch(() => {});
  });
});

describe("an upload", () => {
  test("is not reclaimed while bytes arrive, even if the upload takes hours", async () => {
    let nowMs = 1_000_000;
    const system = createSystemRuntime();
    const runtime: Runtime = { ...system, clock: { ...system.clock, nowMs: () => nowMs } };
    const store = await openStore({ runtime });
    const attachments = new AttachmentStore({ runtime, kv: store.kv });
    const database = await store.read(async (_tx, opened) => opened);
    const bytes = noise(12_000_000);
    /** Ten minutes per megabyte: no pause is long, but the whole upload takes two hours. */
    const slowly = async function* () {
      for (let start = 0; start < bytes.length; start += 1_000_000) {
        nowMs += 600_000;
        const { contentCount } = await attachments.reclaim(database, { ageMs: 3_600_000 });
        expect(contentCount).toBe(0);
        await store.removeGarbage();
        yield bytes.subarray(start, start + 1_000_000);
      }
    };
    const content = await attachments.stage(database, slowly(), {});
    await store.edit(withAttachments(interactive("a"), stagedEdit("x", content)));
    const [attachment] = await store.read(
      async (tx, opened) => (await opened.documents.read(tx, "a"))?.attachments ?? [],
    );
    const read: Uint8Array[] = [];
    const stored = attachments.read(database, attachment as Attachment, { decoded: true });
    for await (const chunk of stored) read.push(chunk);
    expect(Buffer.compare(concatBytes(read), bytes)).toBe(0);
  });

  test("fails and stores nothing if no bytes arrive for longer than the reclaim delay", async () => {
    let nowMs = 1_000_000;
    const system = createSystemRuntime();
    const runtime: Runtime = { ...system, clock: { ...system.clock, nowMs: () => nowMs } };
    const store = await openStore({ runtime });
    const attachments = new AttachmentStore({ runtime, kv: store.kv });
    const database = await store.read(async (_tx, opened) => opened);
    const halting = async function* () {
      yield noise(9_000_000);
      nowMs += 7_200_000;
      await attachments.reclaim(database, { ageMs: 3_600_000 });
      await store.removeGarbage();
      yield noise(9_000_000);
    };
    await expect(attachments.stage(database, halting(), {})).rejects.toThrow();
  });
});

describe("references", () => {
  test("the same bytes are stored once", async () => {
    const store = await openAttachments();
    for (const id of ["a", "b", "c"]) {
      const content = await store.stage(HELLO);
      await store.edit(
        withAttachments(interactive(id), stagedEdit("x", content), stagedEdit("y", content)),
      );
    }
    expect(await store.storedContentCount()).toBe(1);
    const [attachment] = (await store.attachmentsOf("c")) as [Attachment];
    expect(utf8Decode(await store.bytesOf(attachment))).toBe("hello");
  });

  test("a stub keeps the parent's attachment and its position", async () => {
    const store = await openAttachments();
    const content = await store.stage(HELLO);
    const first = revisionOf(
      (await store.edit(withAttachments(interactive("a"), stagedEdit("x", content))))[0],
    );
    const edit = withAttachments(interactive("a", first), { kind: "stub", name: "x" });
    const second = revisionOf((await store.edit(edit))[0]);
    expect(await store.attachmentsOf("a")).toMatchObject([{ name: "x", revisionPosition: 1 }]);
    const missing = withAttachments(interactive("a", second), { kind: "stub", name: "y" });
    expect(await store.edit(missing)).toEqual([{ kind: "missing-stub", id: "a", name: "y" }]);
    const wrong = withAttachments(interactive("a", second), {
      kind: "stub",
      name: "x",
      digest: "md5-AAAAAAAAAAAAAAAAAAAAAA==",
    });
    expect((await store.edit(wrong))[0]?.kind).toBe("missing-stub");
  });

  test("a replicated stub is resolved against any leaf, and keeps encoding, length and position", async () => {
    const store = await openAttachments();
    const zipped = new Uint8Array(gzipSync(HELLO));
    const content = await store.stage(zipped, { encoding: "gzip" });
    await store.edit(withAttachments(replicated("a", ["2-b", "1-a"]), stagedEdit("x", content, 2)));
    const stub: AttachmentEdit = { kind: "stub", name: "x", revisionPosition: 2 };
    const branch = withAttachments(replicated("a", ["3-z", "2-y", "1-a"]), stub);
    expect((await store.edit(branch))[0]?.kind).toBe("written");
    expect(await store.attachmentsOf("a")).toMatchObject([
      { encoding: "gzip", length: 5, encodedLength: zipped.length, revisionPosition: 2 },
    ]);
    const unknown = withAttachments(replicated("b", ["2-b", "1-a"]), stub);
    expect(await store.edit(unknown)).toEqual([{ kind: "missing-stub", id: "b", name: "x" }]);
  });

  test("hundreds of attachments of one document can refer to the same content", async () => {
    const store = await openAttachments();
    const contents = [await store.stage(HELLO), await store.stage(noise(200_000))];
    const edits = Array.from({ length: 501 }, (_, at) =>
      stagedEdit(`${at}`, contents[at % 2] as StagedContent),
    );
    const edit = withAttachments(interactive("many"), ...edits);
    const many = revisionOf((await store.edit(edit))[0]);
    // Staging the same bytes again reuses the stored content.
    const again = stagedEdit("again", await store.stage(HELLO));
    const one = revisionOf((await store.edit(withAttachments(interactive("one"), again)))[0]);
    expect(await store.storedContentCount()).toBe(2);
    await store.edit({ ...interactive("one", one), deleted: true });
    await store.reclaim();
    expect(await store.storedContentCount()).toBe(2);
    await store.edit({ ...interactive("many", many), deleted: true });
    await store.reclaim();
    expect(await store.storedContentCount()).toBe(0);
  });

  test("only content that no leaf references is reclaimed, after its retention time", async () => {
    const store = await openAttachments();
    const kept = await store.stage(HELLO);
    const released = await store.stage(noise(200_000));
    await store.stage(noise(100));
    const edit = withAttachments(
      interactive("a"),
      stagedEdit("k", kept),
      stagedEdit("r", released),
    );
    const first = revisionOf((await store.edit(edit))[0]);
    expect(await store.reclaim(1_000)).toBe(0);
    expect(await store.reclaim()).toBe(1);
    expect(await store.storedContentCount()).toBe(2);
    await store.edit(withAttachments(interactive("a", first), { kind: "stub", name: "k" }));
    expect(await store.reclaim()).toBe(1);
    expect(await store.storedContentCount()).toBe(1);
    const [attachment] = (await store.attachmentsOf("a")) as [Attachment];
    expect(utf8Decode(await store.bytesOf(attachment))).toBe("hello");
    const again = withAttachments(interactive("b"), stagedEdit("r", released));
    await expect(store.edit(again)).rejects.toMatchObject({
      code: "STORE_ATTACHMENT_CONTENT_GONE",
    });
    const info = await store.read((tx, database) => database.info(tx));
    expect(info.sizes.active).toBe(2 + HELLO.length);
  });

  test("reclaimed content is also removed from the index by digest", async () => {
    const store = await openAttachments();
    await store.stage(HELLO);
    const first = await store.stage(HELLO);
    const edit = withAttachments(interactive("a"), stagedEdit("x", first));
    const revision = revisionOf((await store.edit(edit))[0]);
    await store.edit(interactive("a", revision));
    expect(await store.reclaim()).toBe(2);
    expect(await store.storedContentCount()).toBe(0);
    const second = await store.stage(HELLO);
    await store.edit(withAttachments(interactive("b"), stagedEdit("x", second)));
    const [attachment] = (await store.attachmentsOf("b")) as [Attachment];
    expect(utf8Decode(await store.bytesOf(attachment))).toBe("hello");
  });
});
