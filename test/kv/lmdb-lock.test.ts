/**
 * Commits wait for LMDB's lock, and are not woken when it is released
 * (docs/decisions/0174-locks-of-dead-processes.md).
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { createSystemRuntime, openLmdbEngine } from "../../src/host/index.ts";
import { KeyValueStore } from "../../src/kv/index.ts";
import { bytes } from "../../src/library/kv-conformance/fixture.ts";
import { withDirectory } from "../support/with-directory.ts";

const HOLDER_FILE = fileURLToPath(new URL("../support/kv/lost-wake-up.mjs", import.meta.url));

test("a commit that waits for the lock completes, even if the process that holds the lock does not know of the waiting commit", async () => {
  await withDirectory(async (directory) => {
    const events: string[] = [];
    const trace = { event: (name: string) => events.push(name) };
    const runtime = { ...createSystemRuntime(), trace };
    const engine = await openLmdbEngine({ runtime, directory });
    const kv = new KeyValueStore({ runtime, engine });
    const write = () => kv.transact(async (tx) => tx.set(bytes("key"), bytes("value")));
    const holder = spawn(process.execPath, [HOLDER_FILE, directory], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const ended = once(holder, "exit");
      await once(holder.stdout, "data");
      const committed = write();
      await ended;
      await committed;
      expect(events).toContain("kv.lock-wait");
      await write();
    } finally {
      holder.kill("SIGKILL");
      await kv.close();
    }
  });
});

test("a process closes the store cleanly while threads wait for the lock", async () => {
  await withDirectory(async (directory) => {
    const file = new URL("../../dist/host/lmdb/lock-wake-ups.js", import.meta.url);
    const script = `
      import { LockWakeUps } from ${JSON.stringify(file.href)};
      const knocks = new LockWakeUps({ directory: ${JSON.stringify(directory)} }, 0);
      knocks.look({ isBusy: true, doneCount: 0 }, 60_000);
      await knocks.close();`;
    const child = spawn(process.execPath, ["--input-type=module", "--eval", script], {
      stdio: "ignore",
    });
    expect(await once(child, "exit")).toEqual([0, null]);
  });
});
