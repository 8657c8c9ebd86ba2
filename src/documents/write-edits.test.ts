import { expect, test } from "vitest";
import { Utf8Text } from "../base/index.ts";
import type { DocumentEdit, WriteOutcome } from "../databases/index.ts";
import { writeEdits } from "./write-edits.ts";

const REFUSED = new Error("One of the edits cannot be written");

/**
 * Refuses transactions with an edit whose id begins with `bad`, and fails if an id begins with
 * `fatal`.
 */
class Store {
  /** Document ids of each transaction. */
  readonly transactions: string[][] = [];
  /** Reported outcomes in order, as `id: outcome`. */
  readonly reported: string[] = [];

  async write(edits: readonly DocumentEdit[], hasFollowUps = false): Promise<void> {
    await writeEdits(edits, {
      hasFollowUps,
      transact: async (batch): Promise<WriteOutcome[]> => {
        const ids = batch.map(({ id }) => id);
        this.transactions.push(ids);
        if (ids.some((id) => id.startsWith("fatal"))) throw new Error("The store is gone");
        if (ids.some((id) => id.startsWith("bad"))) throw REFUSED;
        return ids.map((id) => ({ kind: "written", id, revision: `1-of-${id}` }));
      },
      isRefusal: (error) => error === REFUSED,
      settled: ({ id }, outcome) => {
        expect(outcome.id).toBe(id);
        this.reported.push(`${id}: ${outcome.kind}`);
      },
      refused: ({ id }, error) => {
        expect(error).toBe(REFUSED);
        this.reported.push(`${id}: refused`);
      },
    });
  }

  get sizes(): number[] {
    return this.transactions.map((ids) => ids.length);
  }
}

function edit(id: string, { bodyLength = 2, revisionCount = 1 } = {}): DocumentEdit {
  const body = Utf8Text.of(JSON.stringify("x".repeat(bodyLength - 2)));
  const hashes = Array.from({ length: revisionCount }, (_, index) => String(index));
  const revisions = { start: revisionCount, hashes };
  return { mode: "replicated", id, deleted: false, body, attachments: [], revisions };
}

test("a refused edit is reported at its position, and the other edits are written", async () => {
  const store = new Store();
  await store.write(["a", "b", "bad", "d", "e"].map((id) => edit(id)));
  expect(store.reported).toEqual([
    "a: written",
    "b: written",
    "bad: refused",
    "d: written",
    "e: written",
  ]);
});

test("an error of the store is thrown, and nothing after it is written", async () => {
  const store = new Store();
  const edits = ["a", "bad", "fatal", "d"].map((id) => edit(id));
  await expect(store.write(edits)).rejects.toThrow("The store is gone");
  expect(store.reported).toEqual([]);
});

test("a transaction is limited to 500 edits (50 with follow-ups) and a million characters", async () => {
  const many = new Store();
  await many.write(Array.from({ length: 1_001 }, (_, index) => edit(`${index}`)));
  expect(many.sizes).toEqual([500, 500, 1]);
  const followed = new Store();
  await followed.write(
    Array.from({ length: 101 }, (_, index) => edit(`${index}`)),
    true,
  );
  expect(followed.sizes).toEqual([50, 50, 1]);
  const long = new Store();
  await long.write(["a", "b", "c"].map((id) => edit(id, { bodyLength: 400_000 })));
  expect(long.sizes).toEqual([2, 1]);
});

test("the size of a transaction includes the ancestors of its revisions", async () => {
  const store = new Store();
  const edits = Array.from({ length: 40 }, (_, index) =>
    edit(`${index}`, { revisionCount: 1_000 }),
  );
  await store.write(edits);
  expect(store.sizes).toEqual([28, 12]);
});
