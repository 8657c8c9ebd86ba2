/**
 * Compares the pending counts of the update sequence with counts by enumeration, in rounds of
 * concurrent transactions. Each transaction moves some old changes to the end and adds some.
 * Boundaries are only a few changes apart on average, so that sweeps merge and clear many.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createSystemRuntime } from "../../host/index.ts";
import { KeyValueStore, MemoryEngine, Subspace, Versionstamp } from "../../kv/index.ts";
import { databaseKeysIn } from "../records/database-keys.ts";
import { seededRandom } from "../store.fixture.ts";
import { openState } from "../transaction-state.ts";
import { ChangeCounts } from "./change-counts.ts";
import { CounterDeltas } from "./counter-deltas.ts";

const SPACING = 4;
const EMPTY = new Uint8Array(0);
const RECORD = {
  uuid: "00".repeat(16),
  instanceStartTime: 1,
  revisionLimit: 1_000,
  indexSet: 0,
  hasWinnerRows: false,
  number: 1,
};

const round = fc.array(
  fc.array(
    fc.record({ moved: fc.array(fc.nat(), { maxLength: 4 }), added: fc.nat(4) }),
    // Batches per transaction.
    { minLength: 1, maxLength: 2 },
  ),
  { minLength: 1, maxLength: 4 },
);

describe("the counts of the update sequence", () => {
  test("match a count of all changes", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(round, { maxLength: 40 }), fc.nat(), async (rounds, seed) => {
        const runtime = createSystemRuntime();
        const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
        const keys = databaseKeysIn(Subspace.fromTuple(["counts"]));
        const counts = new ChangeCounts(keys, seededRandom(seed), SPACING);
        const changes = (): Promise<Versionstamp[]> =>
          kv.read(async (tx) => {
            const page = await tx.getRangePage(keys.change.range());
            return page.entries.map(({ key }) => Versionstamp.endOf(key));
          });
        for (const transactions of rounds) {
          const stored = await changes();
          const taken = new Set<number>();
          await Promise.all(
            transactions.map((batches) => {
              // At most one transaction of a round moves a change. In practice, reading the
              // document's record ensures this.
              const work = batches.map(({ moved, added }) => {
                const places = moved.map((at) => at % Math.max(1, stored.length));
                const own = [...new Set(places)].filter((at) => at in stored && !taken.has(at));
                for (const at of own) taken.add(at);
                return { leaving: own.map((at) => stored[at] as Versionstamp), added };
              });
              return kv.transact(async (tx) => {
                const state = openState(tx, RECORD);
                for (const { leaving, added } of work) {
                  await counts.begin(tx, state, leaving.length + added);
                  const places = await counts.prepareLeave(tx, state, leaving);
                  const deltas = new CounterDeltas(keys);
                  for (const [index, versionstamp] of leaving.entries()) {
                    tx.clear(keys.change.key({ versionstamp }));
                    counts.leave(places[index], deltas);
                  }
                  for (let index = 0; index < leaving.length + added; index++) {
                    tx.setVersionstampedKey(keys.change.newKey({}, tx.nextUserVersion()), EMPTY);
                    counts.enter(state);
                  }
                  deltas.apply(tx);
                  counts.finish(tx, state);
                }
              });
            }),
          );
          const now = await changes();
          await kv.read(async (tx) => {
            for (const [index, versionstamp] of now.entries()) {
              expect(await counts.countAfter(tx, versionstamp)).toBe(now.length - 1 - index);
            }
          });
        }
        await kv.close();
      }),
      { numRuns: 60 },
    );
  });

  test("divide a long sequence into about as many parts as a part has changes", async () => {
    const runtime = createSystemRuntime();
    const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
    const keys = databaseKeysIn(Subspace.fromTuple(["counts"]));
    const counts = new ChangeCounts(keys, seededRandom(7), SPACING);
    const total = 3_000;
    for (let number = 0; number < total; number++) {
      await kv.transact(async (tx) => {
        const state = openState(tx, RECORD);
        await counts.begin(tx, state, 1);
        const deltas = new CounterDeltas(keys);
        deltas.add("documents", 1);
        tx.setVersionstampedKey(keys.change.newKey({}, tx.nextUserVersion()), EMPTY);
        counts.enter(state);
        deltas.apply(tx);
        counts.finish(tx, state);
      });
    }
    await kv.read(async (tx) => {
      const boundaries = await tx.getRangePage(keys.boundary.range());
      // The square root is 55. With a spacing of four, there would be several hundred boundaries.
      expect(boundaries.entries.length).toBeLessThan(150);
      const changes = await tx.getRangePage(keys.change.range());
      for (let at = 0; at < total; at += 100) {
        const versionstamp = Versionstamp.endOf((changes.entries[at] as { key: Uint8Array }).key);
        expect(await counts.countAfter(tx, versionstamp)).toBe(total - 1 - at);
      }
    });
    await kv.close();
  });

  test("keep few partial counts and boundaries over a long history", async () => {
    const runtime = createSystemRuntime();
    const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
    const keys = databaseKeysIn(Subspace.fromTuple(["counts"]));
    const counts = new ChangeCounts(keys, seededRandom(7), SPACING);
    // Positions of the changes. One in ten stays where it is; the others move to the end
    // repeatedly.
    const places: Versionstamp[] = [];
    for (let round = 0; round < 2_000; round++) {
      const leaving = round < 60 ? undefined : places[(round * 7) % 54];
      const userVersion = await kv.transact(async (tx) => {
        const state = openState(tx, RECORD);
        await counts.begin(tx, state, 1);
        const [place] = await counts.prepareLeave(tx, state, [leaving]);
        const deltas = new CounterDeltas(keys);
        if (leaving !== undefined) tx.clear(keys.change.key({ versionstamp: leaving }));
        counts.leave(place, deltas);
        const drawn = tx.nextUserVersion();
        tx.setVersionstampedKey(keys.change.newKey({}, drawn), EMPTY);
        counts.enter(state);
        deltas.apply(tx);
        counts.finish(tx, state);
        return drawn;
      });
      const page = await kv.read((tx) =>
        tx.getRangePage(keys.change.range(), { limit: 1, reverse: true }),
      );
      const written = Versionstamp.endOf((page.entries[0] as { key: Uint8Array }).key);
      expect(written.bytes[11]).toBe(userVersion);
      places[round < 60 ? round : (round * 7) % 54] = written;
    }
    const [shares, boundaries] = await kv.read((tx) =>
      Promise.all([tx.getRangePage(keys.share.range()), tx.getRangePage(keys.boundary.range())]),
    );
    // 2,000 transactions added about 500 boundaries; 60 changes remain.
    expect(shares.entries.length).toBeLessThan(150);
    expect(boundaries.entries.length).toBeLessThan(60);
    await kv.close();
  });
});
