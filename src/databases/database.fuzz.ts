/**
 * Compares a database with a naive model: random edits of a few documents, in batches, some in one
 * transaction, some concurrent. After each step, all views of the database must agree with the
 * model.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ReadTransaction, Subspace } from "../kv/index.ts";
import type { Database } from "./database.ts";
import type { DocumentEdit, Leaf, WriteOutcome } from "./document.ts";
import type { AllDocumentsOptions } from "./documents/all-documents.ts";
import { registryKeys } from "./records/database-keys.ts";
import {
  CONTEXT,
  interactive,
  type OpenStore,
  openStore,
  replicated,
  seededRandom,
} from "./store.fixture.ts";

const IDS = ["a", "b", "é", "a\0b", "_design/d", "~"];

type Step =
  | {
      readonly kind: "follow";
      readonly id: string;
      readonly leaf: number;
      readonly deleted: boolean;
      readonly n: number;
    }
  | { readonly kind: "create"; readonly id: string; readonly deleted: boolean; readonly n: number }
  | {
      readonly kind: "graft";
      readonly id: string;
      readonly path: readonly string[];
      readonly deleted: boolean;
    };

const id = fc.constantFrom(...IDS);
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant("follow" as const),
    id,
    leaf: fc.nat(3),
    deleted: fc.boolean(),
    n: fc.nat(3),
  }),
  fc.record({ kind: fc.constant("create" as const), id, deleted: fc.boolean(), n: fc.nat(3) }),
  fc.record({
    kind: fc.constant("graft" as const),
    id,
    // Paths in a small tree of revisions, in which "2-ab" follows "1-a", so that paths overlap.
    path: fc.array(fc.constantFrom("a", "b"), { minLength: 1, maxLength: 4 }).chain((letters) =>
      fc.integer({ min: 1, max: letters.length }).map((length) =>
        Array.from({ length }, (_, depth) => {
          const generation = letters.length - depth;
          return `${generation}-${letters.slice(0, generation).join("")}`;
        }),
      ),
    ),
    deleted: fc.boolean(),
  }),
);

async function editOf(store: OpenStore, drawn: Step): Promise<DocumentEdit> {
  if (drawn.kind === "graft") return replicated(drawn.id, drawn.path, { deleted: drawn.deleted });
  const body = `{"n":${drawn.n}}`;
  if (drawn.kind === "create") {
    return interactive(drawn.id, undefined, { body, deleted: drawn.deleted });
  }
  const leaves = await store.read((tx, database) => database.documents.leaves(tx, drawn.id));
  const parent = leaves[drawn.leaf % Math.max(1, leaves.length)]?.revision ?? "1-unknown";
  return interactive(drawn.id, parent, { body, deleted: drawn.deleted });
}

/** Returns the contents of all views in a comparable form. */
async function views(store: OpenStore) {
  return store.read(async (tx, database) => {
    const leaves = new Map<string, Leaf[]>();
    for (const name of IDS) {
      const found = await database.documents.leaves(tx, name);
      if (found.length > 0) leaves.set(name, found);
    }
    const all = await database.allDocuments.page(tx, { withDocument: true });
    const changes = await database.changes.page(tx, {});
    const pending = await Promise.all(
      changes.entries.map(({ sequence }) => database.changes.pendingCount(tx, sequence)),
    );
    const info = await database.info(tx);
    const conflicts = await database.conflicts.page(tx, { limit: 100 });
    const conflictCount = await database.conflicts.count(tx);
    const counts = await store.registry.conflictCounts(tx, { limit: 10 });
    const bodies = await Promise.all(IDS.map((name) => database.documents.readLeaves(tx, name)));
    return {
      leaves,
      all: all.entries,
      changes: changes.entries,
      pending,
      info,
      conflicts: conflicts.entries.map(({ id: name }) => name),
      conflictCounts: [conflictCount.count, counts.entries[0]?.count ?? 0],
      isComplete: conflictCount.isComplete,
      bodies: bodies.flat(),
    };
  });
}

async function expectConsistent(store: OpenStore): Promise<void> {
  const { leaves, all, changes, pending, info, bodies, ...found } = await views(store);
  const isConflicting = ([, each]: [string, Leaf[]]) =>
    each.filter(({ deleted }) => !deleted).length > 1;
  const conflicting = [...leaves].filter(isConflicting).map(([name]) => name);
  expect(found.conflicts.toSorted()).toEqual(conflicting.toSorted());
  expect(found.conflictCounts).toEqual([conflicting.length, conflicting.length]);
  expect(found.isComplete).toBe(true);
  const alive = [...leaves].filter(([, [winner]]) => winner?.deleted === false);
  const sorted = alive
    .map(([name]) => name)
    .sort((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
  expect(all.map((row) => row.id)).toEqual(sorted);
  for (const row of all) {
    expect(row.revision).toBe(leaves.get(row.id)?.[0]?.revision);
    expect(row.document?.revision).toBe(row.revision);
  }
  expect(changes.map((change) => change.id).sort()).toEqual([...leaves.keys()].sort());
  for (const change of changes) {
    expect(change.leaves).toEqual(leaves.get(change.id));
    expect(change.winner).toBe(change.leaves[0]?.revision);
    expect(change.deleted).toBe(change.leaves[0]?.deleted);
  }
  expect(pending).toEqual(changes.map((_, index) => changes.length - 1 - index));
  expect(info.documentCount).toBe(alive.length);
  expect(info.deletedDocumentCount).toBe(leaves.size - alive.length);
  // After a purge, the update sequence can be later than the last change.
  if (info.purgeCount === 0) expect(info.updateSequence).toBe(changes.at(-1)?.sequence ?? "0");
  expect(bodies.length).toBe([...leaves.values()].flat().length);
  expect(info.sizes.external).toBe(
    bodies.reduce((sum, { body }) => sum + Buffer.byteLength(body.text), 0),
  );
}

/** Opens a store. With winner rows, its database was created when the store had format 2. */
async function openEither(hasWinnerRows: boolean): Promise<OpenStore> {
  let isFormat3 = !hasWinnerRows;
  const store = await openStore({ isFormat3: async () => isFormat3 });
  isFormat3 = true;
  await store.write((tx, { conflicts }) => conflicts.search(tx));
  return store;
}

const LISTS: readonly AllDocumentsOptions[] = [
  { withDocument: true },
  { descending: true },
  { startId: "_design/", endId: "_design0", inclusiveEnd: false },
  { startId: "b", limit: 2, skip: 1 },
  { startId: "b", endId: "a", descending: true, inclusiveEnd: false, limit: 2 },
];

describe("a database", () => {
  test("is consistent in all views after any edits, and lists them in their transaction as after it", async () => {
    const lists = async (tx: ReadTransaction, { allDocuments }: Database) => {
      const pages = [];
      for (const options of LISTS) pages.push((await allDocuments.page(tx, options)).entries);
      return pages;
    };
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(step, { minLength: 1, maxLength: 5 }), { maxLength: 8 }),
        fc.boolean(),
        async (batches, hasWinnerRows) => {
          const store = await openEither(hasWinnerRows);
          for (const batch of batches) {
            const edits: DocumentEdit[] = [];
            for (const drawn of batch) edits.push(await editOf(store, drawn));
            const listed = await store.write(async (tx, database) => {
              await database.writeMany(tx, edits, CONTEXT);
              return lists(tx, database);
            });
            expect(listed).toEqual(await store.read(lists));
            await expectConsistent(store);
          }
          await store.kv.close();
        },
      ),
      { numRuns: 100 },
    );
  });

  test("removes purged leaves from all views, and keeps all counts correct", async () => {
    const round = fc.record({
      edits: fc.array(step, { minLength: 1, maxLength: 5 }),
      purged: fc.uniqueArray(fc.record({ id, leaf: fc.nat(3) }), { selector: (one) => one.id }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(round, { maxLength: 6 }), fc.boolean(), async (rounds, isOld) => {
        const store = await openEither(isOld);
        for (const { edits: drawnEdits, purged } of rounds) {
          const edits: DocumentEdit[] = [];
          for (const drawn of drawnEdits) edits.push(await editOf(store, drawn));
          await store.edit(...edits);
          const before = (await views(store)).leaves;
          const purges = purged.map(({ id: name, leaf }) => {
            const leaves = before.get(name) ?? [];
            const chosen = leaves[leaf % Math.max(1, leaves.length)];
            return { id: name, revisions: chosen === undefined ? [] : [chosen.revision] };
          });
          const page = await store.write((tx, database) => database.purge(tx, purges, CONTEXT));
          expect(page).toEqual({ purged: purges, rest: [] });
          const expected = new Map(before);
          for (const { id: name, revisions } of purges) {
            const kept = (before.get(name) ?? []).filter((one) => one.revision !== revisions[0]);
            if (kept.length > 0) expected.set(name, kept);
            else expected.delete(name);
          }
          expect((await views(store)).leaves).toEqual(expected);
          await expectConsistent(store);
        }
        await store.kv.close();
      }),
      { numRuns: 60 },
    );
  });

  test("a search finds conflicts written by an older program, even if documents are written between its pages", async () => {
    const batches = fc.array(fc.array(step, { minLength: 1, maxLength: 5 }), { maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(batches, batches, async (before, after) => {
        const store = await openStore();
        const write = async (batch: readonly Step[]) => {
          const edits: DocumentEdit[] = [];
          for (const drawn of batch) edits.push(await editOf(store, drawn));
          await store.edit(...edits);
        };
        for (const batch of before) await write(batch);
        await store.write(async (tx, { keys }) => {
          tx.clearRange(keys.conflict.range());
          tx.clear(keys.conflictSearch.key({}));
          tx.clear(registryKeys(Subspace.fromTuple([1])).conflictCount.key({ name: "films" }));
        });
        // A page of one change, so that writes happen between the pages.
        const search = () => store.write((tx, { conflicts }) => conflicts.search(tx, 1));
        for (const batch of after) {
          await search();
          await write(batch);
        }
        while (!(await search()));
        await expectConsistent(store);
        await store.write((tx) => store.registry.remove(tx, "films"));
        const counts = await store.kv.read((tx) =>
          store.registry.conflictCounts(tx, { limit: 10 }),
        );
        expect(counts.entries).toEqual([]);
        await store.kv.close();
      }),
      { numRuns: 60 },
    );
  });

  test("edits in a batch have the same outcomes as edits written one by one", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (drawn) => {
        const together = await openStore();
        const alone = await openStore();
        const edits: DocumentEdit[] = [];
        for (const one of drawn) edits.push(await editOf(alone, one));
        const outcomes: WriteOutcome[] = [];
        for (const edit of edits) outcomes.push(...(await alone.edit(edit)));
        expect(await together.edit(...edits)).toEqual(outcomes);
        const [left, right] = [await views(together), await views(alone)];
        expect(left.leaves).toEqual(right.leaves);
        expect(left.all).toEqual(right.all);
        await expectConsistent(together);
      }),
      { numRuns: 60 },
    );
  });

  test("replicated edits converge, even if they are written concurrently and in any order", async () => {
    const grafts = fc.array(
      step.filter((drawn) => drawn.kind === "graft"),
      { minLength: 1, maxLength: 12 },
    );
    await fc.assert(
      fc.asyncProperty(
        grafts.chain((drawn) =>
          fc.tuple(fc.constant(drawn), fc.shuffledSubarray(drawn, { minLength: drawn.length })),
        ),
        async ([drawn, shuffled]) => {
          // The deleted flag is derived from the name, so that a revision has the same flag in all
          // edits.
          const honest = (one: Step): Step =>
            one.kind === "graft"
              ? { ...one, deleted: (one.path[0] as string).endsWith("bb") }
              : one;
          const [left, right] = [await openStore(), await openStore()];
          for (const one of drawn) await left.edit(await editOf(left, honest(one)));
          await Promise.all(
            shuffled.map(async (one) => right.edit(await editOf(right, honest(one)))),
          );
          expect((await views(right)).leaves).toEqual((await views(left)).leaves);
          await expectConsistent(right);
        },
      ),
      { numRuns: 60 },
    );
  });

  test("stays consistent when commits conflict, fail or have an unknown outcome", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { maxLength: 8 }),
        fc.nat(),
        async (batches, seed) => {
          const faults = { random: seededRandom(seed), conflictRatio: 0.2, unknownRatio: 0.2 };
          const [faulty, sound] = [await openStore({ faults }), await openStore()];
          for (const batch of batches) {
            const edits: DocumentEdit[] = [];
            for (const drawn of batch) edits.push(await editOf(sound, drawn));
            // Each batch is applied exactly once, even if the outcome of a commit is unknown.
            expect(await faulty.edit(...edits)).toEqual(await sound.edit(...edits));
          }
          expect((await views(faulty)).leaves).toEqual((await views(sound)).leaves);
          await expectConsistent(faulty);
        },
      ),
      { numRuns: 40 },
    );
  });
});
