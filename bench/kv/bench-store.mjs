/**
 * Tools of the key-value benchmarks: temporary stores, raw LMDB with the same options, medians of
 * rounds.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open } from "lmdb";
import { openLmdbEngine } from "../../dist/host/lmdb/engine.js";
import { createSystemRuntime } from "../../dist/host/system/runtime.js";
import { KeyValueStore } from "../../dist/kv/index.js";

export const runtime = createSystemRuntime();

export async function withDirectory(body) {
  const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
  try {
    return await body(directory);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

export async function openStore(directory) {
  return new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
}

/** Opens LMDB itself, with the options of the engine. */
export function openRaw(directory) {
  return open({
    path: directory,
    keyEncoding: "binary",
    encoding: "binary",
    pageSize: 8_192,
    overlappingSync: false,
    maxReaders: 1_024,
    mapSize: 2 ** 36,
  });
}

/**
 * Measures the operations per second of `operate(loop, index)` in `loopCount` concurrent loops, for
 * about `durationMs`.
 */
export async function rate(loopCount, durationMs, operate) {
  const startedMs = performance.now();
  const endMs = startedMs + durationMs;
  let count = 0;
  await Promise.all(
    Array.from({ length: loopCount }, async (_, loop) => {
      for (let index = 0; performance.now() < endMs; index++) {
        await operate(loop, index);
        count++;
      }
    }),
  );
  return count / ((performance.now() - startedMs) / 1_000);
}

export function median(values) {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)];
}

/** Runs both in turn, so that other load affects both, and prints the ratio of the medians. */
export async function compare(what, rounds, ours, theirs) {
  const rates = { ours: [], theirs: [] };
  for (let round = 0; round < rounds; round++) {
    rates.theirs.push(await theirs());
    rates.ours.push(await ours());
  }
  const [our, their] = [median(rates.ours), median(rates.theirs)];
  print(
    `${what}: ${(our / their).toFixed(2)} (${Math.round(our)}/s against ${Math.round(their)}/s)`,
  );
}

export function print(line) {
  process.stdout.write(`${line}\n`);
}
