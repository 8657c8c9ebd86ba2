/** Seeded faults of the memory engine, which the simulations use. */
import { expect, test } from "vitest";
import type { Clock, Random, Runtime } from "../../src/base/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import {
  KeyValueStore,
  MemoryEngine,
  type MemoryFaults,
  MemoryStorage,
} from "../../src/kv/index.ts";
import { put, read } from "../../src/library/kv-conformance/fixture.ts";

const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8];
const FAULTS: Omit<MemoryFaults, "random"> = {
  conflictRatio: 0.2,
  unknownRatio: 0.3,
  tooOldRatio: 0.1,
  delayMsMax: 5,
};

test.each(SEEDS)(
  "with transaction ids, a counter is exact despite all faults (seed %i)",
  async (seed) => {
    const { kvs } = openNodes(seed, FAULTS);
    const rounds = Array.from({ length: 20 }, (_, round) => round);
    await Promise.all(
      kvs.map(async (kv, node) => {
        for (const round of rounds) {
          await kv.transact(async (tx) => {
            put(tx, "count", String(Number((await read(tx, "count")) ?? "0") + 1));
            put(tx, `${node}/${round}`, "done");
          });
        }
      }),
    );
    const [first] = kvs as [KeyValueStore];
    expect(await first.read((tx) => read(tx, "count"))).toBe("60");
  },
);

test("without transaction ids, a commit with an unknown outcome throws an error, whether or not it was applied", async () => {
  const { kvs } = openNodes(11, { unknownRatio: 0.5 });
  const [kv] = kvs as [KeyValueStore];
  const fates = { committed: 0, unknown: 0 };
  for (let round = 0; round < 60; round++) {
    await kv
      .transact(async (tx) => tx.add(new Uint8Array([1]), 1n), { whenUnknown: "throw" })
      .then(
        () => fates.committed++,
        (error) => {
          expect(error.code).toBe("KV_UNKNOWN_COMMIT");
          fates.unknown++;
        },
      );
  }
  const applied = (await kv.read((tx) => tx.get(new Uint8Array([1]))))?.[0] ?? 0;
  expect(fates.unknown).toBeGreaterThan(0);
  expect(applied).toBeGreaterThan(fates.committed);
  expect(applied).toBeLessThan(60);
});

test("transaction ids do not accumulate", async () => {
  const { kvs } = openNodes(31, FAULTS);
  const [kv] = kvs as [KeyValueStore];
  for (let round = 0; round < 100; round++) {
    await kv.transact(async (tx) => put(tx, "a", String(round)));
  }
  const ids = { begin: new Uint8Array([0xfe]), end: new Uint8Array([0xff]) };
  const page = await kv.read((tx) => tx.getRangePage(ids));
  expect(page.entries.length).toBeLessThanOrEqual(2);
});

test("concurrent transactions remove the ids of different settled transactions", async () => {
  const { kvs } = openNodes(32, {});
  const [kv] = kvs as [KeyValueStore];
  const atOnce = 500;
  for (let round = 0; round < 5; round++) {
    const numbers = Array.from({ length: atOnce }, (_, number) => number);
    await Promise.all(
      numbers.map((number) => kv.transact(async (tx) => put(tx, `a${number}`, String(round)))),
    );
  }
  const ids = { begin: new Uint8Array([0xfe]), end: new Uint8Array([0xff]) };
  const page = await kv.read((tx) => tx.getRangePage(ids));
  expect(page.entries.length).toBeLessThanOrEqual(atOnce);
});

test("the same seed causes the same faults, and another seed causes different faults", async () => {
  const trace = async (seed: number): Promise<string> => {
    const { kvs, events } = openNodes(seed, FAULTS);
    const [kv] = kvs as [KeyValueStore];
    for (let round = 0; round < 50; round++) {
      await kv.transact(async (tx) => put(tx, await read(tx, "a").then(String), "x"), {
        whenUnknown: "retry",
      });
    }
    return events.join();
  };
  expect(await trace(21)).toBe(await trace(21));
  expect(await trace(22)).not.toBe(await trace(21));
});

test("a body is repeated ten times if each attempt takes too long", async () => {
  const { kvs, clock } = openNodes(1, { tooOldRatio: 1 });
  const [kv] = kvs as [KeyValueStore];
  let attemptCount = 0;
  const reading = kv.read(async (tx) => {
    attemptCount++;
    await clock.sleep(50_000);
    await read(tx, "key");
  });
  await expect(reading).rejects.toMatchObject({ code: "KV_TOO_OLD" });
  expect(attemptCount).toBe(11);
});

/** Opens three nodes that share one store. Their clock advances by a tenth, without waiting. */
function openNodes(
  seed: number,
  faults: Omit<MemoryFaults, "random">,
): { readonly kvs: KeyValueStore[]; readonly clock: Clock; readonly events: string[] } {
  const events: string[] = [];
  const storage = new MemoryStorage();
  const system = createSystemRuntime();
  let nowMs = 0;
  const runtime: Runtime = {
    ...system,
    random: new SeededRandom(seed),
    clock: {
      nowMs: () => nowMs,
      monotonicMs: () => nowMs,
      async sleep(durationMs, signal) {
        signal?.throwIfAborted();
        nowMs += durationMs / 10;
      },
    },
    trace: { event: (name, fields) => events.push(`${name} ${JSON.stringify(fields)}`) },
  };
  const kvs = [0, 1, 2].map(
    (node) =>
      new KeyValueStore({
        runtime: { ...runtime, random: new SeededRandom(seed * 10 + node) },
        engine: new MemoryEngine({
          runtime,
          storage,
          faults: { ...faults, random: new SeededRandom(seed * 100 + node) },
        }),
      }),
  );
  return { kvs, clock: runtime.clock, events };
}

/** A small random number generator (mulberry32). Its results differ sufficiently between seeds. */
class SeededRandom implements Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  ratio(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  integer(limit: number): number {
    return Math.floor(this.ratio() * limit);
  }

  bytes(byteCount: number): Uint8Array {
    return Uint8Array.from({ length: byteCount }, () => this.integer(256));
  }

  fork(label: string): Random {
    let seed = this.#state;
    for (const letter of label) seed = Math.imul(seed, 31) + letter.charCodeAt(0);
    return new SeededRandom(seed);
  }
}
