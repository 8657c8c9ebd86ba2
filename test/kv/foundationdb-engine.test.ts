/** Errors of the engine if parts of FoundationDB are missing or cannot be reached. */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { forEachConcurrent, type Runtime, utf8Encode } from "../../src/base/index.ts";
import { createSystemRuntime, openFoundationDbEngine } from "../../src/host/index.ts";
import { KeyValueStore, type Watch } from "../../src/kv/index.ts";

const isInstalled = isPackageInstalled();
const hasCluster = process.env.FDB_CLUSTER_FILE !== undefined;

test("the error for a missing cluster file explains how to specify the file", async () => {
  const runtime = createSystemRuntime();
  const clusterFile = join(tmpdir(), "tandem-no-such", "fdb.cluster");
  await expect(openFoundationDbEngine({ runtime, clusterFile })).rejects.toMatchObject({
    code: "KV_UNUSABLE",
    details: { clusterFile, reason: expect.stringContaining("--cluster-file") },
  });
});

test.skipIf(isInstalled)(
  "the error for the missing package contains the command that installs the package",
  async () => {
    await withClusterFile(async (clusterFile) => {
      const runtime = createSystemRuntime();
      await expect(openFoundationDbEngine({ runtime, clusterFile })).rejects.toMatchObject({
        code: "KV_UNUSABLE",
        details: {
          reason: expect.stringMatching(/client library.*: npm install .*foundationdb@[\d.]+$/),
        },
      });
    });
  },
);

test.skipIf(!hasCluster)(
  "the engine waits for an unavailable cluster, and reports that the cluster is unavailable",
  async () => {
    await withClusterFile(async (clusterFile) => {
      const events: string[] = [];
      const said = { away: (): void => {} };
      const away = new Promise<void>((resolve) => {
        said.away = resolve;
      });
      const runtime: Runtime = createSystemRuntime({
        event(name) {
          events.push(name);
          if (name === "kv.unavailable") said.away();
        },
      });
      const engine = await openFoundationDbEngine({ runtime, clusterFile });
      const kv = new KeyValueStore({ runtime, engine });
      expect(kv.isAvailable()).toBe(true);
      const controller = new AbortController();
      const waiting = kv.read((tx) => tx.get(new Uint8Array([1])), { signal: controller.signal });
      const ended = expect(waiting).rejects.toThrow("tired of it");
      await away;
      expect(kv.isAvailable()).toBe(false);
      expect(events).toEqual(["kv.unavailable"]);
      controller.abort(new Error("tired of it"));
      await ended;
      await kv.close();
    });
  },
);

test.skipIf(!hasCluster)(
  "a key is polled after a short time if no watch is available for it",
  async () => {
    const runtime = createSystemRuntime();
    const prefix = `tandem-test-${randomUUID()}`;
    const kv = new KeyValueStore({
      runtime,
      engine: await openFoundationDbEngine({ runtime, prefix, watchCountMax: 200 }),
    });
    const keyOf = (number: number): Uint8Array => utf8Encode(`watched ${number}`);
    try {
      const watches = await Promise.all(
        Array.from({ length: 300 }, (_, number) =>
          kv.transact(async (tx) => tx.watch(keyOf(number))),
        ),
      );
      const fired = new Set<number>();
      const firing = watches.map((watch, number) =>
        watch.fired().then(
          () => fired.add(number),
          () => {},
        ),
      );
      const last = watches.length - 1;
      // A key without a watch fires once its polling interval has elapsed.
      await firing[last];
      expect(fired.size).toBeLessThanOrEqual(100);
      expect(fired.has(0)).toBe(false);
      await kv.transact(async (tx) => tx.set(keyOf(0), utf8Encode("changed")));
      await firing[0];
      for (const watch of watches) watch.cancel();
      await Promise.all(firing);
    } finally {
      await kv.transact(async (tx) => tx.clearRange({ begin: keyOf(0), end: utf8Encode("x") }));
      await kv.close();
    }
  },
);

test.skipIf(!hasCluster)(
  "a client may have as many watches as twenty thousand jobs need",
  async () => {
    const runtime = createSystemRuntime();
    const prefix = `tandem-test-${randomUUID()}`;
    const kv = new KeyValueStore({
      runtime,
      engine: await openFoundationDbEngine({ runtime, prefix }),
    });
    const keyOf = (number: number): Uint8Array => utf8Encode(`watched ${number}`);
    const numbers = Array.from({ length: 40_000 }, (_, number) => number);
    const changed = numbers.filter((number) => number % 1_000 === 7);
    try {
      const watches: Watch[] = [];
      await forEachConcurrent(numbers, 500, async (number) => {
        watches[number] = await kv.transact(async (tx) => tx.watch(keyOf(number)));
      });
      const fired: number[] = [];
      const firing = watches.map((watch, number) =>
        watch.fired().then(
          () => fired.push(number),
          () => {},
        ),
      );
      await kv.transact(async (tx) => {
        for (const number of changed) tx.set(keyOf(number), utf8Encode("changed"));
      });
      await Promise.all(changed.map((number) => firing[number]));
      expect(fired.sort((left, right) => left - right)).toEqual(changed);
      for (const watch of watches) watch.cancel();
      await Promise.all(firing);
    } finally {
      await kv.transact(async (tx) => tx.clearRange({ begin: keyOf(0), end: utf8Encode("x") }));
      await kv.close();
    }
  },
);

async function withClusterFile(body: (clusterFile: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "tandem-fdb-"));
  try {
    const clusterFile = join(directory, "fdb.cluster");
    // No process listens on the discard port.
    await writeFile(clusterFile, "nobody:nowhere@127.0.0.1:9\n");
    await body(clusterFile);
  } finally {
    await rm(directory, { recursive: true });
  }
}

function isPackageInstalled(): boolean {
  try {
    createRequire(import.meta.url).resolve("foundationdb");
    return true;
  } catch {
    return false;
  }
}
