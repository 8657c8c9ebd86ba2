/**
 * LMDB on a machine with problems: full disks, read-only folders, and memory maps that are too
 * small.
 */
import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  readdirSync,
  statfsSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSystemRuntime, openLmdbEngine } from "../../src/host/index.ts";
import { openEnvironment } from "../../src/host/lmdb/environment.ts";
import { FORMAT_KEY } from "../../src/host/lmdb/layout.ts";
import type { KeyValueStore } from "../../src/kv/index.ts";
import { bytes, EVERYTHING } from "../../src/library/kv-conformance/fixture.ts";
import { PlainStore } from "../../src/library/kv-conformance/plain-store.ts";
import { openRemoteLmdbEngine } from "../support/kv/remote-engine.ts";
import { canMountMemory, memoryDisk, withMount } from "../support/mounts.ts";
import { withDirectory } from "../support/with-directory.ts";

const runtime = createSystemRuntime();

async function openStore(directory: string, mapBytes?: number): Promise<KeyValueStore> {
  const engine = await openLmdbEngine({ runtime, directory, mapBytes });
  return new PlainStore({ runtime, engine });
}

test.each(["b", "b-1.0", ".b"])(
  "the folder %s is created, and the store in it keeps its data when it is closed and opened again",
  async (name) => {
    await withDirectory(async (directory) => {
      const nested = join(directory, "a", name);
      const first = await openStore(nested);
      await first.transact(async (tx) => tx.set(bytes("k"), bytes("v")));
      await first.close();
      expect(readdirSync(nested).sort()).toEqual(["bell", "data.mdb", "lock.mdb"]);
      const second = await openStore(nested);
      expect(await second.read((tx) => tx.get(bytes("k")))).toEqual(bytes("v"));
      await second.close();
    });
  },
);

test("processes that create a store concurrently open the same store", async () => {
  await withDirectory(async (directory) => {
    const engines = await Promise.all([1, 2, 3].map(() => openRemoteLmdbEngine(directory)));
    const stores = engines.map((engine) => new PlainStore({ runtime, engine }));
    for (const [number, kv] of stores.entries()) {
      await kv.transact(async (tx) => tx.set(bytes(String(number)), bytes("v")));
    }
    for (const kv of stores) {
      expect((await kv.read((tx) => tx.getRangePage(EVERYTHING))).entries).toHaveLength(3);
      await kv.close();
    }
    expect(readdirSync(directory).sort()).toEqual(["bell", "data.mdb", "lock.mdb"]);
  });
});

test("a path that is not a folder is refused with an error that names the path", async () => {
  await withDirectory(async (directory) => {
    const file = join(directory, "file");
    writeFileSync(file, "");
    await expect(openStore(join(file, "store"))).rejects.toMatchObject({
      code: "KV_UNUSABLE",
      details: { directory: join(file, "store") },
    });
  });
});

test("the memory map grows automatically, even while another process reads", async () => {
  await withDirectory(async (directory) => {
    const kv = await openStore(directory, 1_000_000);
    const other = await openRemoteLmdbEngine(directory);
    const otherKv = new PlainStore({ runtime, engine: other });
    for (let index = 0; index < 40; index++) {
      await kv.transact(async (tx) => {
        for (let part = 0; part < 10; part++) {
          tx.set(bytes(`${index}/${part}`), new Uint8Array(90_000).fill(index));
        }
      });
      const read = await otherKv.read((tx) => tx.get(bytes(`${index}/9`)));
      expect(read?.[89_999]).toBe(index);
      await otherKv.transact(async (tx) => tx.set(bytes("other"), bytes(String(index))));
    }
    expect(statSync(join(directory, "data.mdb")).size).toBeGreaterThan(36_000_000);
    await otherKv.close();
    await kv.close();
  });
});

test.skipIf(!canMountMemory)(
  "a full disk refuses writes that do not fit, and keeps all other data",
  async () => {
    await withMemoryDisk(12, async (directory) => {
      const kv = await openStore(directory);
      let acknowledgedCount = 0;
      const fill = async (): Promise<void> => {
        for (;;) {
          await kv.transact(async (tx) => {
            tx.set(bytes(String(acknowledgedCount).padStart(5, "0")), new Uint8Array(90_000));
          });
          acknowledgedCount++;
        }
      };
      await expect(fill()).rejects.toMatchObject({
        code: "KV_UNAVAILABLE",
        details: { directory, reason: expect.stringContaining("disk is full") },
      });
      expect(acknowledgedCount).toBeGreaterThan(50);
      const stored = async (): Promise<number> =>
        (await kv.read((tx) => tx.getRangePage(EVERYTHING))).entries.length;
      expect(await stored()).toBe(acknowledgedCount);
      // The same store accepts writes again once there is space.
      execFileSync("mount", ["-o", "remount,size=24m", directory]);
      await kv.transact(async (tx) =>
        tx.clearRange({ begin: bytes("00000"), end: bytes("00050") }),
      );
      for (let index = 0; index < 10; index++) {
        await kv.transact(async (tx) => tx.set(bytes(`again${index}`), new Uint8Array(90_000)));
      }
      expect(await stored()).toBe(acknowledgedCount - 50 + 10);
      await kv.close();
      const again = await openStore(directory);
      expect((await again.read((tx) => tx.getRangePage(EVERYTHING))).entries).toHaveLength(
        acknowledgedCount - 40,
      );
      await again.close();
    });
  },
);

test.skipIf(!canMountMemory)(
  "a small commit refused by a full disk is not applied later",
  async () => {
    await withMemoryDisk(2, async (directory) => {
      const kv = await openStore(directory);
      let acknowledgedCount = 0;
      const fill = async (): Promise<void> => {
        for (;;) {
          // The keys are spread over the whole tree, so that many new pages are needed.
          const key = bytes(`${(acknowledgedCount * 7919) % 10_007}`);
          await kv.transact(async (tx) => tx.set(key, new Uint8Array(900)));
          acknowledgedCount++;
        }
      };
      await expect(fill()).rejects.toMatchObject({ code: "KV_UNAVAILABLE" });
      // Opens a copy of the file. As after a failure of the machine, the copied store was not
      // closed.
      await withDirectory(async (copy) => {
        copyFileSync(join(directory, "data.mdb"), join(copy, "data.mdb"));
        const again = await openStore(copy);
        const { entries } = await again.read((tx) => tx.getRangePage(EVERYTHING));
        expect(entries).toHaveLength(acknowledgedCount);
        await again.close();
      });
      await kv.close();
    });
  },
);

test.skipIf(!canMountMemory).each([
  { name: "with room", bytesLeft: 10_000_000 },
  { name: "that is almost full", bytesLeft: 500_000 },
])(
  "a folder that is not writable, on a disk $name, is refused with a reason",
  async ({ bytesLeft }) => {
    await withMemoryDisk(12, async (directory) => {
      const store = join(directory, "store");
      const kv = await openStore(store);
      await kv.transact(async (tx) => tx.set(bytes("k"), bytes("v")));
      await kv.close();
      const { bavail, bsize } = statfsSync(directory);
      writeFileSync(join(directory, "other"), Buffer.alloc(bavail * bsize - bytesLeft));
      execFileSync("mount", ["-o", "remount,ro", directory]);
      for (const folder of [store, join(directory, "new")]) {
        await expect(openStore(folder)).rejects.toMatchObject({
          code: "KV_UNUSABLE",
          details: { directory: folder, reason: expect.stringMatching(/cannot be (written|made)/) },
        });
      }
      execFileSync("mount", ["-o", "remount,rw", directory]);
      const again = await openStore(store);
      expect(await again.read((tx) => tx.get(bytes("k")))).toEqual(bytes("v"));
      await again.close();
    });
  },
);

test.skipIf(!existsSync("/proc/self"))("a folder that cannot be created is refused", async () => {
  await expect(openStore("/proc/a/b")).rejects.toMatchObject({ code: "KV_UNUSABLE" });
});

async function withMemoryDisk(
  megabytes: number,
  body: (directory: string) => Promise<void>,
): Promise<void> {
  await withDirectory((parent) => withMount(parent, memoryDisk(megabytes), body));
}

test("a store with a later format is refused with instructions", async () => {
  await withDirectory(async (directory) => {
    const database = openEnvironment(directory);
    await database.put(FORMAT_KEY, Buffer.from([99]));
    await database.close();
    await expect(openStore(directory)).rejects.toMatchObject({
      code: "KV_UNUSABLE",
      details: {
        reason:
          "the store has format 99, but this program writes format 1: install a newer Tandem, or restore the backup",
      },
    });
  });
});
