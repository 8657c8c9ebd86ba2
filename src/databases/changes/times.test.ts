import { beforeEach, expect, test } from "vitest";
import { createSystemRuntime } from "../../host/index.ts";
import { interactive, type OpenStore, openStore, revisionOf } from "../store.fixture.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const START_MS = Date.UTC(2026, 0, 1);

let nowMs: number;
let store: OpenStore;

beforeEach(async () => {
  nowMs = START_MS;
  const runtime = createSystemRuntime();
  const clock = { ...runtime.clock, nowMs: () => nowMs };
  store = await openStore({ runtime: { ...runtime, clock } });
});

const record = () => store.kv.transact((tx) => store.registry.times.record(tx));
const reset = () => store.write((tx, { times }) => times.reset(tx));
const periods = () => store.read((tx, { times }) => times.periods(tx));
const idsSince = (timeMs: number) =>
  store.read(async (tx, { times, changes }) => {
    const since = await times.sequenceSince(tx, timeMs);
    return (await changes.page(tx, { since })).entries.map(({ id }) => id);
  });

/**
 * For each id, adds an entry to the time table, writes the document, and advances the clock by an
 * hour.
 */
async function writeHourly(...ids: string[]): Promise<void> {
  for (const id of ids) {
    await record();
    nowMs += MINUTE_MS;
    await store.edit(interactive(id));
    nowMs += HOUR_MS - MINUTE_MS;
  }
}

test("a start time returns all changes since then, and possibly some earlier ones", async () => {
  await writeHourly("a", "b", "c");
  expect(await idsSince(START_MS - 1)).toEqual(["a", "b", "c"]);
  expect(await idsSince(START_MS + HOUR_MS + 10 * MINUTE_MS)).toEqual(["b", "c"]);
  expect(await idsSince(START_MS + 2 * HOUR_MS + MINUTE_MS)).toEqual(["c"]);
  expect(await idsSince(nowMs)).toEqual(["c"]);
  expect(await idsSince(nowMs + 2 * MINUTE_MS)).toEqual([]);
  expect(await idsSince(Number.MAX_SAFE_INTEGER)).toEqual([]);
  expect(await idsSince(-1e15)).toEqual(["a", "b", "c"]);
});

test("a start time tolerates clocks that differ by a minute", async () => {
  await writeHourly("a", "b");
  // The entry before `b` was added at this time. The clock of the node that added it might be
  // behind, so `a` is included.
  expect(await idsSince(START_MS + HOUR_MS)).toEqual(["a", "b"]);
  expect(await idsSince(START_MS + HOUR_MS + MINUTE_MS - 1)).toEqual(["a", "b"]);
  expect(await idsSince(START_MS + HOUR_MS + MINUTE_MS)).toEqual(["b"]);
});

test("an entry is added only if a database has changed and the interval has passed", async () => {
  const versions = async () => {
    const entries = await store.kv.read((tx) => store.registry.times.entries(tx));
    return entries.map(({ timeMs }) => (timeMs - START_MS) / MINUTE_MS);
  };
  await record();
  nowMs += HOUR_MS;
  await record();
  expect(await versions()).toEqual([0]);
  await store.edit(interactive("a"));
  await record();
  await store.edit(interactive("b"));
  nowMs += 4 * MINUTE_MS;
  await record();
  expect(await versions()).toEqual([0, 60]);
  nowMs += MINUTE_MS;
  await record();
  expect(await versions()).toEqual([0, 60, 65]);
});

test("each document is counted in the period of its latest change", async () => {
  await store.edit(interactive("before"));
  await writeHourly("a", "b");
  const [written] = await store.edit(interactive("c"));
  await writeHourly("d");
  await store.edit(interactive("c", revisionOf(written)));
  const began = (hours: number) => START_MS + hours * HOUR_MS;
  expect(await periods()).toEqual([
    { beganMs: 0, changeCount: 1 },
    { beganMs: began(0), changeCount: 1 },
    { beganMs: began(1), changeCount: 1 },
    { beganMs: began(2), changeCount: 2 },
  ]);
});

test("a reset discards the times of one database and keeps those of others", async () => {
  await writeHourly("a", "b");
  await store.kv.transact((tx) => store.registry.create(tx, "books"));
  const ofBooks = () =>
    store.kv.read(async (tx) => {
      const { times } = await store.registry.open(tx, "books");
      return times.sequenceSince(tx, nowMs);
    });
  const before = await ofBooks();
  expect(before).not.toBe("0");
  await reset();
  expect(await periods()).toEqual([]);
  expect(await idsSince(nowMs)).toEqual(["a", "b"]);
  expect(await ofBooks()).toBe(before);
  await writeHourly("c");
  expect(await idsSince(nowMs)).toEqual(["c"]);
});

test("a clock that was ahead makes readers start early until the times are reset", async () => {
  await writeHourly("a");
  nowMs += 1_000 * HOUR_MS;
  await record();
  nowMs -= 1_000 * HOUR_MS;
  await writeHourly("b", "c");
  expect(await idsSince(nowMs)).toEqual(["a", "b", "c"]);
  await reset();
  await writeHourly("d", "e");
  expect(await idsSince(nowMs)).toEqual(["e"]);
});

test("a removed database cannot be reset, and a re-created database has no times", async () => {
  await writeHourly("a");
  await reset();
  await store.kv.transact((tx) => store.registry.remove(tx, "films"));
  await expect(reset()).rejects.toMatchObject({ code: "STORE_DATABASE_NOT_FOUND" });
  await store.kv.transact((tx) => store.registry.create(tx, "films"));
  expect(await periods()).toEqual([]);
  expect(await idsSince(START_MS)).toEqual([]);
});
