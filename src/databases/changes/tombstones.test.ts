import { beforeEach, describe, expect, test } from "vitest";
import { createSystemRuntime } from "../../host/index.ts";
import {
  CONTEXT,
  interactive,
  type OpenStore,
  openStore,
  replicated,
  revisionOf,
} from "../store.fixture.ts";
import type { PurgedTombstones } from "./tombstones.ts";

const HOUR_MS = 3_600_000;

let nowMs: number;
let store: OpenStore;

beforeEach(async () => {
  nowMs = Date.UTC(2026, 0, 1);
  const runtime = createSystemRuntime();
  const clock = { ...runtime.clock, nowMs: () => nowMs };
  store = await openStore({ runtime: { ...runtime, clock } });
});

/** Advances the clock by an hour, then adds an entry to the time table. */
async function pass(): Promise<void> {
  nowMs += HOUR_MS;
  await store.kv.transact((tx) => store.registry.times.record(tx));
}

/** Writes documents whose only revision is a deletion. */
const tombstones = (...ids: string[]) =>
  store.edit(...ids.map((id) => replicated(id, [`1-${id}`], { deleted: true })));

const step = (
  ageMs: number,
  rest: PurgedTombstones["rest"] = [],
  beforePurge?: () => Promise<unknown>,
): Promise<PurgedTombstones> => {
  let isFirst = true;
  return store.write(async (tx, database) => {
    const done = await database.tombstones.purge(tx, { beforeMs: nowMs - ageMs, rest }, CONTEXT);
    if (isFirst) await beforePurge?.();
    isFirst = false;
    return done;
  });
};

/** Purges documents that were deleted at least `ageMs` ago. Returns their number. */
async function purge(ageMs: number): Promise<number> {
  let count = 0;
  let done: PurgedTombstones = { documentCount: 0, rest: [], isLast: false };
  while (!done.isLast) {
    done = await step(ageMs, done.rest);
    count += done.documentCount;
  }
  return count;
}

const ids = () =>
  store.read(async (tx, { changes }) => (await changes.page(tx, {})).entries.map(({ id }) => id));

describe("a purge by age", () => {
  test("removes documents that were deleted long ago, and nothing else", async () => {
    const [kept, gone] = await store.edit(interactive("kept"), interactive("gone"));
    await store.edit(interactive("gone", revisionOf(gone), { deleted: true }));
    await tombstones("old");
    await pass();
    await pass();
    await store.edit(interactive("kept", revisionOf(kept), { deleted: true }));
    await tombstones("new");
    await pass();
    expect(await purge(1.5 * HOUR_MS)).toBe(2);
    expect(await ids()).toEqual(["kept", "new"]);
    const info = await store.read((tx, database) => database.info(tx));
    expect(info).toMatchObject({ documentCount: 0, deletedDocumentCount: 2, purgeCount: 2 });
    const infos = await store.read((tx, { purges }) => purges.infos(tx));
    expect(infos.map(({ id }) => id)).toEqual(["gone", "old"]);
    expect(await purge(1.5 * HOUR_MS)).toBe(0);
    await pass();
    // The next entry after the deletions is an hour old, so they are only known to be older than an
    // hour.
    expect(await purge(1.5 * HOUR_MS)).toBe(0);
    await pass();
    expect(await purge(1.5 * HOUR_MS)).toBe(2);
    expect(await ids()).toEqual([]);
  });

  test("keeps a document with a leaf that is not deleted", async () => {
    await store.edit(
      replicated("a", ["2-x", "1-a"], { deleted: true }),
      replicated("a", ["2-y", "1-a"]),
      replicated("b", ["2-x", "1-a"], { deleted: true }),
      replicated("b", ["2-y", "1-a"], { deleted: true }),
    );
    await pass();
    await pass();
    expect(await purge(0)).toBe(1);
    expect(await ids()).toEqual(["a"]);
    const leaves = await store.read((tx, { documents }) => documents.leaves(tx, "a"));
    expect(leaves).toHaveLength(2);
  });

  test("keeps a document that is re-created while the purge is in progress", async () => {
    await tombstones("a", "b");
    await pass();
    await pass();
    const createAgain = () => store.edit(replicated("a", ["2-new", "1-a"]));
    expect(await step(0, [], createAgain)).toMatchObject({ documentCount: 1, isLast: true });
    expect(await ids()).toEqual(["a"]);
    const [document] = await store.read((tx, { documents }) => documents.leaves(tx, "a"));
    expect(document).toMatchObject({ deleted: false });
  });

  test("purges nothing while no times are known", async () => {
    await tombstones("a");
    nowMs += 1_000 * HOUR_MS;
    expect(await purge(0)).toBe(0);
    await pass();
    expect(await purge(0)).toBe(0);
    await pass();
    expect(await purge(0)).toBe(1);
  });

  test("continues after the last purge, in transactions of 100 documents", async () => {
    const names = Array.from({ length: 250 }, (_, index) => `d${index}`);
    await tombstones(...names);
    await pass();
    await pass();
    expect(await step(0)).toEqual({ documentCount: 100, rest: [], isLast: false });
    expect((await ids()).length).toBe(150);
    const counted = await store.read((tx, database) =>
      database.tombstones.count(tx, { beforeMs: nowMs }),
    );
    expect(counted).toMatchObject({ count: 100, isLast: false });
    expect(await purge(0)).toBe(150);
    expect(await ids()).toEqual([]);
  });

  test("removes a document whose leaves exceed one transaction", async () => {
    const many = Array.from({ length: 1_500 }, (_, index) =>
      replicated("many", [`1-${index.toString(16).padStart(32, "0")}`], { deleted: true }),
    );
    await tombstones("first");
    for (let at = 0; at < many.length; at += 500) await store.edit(...many.slice(at, at + 500));
    await tombstones("last");
    await pass();
    await pass();
    expect(await purge(0)).toBe(3);
    expect(await ids()).toEqual([]);
  });

  test("does not purge the rest of a document that is re-created between transactions", async () => {
    const many = Array.from({ length: 1_500 }, (_, index) =>
      replicated("many", [`1-${index.toString(16).padStart(32, "0")}`], { deleted: true }),
    );
    for (let at = 0; at < many.length; at += 500) await store.edit(...many.slice(at, at + 500));
    await pass();
    await pass();
    const first = await step(0);
    expect(first).toMatchObject({ documentCount: 0, isLast: false });
    await store.edit(replicated("many", ["5-new", "4-old"]));
    const count = () => store.read((tx, { documents }) => documents.leaves(tx, "many"));
    const before = (await count()).length;
    expect(await step(0, first.rest)).toEqual({ documentCount: 0, rest: [], isLast: false });
    expect((await count()).length).toBe(before);
  });
});

test("the time to live is stored with the database", async () => {
  const ttl = () => store.read((tx, database) => database.tombstones.ttl(tx));
  const set = (text?: string) =>
    store.write((tx, database) => database.tombstones.setTtl(tx, text));
  expect(await ttl()).toBeUndefined();
  await set("3_days");
  expect(await ttl()).toBe("3_days");
  await set();
  expect(await ttl()).toBeUndefined();
});
