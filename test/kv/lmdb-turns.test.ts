/**
 * Reads of LMDB are synchronous, but a long series of awaited reads must yield to the event loop.
 * Small commits must overtake large transactions.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { utf8Encode } from "../../src/base/index.ts";
import { createSystemRuntime, openLmdbEngine } from "../../src/host/index.ts";
import { KeyValueStore } from "../../src/kv/index.ts";

/** Maximum number of reads. This many reads take much longer than ten milliseconds. */
const READS_MAX = 100_000;

const directory = mkdtempSync(join(tmpdir(), "tandem-kv-"));
const runtime = createSystemRuntime();
const key = utf8Encode("key");
const range = { begin: key, end: utf8Encode("kez") };
let kv: KeyValueStore;

beforeAll(async () => {
  kv = new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
  await kv.transact(async (tx) => tx.set(key, utf8Encode("value")));
});

afterAll(async () => {
  await kv.close();
  rmSync(directory, { recursive: true });
});

/** Reads until a timer fires, at most `READS_MAX` times. Returns whether the timer has fired. */
async function isServed(read: () => Promise<unknown>): Promise<boolean> {
  let isOver = false;
  const timer = setTimeout(() => {
    isOver = true;
  }, 0);
  for (let count = 0; count < READS_MAX && !isOver; count++) await read();
  clearTimeout(timer);
  return isOver;
}

test("consecutive transactions yield to the event loop", async () => {
  expect(await isServed(() => kv.read((tx) => tx.get(key)))).toBe(true);
});

test("reading a range page by page in one transaction yields to the event loop", async () => {
  expect(await kv.read((tx) => isServed(() => tx.getRangePage(range)))).toBe(true);
});

test("a small transaction is committed before large transactions that wait", async () => {
  const commit = (name: string, count: number) =>
    kv.transact(async (tx) => {
      for (let at = 0; at < count; at++) tx.set(utf8Encode(`${name}${at}`), key);
      return name;
    });
  const order: string[] = [];
  const large = ["a", "b", "c", "d"].map((name) => commit(name, 4_000));
  await Promise.all([...large, commit("small", 1)].map(async (name) => order.push(await name)));
  expect(order.toSorted()).toEqual(["a", "b", "c", "d", "small"]);
  expect(order.indexOf("small")).toBeLessThan(2);
});
