/**
 * Compares attachments with the leaves: after random edits and reclaims, every attachment of every
 * leaf can be read, and nothing else is stored.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { concatBytes, utf8Decode, utf8Encode } from "../../base/index.ts";
import type { AttachmentEdit, DocumentEdit } from "../document.ts";
import { contentIdOf } from "../records/database-keys.ts";
import { interactive, openStore, replicated } from "../store.fixture.ts";
import { AttachmentStore } from "./attachment-store.ts";

const TEXTS = ["", "one", "two", "x".repeat(70_000)];

const attachment = fc.record({
  name: fc.constantFrom("a", "b", "c"),
  /** Content; undefined for a stub. */
  text: fc.option(fc.constantFrom(...TEXTS), { nil: undefined }),
  compress: fc.boolean(),
});
const step = fc.oneof(
  fc.record({
    kind: fc.constantFrom("follow" as const, "branch" as const),
    id: fc.constantFrom("d", "e"),
    deleted: fc.boolean(),
    attachments: fc.uniqueArray(attachment, { selector: ({ name }) => name, maxLength: 3 }),
  }),
  fc.constant({ kind: "reclaim" as const }),
);

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

describe("attachments", () => {
  test("an attachment is stored exactly as long as a leaf refers to it", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 14 }), async (steps) => {
        let nowMs = 1;
        const system = await openStore();
        const runtime = {
          ...system.runtime,
          clock: { ...system.runtime.clock, nowMs: () => nowMs++ },
        };
        const store = await openStore({ runtime });
        const database = await store.read(async (_tx, opened) => opened);
        const attachments = new AttachmentStore({ runtime, kv: store.kv });
        const texts = new Map<string, string>();
        let branch = 0;
        for (const drawn of steps) {
          if (drawn.kind === "reclaim") {
            await attachments.reclaim(database, { ageMs: 0 });
            continue;
          }
          const edits: AttachmentEdit[] = [];
          for (const { name, text, compress } of drawn.attachments) {
            if (text === undefined) {
              edits.push({ kind: "stub", name });
              continue;
            }
            const content = await attachments.stage(database, once(utf8Encode(text)), {
              compressionLevel: compress ? 6 : undefined,
            });
            texts.set(`${content.digest} ${content.encoding}`, text);
            edits.push({ kind: "staged", name, contentType: "text/plain", content });
          }
          const { id, deleted } = drawn;
          const [winner] = await store.read((tx, opened) => opened.documents.leaves(tx, id));
          const edit: DocumentEdit =
            drawn.kind === "follow"
              ? interactive(id, winner?.revision, { deleted })
              : replicated(id, [`${1 + (branch % 3)}-branch${branch++}`], { deleted });
          await store.edit({ ...edit, attachments: edits });
        }

        await attachments.reclaim(database, { ageMs: -1_000_000 });
        const contents = new Set<string>();
        for (const id of ["d", "e"]) {
          const leaves = await store.read((tx, opened) => opened.documents.readLeaves(tx, id));
          for (const found of leaves.flatMap((leaf) => leaf.attachments)) {
            contents.add(found.contentId);
            const chunks: Uint8Array[] = [];
            for await (const chunk of attachments.read(database, found, { decoded: true })) {
              chunks.push(chunk);
            }
            const text = utf8Decode(concatBytes(chunks));
            expect(text).toBe(texts.get(`${found.digest} ${found.encoding}`));
            expect(found.length).toBe(text.length);
          }
        }
        await store.read(async (tx) => {
          const stored = new Set<string>();
          for await (const { key } of tx.getRange(database.keys.contentChunk.range())) {
            stored.add(contentIdOf(database.keys.contentChunk.unpack(key)));
          }
          // Every stored content must have chunks, because none of the attachments is empty.
          for (const contentId of stored) expect(contents).toContain(contentId);
          const digests = [...texts.keys()].length;
          expect(contents.size).toBeLessThanOrEqual(digests);
        });
        await store.kv.close();
        await system.kv.close();
      }),
      { numRuns: 60 },
    );
  });
});
