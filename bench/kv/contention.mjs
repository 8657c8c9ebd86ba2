/**
 * 64 writers that read and write 1, 10 or 1,000 keys: commits per second, and attempts per commit.
 *
 * Measured 2026-11-21, Node.js 20, two busy cores, ext4 on a virtual disk; each pair gives the
 * medians of two runs. Commits per second, relative to those with 1,000 keys: 0.24 and 0.29 with 10
 * keys (slowest commit 1.9 s), 0.07 and 0.16 with one key (slowest commit 3.2 s).
 */
import { Subspace } from "../../dist/kv/index.js";
import { openStore, print, rate, withDirectory } from "./bench-store.mjs";

const counters = Subspace.fromTuple(["counter"]);
const WRITERS = 64;

await withDirectory(async (directory) => {
  const kv = await openStore(directory);
  let base = 0;
  for (const keyCount of [1_000, 10, 1]) {
    let attempts = 0;
    let commits = 0;
    let slowestMs = 0;
    const perSecond = await rate(WRITERS, 3_000, async () => {
      const startedMs = performance.now();
      await kv.transact(async (tx) => {
        attempts++;
        const key = counters.pack([Math.floor(Math.random() * keyCount)]);
        const stored = await tx.get(key);
        const count =
          stored === undefined ? 0 : new DataView(stored.buffer, stored.byteOffset).getUint32(0);
        const next = new Uint8Array(4);
        new DataView(next.buffer).setUint32(0, count + 1);
        tx.set(key, next);
      });
      commits++;
      slowestMs = Math.max(slowestMs, performance.now() - startedMs);
    });
    base ||= perSecond;
    print(
      `contention, ${WRITERS} writers on ${keyCount} key${keyCount === 1 ? "" : "s"}: ${(perSecond / base).toFixed(2)} ` +
        `of the rate with 1,000 keys (${Math.round(perSecond)}/s, ${(attempts / commits).toFixed(1)} attempts per commit, slowest ${Math.round(slowestMs)} ms)`,
    );
  }
  await kv.close();
});
