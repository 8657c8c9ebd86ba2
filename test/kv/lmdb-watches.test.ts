/** Watches between processes: how soon they fire, and that a bell nobody heard does not matter. */
import { unlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSystemRuntime, openLmdbEngine } from "../../src/host/index.ts";
import { KeyValueStore } from "../../src/kv/index.ts";
import { bytes } from "../conformance/kv/fixture.ts";
import { openRemoteLmdbEngine } from "../support/kv/remote-engine.ts";
import { withDirectory } from "../support/with-directory.ts";

const runtime = createSystemRuntime();
const key = bytes("watched");

test("a watch fires within 50 ms of another process's commit, at the median", async () => {
  await withDirectory(async (directory) => {
    const kv = await openStore(directory);
    const other = new KeyValueStore({ runtime, engine: await openRemoteLmdbEngine(directory) });
    const delays: number[] = [];
    for (let round = 0; round < 21; round++) {
      const watch = await kv.transact(async (tx) => tx.watch(key));
      const committed = other.transact(async (tx) => tx.set(key, bytes(String(round))));
      const committedAt = committed.then(() => performance.now());
      await watch.fired();
      const firedMs = performance.now();
      delays.push(firedMs - (await committedAt));
    }
    delays.sort((one, another) => one - another);
    expect(delays[10]).toBeLessThan(50);
    await other.close();
    await kv.close();
  });
});

test("a watch fires although its process never hears the bell", async () => {
  await withDirectory(async (directory) => {
    const kv = await openStore(directory);
    const watch = await kv.transact(async (tx) => tx.watch(key));
    // Whoever comes now makes another bell.
    await unlink(join(directory, "bell"));
    const other = await openStore(directory);
    await other.transact(async (tx) => tx.set(key, bytes("1")));
    await watch.fired();
    await other.close();
    await kv.close();
  });
});

test("a snapshot that a body forgot is freed, so that the file does not grow with it", async () => {
  await withDirectory(async (directory) => {
    const engine = await openLmdbEngine({ runtime, directory });
    const attempt = engine.begin();
    await attempt.transaction.get(key);
    expect(engine.heldSnapshotCount).toBe(1);
    await runtime.clock.sleep(7_500);
    expect(engine.heldSnapshotCount).toBe(0);
    await expect(attempt.transaction.get(key)).rejects.toMatchObject({ code: "KV_TOO_OLD" });
    attempt.abandon();
    await engine.close();
  });
}, 20_000);

async function openStore(directory: string): Promise<KeyValueStore> {
  const engine = await openLmdbEngine({ runtime, directory });
  return new KeyValueStore({ runtime, engine });
}
