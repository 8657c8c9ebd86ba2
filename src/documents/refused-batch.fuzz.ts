import fc from "fast-check";
import { expect, test } from "vitest";
import { type RefusedBatch, writeInHalves } from "./refused-batch.ts";

/** Accepts a batch as a whole unless it contains an offending item. */
class Target {
  readonly guilty: ReadonlySet<number>;
  /** All writes, acceptances and refusals, in order. */
  readonly events: (readonly [kind: "write" | "taken" | "refused", ...items: number[]])[] = [];

  constructor(guilty: Iterable<number>) {
    this.guilty = new Set(guilty);
  }

  async write(items: readonly number[]): Promise<RefusedBatch<number, number>[]> {
    this.events.push(["write", ...items]);
    // As its cause, a refusal reports how many items were written together.
    if (items.some((item) => this.guilty.has(item))) return [{ items, cause: items.length }];
    for (const item of items) this.events.push(["taken", item]);
    return [];
  }

  refuse(item: number, cause: number): void {
    expect(cause).toBe(1);
    this.events.push(["refused", item]);
  }

  items(...kinds: string[]): number[] {
    return this.events.flatMap(([kind, ...items]) => (kinds.includes(kind) ? items : []));
  }

  get writeCount(): number {
    return this.events.filter(([kind]) => kind === "write").length;
  }
}

/**
 * Forms groups of items with consecutive numbers. Refuses each group that contains an offending
 * item, and accepts all other groups.
 */
class GroupingTarget extends Target {
  readonly #groupSize: number;

  constructor(guilty: Iterable<number>, groupSize: number) {
    super(guilty);
    this.#groupSize = groupSize;
  }

  override async write(items: readonly number[]): Promise<RefusedBatch<number, number>[]> {
    const groups = new Map<number, number[]>();
    for (const item of items) {
      const group = Math.floor(item / this.#groupSize);
      groups.set(group, [...(groups.get(group) ?? []), item]);
    }
    const refused = await Promise.all([...groups.values()].map((group) => super.write(group)));
    return refused.flat();
  }
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}

const batch = fc.array(fc.boolean(), { maxLength: 70 }).map((isGuilty) => ({
  items: range(isGuilty.length),
  guilty: range(isGuilty.length).filter((item) => isGuilty[item]),
}));
/** Few offending items among many. */
const rareGuilt = fc
  .tuple(fc.integer({ min: 1, max: 1_000 }), fc.array(fc.nat(), { maxLength: 5 }))
  .map(([count, places]) => ({
    items: range(count),
    guilty: [...new Set(places.map((place) => place % count))],
  }));

test("each valid item is accepted once, and each invalid item is refused once, individually", async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(batch, rareGuilt), fc.boolean(), async (given, bothHalvesFirst) => {
      const target = new Target(given.guilty);
      await writeInHalves(given.items, {
        write: (items) => target.write(items),
        refuse: (item, cause) => target.refuse(item, cause),
        bothHalvesFirst,
      });
      const innocent = given.items.filter((item) => !target.guilty.has(item));
      expect(target.items("taken").sort(ascending)).toEqual(innocent);
      expect(target.items("refused").sort(ascending)).toEqual([...given.guilty].sort(ascending));
    }),
  );
});

test("the number of writes does not exceed the documented bound", async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(batch, rareGuilt), fc.boolean(), async (given, bothHalvesFirst) => {
      const target = new Target(given.guilty);
      await writeInHalves(given.items, {
        write: (items) => target.write(items),
        refuse: (item, cause) => target.refuse(item, cause),
        bothHalvesFirst,
      });
      const count = given.items.length;
      const depth = Math.ceil(Math.log2(Math.max(1, count)));
      const writeCountMax = Math.min(2 * count - 1, 1 + 2 * given.guilty.length * depth);
      expect(target.writeCount).toBeLessThanOrEqual(Math.max(0, writeCountMax));
    }),
  );
});

test("items are accepted and refused in order", async () => {
  await fc.assert(
    fc.asyncProperty(batch, async ({ items, guilty }) => {
      const target = new Target(guilty);
      await writeInHalves(items, {
        write: (part) => target.write(part),
        refuse: (item, cause) => target.refuse(item, cause),
      });
      expect(target.items("taken", "refused")).toEqual(items);
    }),
  );
});

test("with `bothHalvesFirst`, all valid items are accepted before the only invalid one is refused", async () => {
  const count = fc.integer({ min: 1, max: 300 });
  await fc.assert(
    fc.asyncProperty(count, fc.nat(), async (itemCount, place) => {
      const guilty = place % itemCount;
      const target = new Target([guilty]);
      await writeInHalves(range(itemCount), {
        write: (items) => target.write(items),
        refuse: (item, cause) => target.refuse(item, cause),
        bothHalvesFirst: true,
      });
      expect(target.events.at(-1)).toEqual(["refused", guilty]);
      expect(target.items("taken")).toHaveLength(itemCount - 1);
    }),
  );
});

test("accepted items are not written again when other parts of the batch are refused", async () => {
  await fc.assert(
    fc.asyncProperty(
      batch,
      fc.integer({ min: 1, max: 9 }),
      fc.boolean(),
      async (given, groupSize, bothHalvesFirst) => {
        const target = new GroupingTarget(given.guilty, groupSize);
        await writeInHalves(given.items, {
          write: (items) => target.write(items),
          refuse: (item, cause) => target.refuse(item, cause),
          bothHalvesFirst,
        });
        const innocent = given.items.filter((item) => !target.guilty.has(item));
        expect(target.items("taken").sort(ascending)).toEqual(innocent);
        expect(target.items("refused").sort(ascending)).toEqual(given.guilty);
      },
    ),
  );
});

test("an error is rethrown, and nothing more is written", async () => {
  const written: number[][] = [];
  const writing = writeInHalves([1, 2, 3, 4], {
    async write(items: readonly number[]) {
      written.push([...items]);
      if (items.length === 2) throw new Error("The target is gone");
      return [{ items, cause: "refused" }];
    },
    refuse: () => {},
  });
  await expect(writing).rejects.toThrow("The target is gone");
  expect(written).toEqual([
    [1, 2, 3, 4],
    [1, 2],
  ]);
});

function ascending(a: number, b: number): number {
  return a - b;
}
