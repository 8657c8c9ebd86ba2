/**
 * Serializability as a property: the results of concurrent transactions equal those of some
 * sequential order.
 */
import fc from "fast-check";
import type { KeyValueStore, Transaction } from "../../kv/index.ts";
import { expect } from "./expect.ts";
import type { Test } from "./features.ts";
import { clearAll, type Fixture, put, read, rows } from "./fixture.ts";
import { carryOut, Model, type Step } from "./model.ts";

/** Keys used by the random operations. They are so few that concurrent transactions conflict. */
const KEYS = ["a", "b", "c", "d", "e", "f"] as const;
const digits = fc.string({ unit: fc.constantFrom("0", "1", "5", "9"), minLength: 1, maxLength: 3 });
const key = fc.constantFrom(...KEYS);
const bound = fc.constantFrom(...KEYS, "g");

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant("get" as const), key }),
  fc.record({ kind: fc.constantFrom("next" as const, "previous" as const), key }),
  fc.record({
    kind: fc.constant("range" as const),
    begin: bound,
    end: bound,
    limit: fc.integer({ min: 1, max: 7 }),
    reverse: fc.boolean(),
  }),
  fc.record({ kind: fc.constant("set" as const), key, value: digits }),
  fc.record({ kind: fc.constant("clear" as const), key }),
  fc.record({ kind: fc.constant("clearRange" as const), begin: bound, end: bound }),
  fc.record({ kind: fc.constant("byteMin" as const), key, value: digits }),
  fc.record({ kind: fc.constant("copy" as const), from: key, to: key }),
);

/** Returns the seed. To repeat a failure, set it: `TANDEM_SEED=… npx vitest run test/kv`. */
function drawSeed(): number {
  const given = process.env.TANDEM_SEED;
  return given === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(given);
}

export function propertyTests(
  fixture: () => Fixture,
  test: Test,
  { runCount, hasAtomics }: { readonly runCount: number; readonly hasAtomics: boolean },
): void {
  const seed = drawSeed();
  const parameters = { seed, numRuns: runCount };
  const step = hasAtomics ? anyStep : anyStep.filter(({ kind }) => kind !== "byteMin");

  test(`a transaction reads its own writes exactly as a sequential model predicts (seed ${seed})`, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 20 }),
        fc.array(step, { minLength: 1, maxLength: 30 }),
        async (stored, steps) => {
          await clearAll(fixture().kv);
          const model = new Model();
          for (const each of stored) model.carryOut(each);
          await fixture().kv.transact(async (tx) => {
            for (const each of stored) await carryOut(tx, each);
          });
          await fixture().peerKv.transact(async (tx) => {
            const own = model.copy();
            for (const each of steps) expect(await carryOut(tx, each)).toBe(own.carryOut(each));
          });
          for (const each of steps) model.carryOut(each);
          const final = await fixture().kv.read((tx) => rows(tx, "a", "z"));
          expect(final).toEqual(model.rows());
        },
      ),
      parameters,
    );
  });

  test(`concurrent transactions are serializable in commit order (seed ${seed})`, async () => {
    const transaction = fc.array(step, { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(fc.array(transaction, { minLength: 2, maxLength: 12 }), async (bodies) => {
        await clearAll(fixture().kv);
        const committed = await Promise.all(
          bodies.map((steps, index) =>
            run(index % 2 === 0 ? fixture().kv : fixture().peerKv, steps),
          ),
        );
        const model = new Model();
        const inOrder = committed
          .filter(({ stamp }) => stamp !== undefined)
          .toSorted((one, other) => (String(one.stamp) < String(other.stamp) ? -1 : 1));
        for (const { steps, results } of inOrder) {
          expect(steps.map((each) => model.carryOut(each))).toEqual(results);
        }
        expect(await fixture().kv.read((tx) => rows(tx, "a", "z"))).toEqual(model.rows());
        for (const { stamp, steps, results } of committed) {
          // A read-only transaction must have read a state that existed between two other
          // transactions.
          if (stamp === undefined) expect(fitsSomewhere(steps, results, inOrder)).toBe(true);
        }
      }),
      parameters,
    );
  }, ["versionstamps"]);

  test(`a ring of keys remains a ring while many transactions rotate it (seed ${seed})`, async () => {
    const nodeCount = 12;
    const name = (node: number): string => `ring/${String(node).padStart(3, "0")}`;
    await fixture().kv.transact(async (tx) => {
      for (let node = 0; node < nodeCount; node++) {
        put(tx, name(node), String((node + 1) % nodeCount));
      }
    });
    const next = async (tx: Transaction, node: number): Promise<number> =>
      Number(await read(tx, name(node)));
    /** Swaps two neighbours: the ring a → b → c → d becomes a → c → b → d. */
    const turn = (kv: KeyValueStore, a: number): Promise<void> =>
      kv.transact(async (tx) => {
        const b = await next(tx, a);
        const c = await next(tx, b);
        const d = await next(tx, c);
        put(tx, name(a), String(c));
        put(tx, name(c), String(b));
        put(tx, name(b), String(d));
      });
    const starts = fc.sample(fc.nat(nodeCount - 1), { seed, numRuns: 60 });
    await Promise.all(
      [0, 1, 2, 3, 4, 5].map(async (worker) => {
        const kv = worker % 2 === 0 ? fixture().kv : fixture().peerKv;
        for (const start of starts.slice(worker * 10, worker * 10 + 10)) await turn(kv, start);
      }),
    );
    const length = await fixture().kv.transact(async (tx) => {
      let node = 0;
      let count = 0;
      do {
        node = await next(tx, node);
        count++;
      } while (node !== 0 && count <= nodeCount);
      return count;
    });
    expect(length).toBe(nodeCount);
  });
}

interface Committed {
  readonly steps: readonly Step[];
  readonly results: readonly string[];
  /** Versionstamp of the commit; undefined for a read-only transaction. */
  readonly stamp: string | undefined;
}

async function run(kv: KeyValueStore, steps: readonly Step[]): Promise<Committed> {
  let stamp: string | undefined;
  const results = await kv.transact(async (tx) => {
    stamp = undefined;
    tx.afterCommit(({ versionstamp }) => {
      stamp = versionstamp?.toString();
    });
    const seen: string[] = [];
    for (const each of steps) seen.push(await carryOut(tx, each));
    return seen;
  });
  return { steps, results, stamp };
}

function fitsSomewhere(
  steps: readonly Step[],
  results: readonly string[],
  inOrder: readonly Committed[],
): boolean {
  const model = new Model();
  const fits = (): boolean =>
    steps.map((each) => model.carryOut(each)).join("\n") === results.join("\n");
  if (fits()) return true;
  return inOrder.some((committed) => {
    for (const each of committed.steps) model.carryOut(each);
    return fits();
  });
}
