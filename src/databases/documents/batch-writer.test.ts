import { expect, test } from "vitest";
import { countKeys, type KeyCounts } from "../../../test/support/kv/counting-engine.ts";
import type { Random } from "../../base/index.ts";
import { createSystemRuntime } from "../../host/index.ts";
import { AttachmentStore } from "../attachments/attachment-store.ts";
import { CONTEXT, interactive, openStore, replicated, seededRandom } from "../store.fixture.ts";

test("rejected edits of one document are checked without reloading it", async () => {
  // With a low random number, a batch also merges partial counts, which takes additional reads. The
  // highest number prevents that.
  const random: Random = {
    ...seededRandom(1),
    integer: (limit) => limit - 1,
    fork: () => random,
  };
  const store = await openStore({ runtime: { ...createSystemRuntime(), random } });
  const revision = (number: number) => `1-${number.toString(16).padStart(32, "0")}`;
  const edits = (first: number, count: number) =>
    Array.from({ length: count }, (_, index) => replicated("x", [revision(first + index)]));
  for (let first = 0; first < 1000; first += 50) await store.edit(...edits(first, 50));
  const readFor = (count: number): Promise<number> =>
    store.write(async (tx, database) => {
      const counts: KeyCounts = { readCount: 0, writtenCount: 0 };
      countKeys(tx, counts);
      const outcomes = await database.writeMany(tx, edits(1000, count), CONTEXT);
      expect(outcomes.every(({ kind }) => kind === "rejected")).toBe(true);
      return counts.readCount;
    });
  expect(await readFor(200)).toBe(await readFor(1));
});

test("edits after a rejected edit are checked against all previous edits of the batch", async () => {
  const store = await openStore();
  const hash = (digit: string) => digit.repeat(32);
  const outcomes = await store.edit(
    replicated("x", [`1-${hash("a")}`]),
    replicated("x", [`1-${hash("a")}`]),
    replicated("x", [`2-${hash("b")}`, `1-${hash("a")}`]),
    replicated("x", [`2-${hash("b")}`, `1-${hash("a")}`]),
    replicated("x", [`3-${hash("c")}`, `2-${hash("b")}`]),
  );
  expect(outcomes.map(({ kind }) => kind)).toEqual([
    "written",
    "known",
    "written",
    "known",
    "written",
  ]);
});

test("edits that together replace thousands of keys are rejected as a batch, but can be written individually", async () => {
  const store = await openStore();
  const attachments = new AttachmentStore(store);
  const database = await store.read(async (_, opened) => opened);
  const content = await attachments.stage(database, poster(), {});
  const named = Array.from({ length: 1_000 }, (_, n) => {
    return { kind: "staged", name: `p${n}`, contentType: "image/png", content } as const;
  });
  const ids = ["a", "b", "c"];
  const paths = ids.map((id) => replicated(id, ["1-a"]));
  for (const edit of paths) await store.edit({ ...edit, attachments: named });
  const next = ids.map((id) => interactive(id, "1-a"));
  await expect(store.edit(...next)).rejects.toMatchObject({ code: "KV_TOO_LARGE" });
  for (const edit of next) expect(await store.edit(edit)).toMatchObject([{ kind: "written" }]);
});

async function* poster(): AsyncGenerator<Uint8Array> {
  yield Buffer.from("poster");
}
