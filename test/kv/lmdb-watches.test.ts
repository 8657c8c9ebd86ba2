/** Watches across processes: a signal wakes them, but they also fire if the signal is lost. */
import { unlink } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { createSystemRuntime, openLmdbEngine } from "../../src/host/index.ts";
import { KeyValueStore } from "../../src/kv/index.ts";
import { bytes } from "../../src/library/kv-conformance/fixture.ts";
import { openRemoteLmdbEngine } from "../support/kv/remote-engine.ts";
import { withDirectory } from "../support/with-directory.ts";

const runtime = createSystemRuntime();
const key = bytes("watched");

afterEach(() => {
  vi.useRealTimers();
});

test("a commit of another process wakes a watch without polling", async () => {
  // Fakes the timers and never advances them, so that the store does not poll.
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  await withDirectory(async (directory) => {
    const kv = await openStore(directory);
    const other = new KeyValueStore({ runtime, engine: await openRemoteLmdbEngine(directory) });
    for (let round = 0; round < 21; round++) {
      const watch = await kv.transact(async (tx) => tx.watch(key));
      await other.transact(async (tx) => tx.set(key, bytes(String(round))));
      await watch.fired();
    }
    await other.close();
    await kv.close();
  });
});

test("a watch fires even if its process never receives the signal", async () => {
  await withDirectory(async (directory) => {
    const kv = await openStore(directory);
    const watch = await kv.transact(async (tx) => tx.watch(key));
    // The next process that opens the store creates a new file `bell`. Its signals therefore do not
    // reach this process.
    await unlink(join(directory, "bell"));
    const other = await openStore(directory);
    await other.transact(async (tx) => tx.set(key, bytes("1")));
    await watch.fired();
    await other.close();
    await kv.close();
  });
});

test("a snapshot that was not closed is freed eventually, so that the file does not grow", async () => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
  await withDirectory(async (directory) => {
    const engine = await openLmdbEngine({ runtime, directory });
    const attempt = engine.begin();
    await attempt.transaction.get(key);
    expect(engine.heldSnapshotCount).toBe(1);
    vi.advanceTimersByTime(7_500);
    expect(engine.heldSnapshotCount).toBe(0);
    await expect(attempt.transaction.get(key)).rejects.toMatchObject({ code: "KV_TOO_OLD" });
    attempt.cancel();
    await engine.close();
  });
});

async function openStore(directory: string): Promise<KeyValueStore> {
  const engine = await openLmdbEngine({ runtime, directory });
  return new KeyValueStore({ runtime, engine });
}
