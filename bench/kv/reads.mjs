/**
 * Point reads and ranges of 500 rows, as ratios to raw LMDB: 100,000 rows of 600 bytes, many reads
 * per transaction.
 *
 * Measured 2026-11-21, Node.js 20, two busy cores, ext4 on a virtual disk; each pair gives the
 * medians of two runs: 0.61 and 0.50 for 100 point reads per transaction (0.74 and 0.75 if each raw
 * LMDB read is also awaited); 0.28 and 0.26 for a single one; 0.82 and 0.67 for ranges in a page;
 * 0.64 and 0.62 for ranges row by row. The difference from raw LMDB is due to the promise that each
 * call returns.
 */
import { Subspace } from "../../dist/kv/index.js";
import { compare, openRaw, openStore, withDirectory } from "./bench-store.mjs";

const rows = Subspace.fromTuple(["row"]);
const value = Buffer.alloc(600, 7);
const ROW_COUNT = 100_000;
const keys = Array.from({ length: ROW_COUNT }, (_, number) => rows.pack([number]));
const rawKeys = keys.map((key) => Buffer.from(key));
const READ_COUNT = 50_000;
const PAGE_COUNT = 200;
const end = rows.range().end;
const rawEnd = Buffer.from(end);

function perSecond(count, startedMs) {
  return count / ((performance.now() - startedMs) / 1_000);
}

await withDirectory(async (directory) => {
  const kv = await openStore(`${directory}/ours`);
  const raw = openRaw(`${directory}/raw`);
  for (let first = 0; first < ROW_COUNT; first += 5_000) {
    await kv.transact(async (tx) => {
      for (const key of keys.slice(first, first + 5_000)) tx.set(key, value);
    });
    await Promise.all(rawKeys.slice(first, first + 5_000).map((key) => raw.put(key, value)));
  }
  const drawn = (round) => (round * 7_919) % ROW_COUNT;

  const points = (readsPerTransaction, snapshot) => async () => {
    const startedMs = performance.now();
    for (let read = 0; read < READ_COUNT; ) {
      await kv.read(async (tx) => {
        const reads = snapshot ? tx.snapshot : tx;
        for (let index = 0; index < readsPerTransaction; index++, read++) {
          await reads.get(keys[drawn(read)]);
        }
      });
    }
    return perSecond(READ_COUNT, startedMs);
  };
  const rawPoints = async () => {
    const startedMs = performance.now();
    for (let read = 0; read < READ_COUNT; read++) raw.get(rawKeys[drawn(read)]);
    return perSecond(READ_COUNT, startedMs);
  };
  const rawPointsAwaited = async () => {
    const startedMs = performance.now();
    for (let read = 0; read < READ_COUNT; read++)
      await (async () => raw.get(rawKeys[drawn(read)]))();
    return perSecond(READ_COUNT, startedMs);
  };
  await compare("point reads, 100 per transaction", 5, points(100, false), rawPoints);
  await compare(
    "point reads, 100 per transaction, raw reads awaited",
    5,
    points(100, false),
    rawPointsAwaited,
  );
  await compare("point reads as snapshots, 100 per transaction", 5, points(100, true), rawPoints);
  await compare("point reads, one per transaction", 5, points(1, false), rawPoints);

  const ranges = async () => {
    const startedMs = performance.now();
    for (let page = 0; page < PAGE_COUNT; page++) {
      const begin = keys[drawn(page)];
      await kv.read((tx) => tx.getRangePage({ begin, end }, { limit: 500 }));
    }
    return perSecond(PAGE_COUNT, startedMs);
  };
  const streams = async () => {
    const startedMs = performance.now();
    for (let page = 0; page < PAGE_COUNT; page++) {
      await kv.read(async (tx) => {
        let count = 0;
        for await (const _row of tx.getRange({ begin: keys[drawn(page)], end }, { limit: 500 }))
          count++;
        return count;
      });
    }
    return perSecond(PAGE_COUNT, startedMs);
  };
  const rawRanges = async () => {
    const startedMs = performance.now();
    for (let page = 0; page < PAGE_COUNT; page++) {
      const found = [];
      const range = { start: rawKeys[drawn(page)], end: rawEnd, limit: 500 };
      for (const row of raw.getRange(range)) found.push(row);
    }
    return perSecond(PAGE_COUNT, startedMs);
  };
  await compare("ranges of 500 rows, in one page", 5, ranges, rawRanges);
  await compare("ranges of 500 rows, row by row", 5, streams, rawRanges);
  await kv.close();
  await raw.close();
});
