/** Export of the embedded store as rows, and import of rows. */
import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import {
  createSystemRuntime,
  exportLmdbStore,
  LmdbImport,
  openLmdbEngine,
  writeBackup,
} from "../../src/host/index.ts";
import { type KeyValue, KeyValueStore, Versionstamp } from "../../src/kv/index.ts";
import { bytes, EVERYTHING } from "../../src/library/kv-conformance/fixture.ts";
import { openRemoteLmdbEngine } from "../support/kv/remote-engine.ts";
import { withDirectory } from "../support/with-directory.ts";

const runtime = createSystemRuntime();

async function openStore(directory: string): Promise<KeyValueStore> {
  return new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
}

async function allRows(kv: KeyValueStore): Promise<readonly KeyValue[]> {
  return (await kv.read((tx) => tx.getRangePage(EVERYTHING))).entries;
}

/** Starts an import in another process, which does not finish it. */
async function beginImport(directory: string): Promise<ChildProcess> {
  const file = fileURLToPath(new URL("../support/kv/import-process.mjs", import.meta.url));
  const child = fork(file, [directory]);
  await once(child, "message");
  return child;
}

/** Commits a row. Returns the versionstamp of this commit. */
async function stampOf(kv: KeyValueStore): Promise<Versionstamp> {
  const key = bytes("stamp");
  const { bytes: stamp } = Versionstamp.incomplete();
  await kv.transact(async (tx) => tx.setVersionstampedValue(key, { bytes: stamp, offset: 0 }));
  return Versionstamp.fromBytes((await kv.read((tx) => tx.get(key))) as Uint8Array);
}

/** Converts rows to strings, which are faster to compare. */
function textOf(rows: readonly KeyValue[]): string[] {
  return rows.flatMap(({ key, value }) => [
    Buffer.from(key).toString("latin1"),
    Buffer.from(value).toString("latin1"),
  ]);
}

/**
 * Returns long keys that share LMDB records: keys with a common prefix, and keys whose prefix is
 * also a key.
 */
function longKeys(): string[] {
  const beginning = "k".repeat(4_000);
  return [beginning, `${beginning}a`, `${beginning}b`, "k".repeat(9_000), `m${beginning}`];
}

async function importRows(
  rows: readonly KeyValue[],
  version: number,
  options: { readonly directory: string; readonly keepAs?: string },
): Promise<void> {
  const imported = new LmdbImport(options);
  try {
    for (let at = 0; at < rows.length; at += 7) imported.put(rows.slice(at, at + 7));
    await imported.finish(version);
  } finally {
    await imported.close();
  }
}

test("an export reads a store at one version despite concurrent writes, and importing its rows creates an equal store", async () => {
  await withDirectory(async (directory) => {
    const from = join(directory, "from");
    const kv = await openStore(from);
    for (let part = 0; part < 40; part++) {
      await kv.transact(async (tx) => {
        for (let row = 0; row < 10; row++) {
          tx.set(bytes(`${part}/${row}`), new Uint8Array(9_000).fill(part));
        }
      });
    }
    await kv.transact(async (tx) => {
      for (const key of longKeys()) tx.set(bytes(key), bytes(`value of ${key.length}`));
    });
    const before = await allRows(kv);
    const exported = exportLmdbStore(from);
    expect(exported.isCurrent()).toBe(true);
    const rows: KeyValue[] = [];
    let pageCount = 0;
    for (const page of exported.pages()) {
      pageCount++;
      rows.push(...page);
      await kv.transact(async (tx) => {
        tx.clearRange(EVERYTHING);
        tx.set(bytes("later"), bytes(String(pageCount)));
      });
    }
    expect(exported.isCurrent()).toBe(false);
    await exported.close();
    expect(pageCount).toBeGreaterThan(3);
    expect(textOf(rows)).toEqual(textOf(before));

    const to = join(directory, "nested", "to");
    await importRows(rows, exported.version, { directory: to });
    expect(readdirSync(to)).toEqual(["data.mdb"]);
    for (const made of [from, to]) {
      expect(statSync(join(made, "data.mdb")).mode & 0o777).toBe(0o600);
    }
    const restored = await openStore(to);
    expect(textOf(await allRows(restored))).toEqual(textOf(before));
    expect((await stampOf(kv)).compare(await stampOf(restored))).toBeLessThan(0);
    await restored.close();
    await kv.close();
  });
});

test("an import replaces a store only on request and only if no process has the store open, and keeps the old file", async () => {
  await withDirectory(async (directory) => {
    const rows = [{ key: bytes("k"), value: bytes("new") }];
    const other = await openRemoteLmdbEngine(directory);
    const otherKv = new KeyValueStore({ runtime, engine: other });
    await otherKv.transact(async (tx) => tx.set(bytes("k"), bytes("old")));
    await expect(importRows(rows, 1, { directory })).rejects.toMatchObject({
      details: { reason: `${directory} already has a store` },
    });
    await expect(importRows(rows, 1, { directory, keepAs: "old.mdb" })).rejects.toMatchObject({
      details: { reason: expect.stringContaining("another process has opened") },
    });
    expect(await otherKv.read((tx) => tx.get(bytes("k")))).toEqual(bytes("old"));
    await otherKv.close();
    await importRows(rows, 1, { directory, keepAs: "old.mdb" });
    expect(existsSync(join(directory, "old.mdb"))).toBe(true);
    expect(readdirSync(directory).filter((name) => name.startsWith("new-"))).toEqual([]);
    const again = await openStore(directory);
    expect(await allRows(again)).toEqual(rows);
    await again.close();
  });
});

test.each([
  ["an import", (directory: string) => importRows([], 1, { directory, keepAs: randomUUID() })],
  ["a node", async (directory: string) => (await openStore(directory)).close()],
])(
  "%s removes the files of an import that was killed, but not those of a running one",
  async (_, use) => {
    await withDirectory(async (directory) => {
      await (await openStore(directory)).close();
      const drafts = () => readdirSync(directory).filter((name) => name.startsWith("new-"));
      const killed = await beginImport(directory);
      const [draft] = drafts();
      expect(drafts()).toEqual([draft, `${draft}-lock`]);
      killed.kill("SIGKILL");
      await once(killed, "exit");
      const running = await beginImport(directory);
      const left = drafts();
      expect(left).toHaveLength(2);
      expect(left).not.toContain(draft);
      await use(directory);
      expect(drafts()).toEqual(left);
      running.kill("SIGKILL");
      await once(running, "exit");
      await use(directory);
      expect(drafts()).toEqual([]);
    });
  },
);

test("a node removes the files of a killed process that had the same id", async () => {
  await withDirectory(async (directory) => {
    const draft = join(directory, `new-${process.pid}-${randomUUID()}`);
    for (const file of [draft, `${draft}-lock`, `${draft}-copy`]) writeFileSync(file, "");
    const other = join(directory, "new-films.backup");
    writeFileSync(other, "");
    const imported = new LmdbImport({ directory, keepAs: "old.mdb" });
    await (await openStore(directory)).close();
    expect(existsSync(draft)).toBe(false);
    expect(existsSync(other)).toBe(true);
    imported.put([{ key: bytes("k"), value: bytes("new") }]);
    await imported.finish(1);
    await imported.close();
    expect(readdirSync(directory).filter((name) => name.startsWith("new-"))).toEqual([
      "new-films.backup",
    ]);
  });
});

test("an aborted import does not leave files behind", async () => {
  await withDirectory(async (directory) => {
    const imported = new LmdbImport({ directory });
    imported.put([{ key: bytes("k"), value: bytes("v") }]);
    await imported.close();
    expect(readdirSync(directory)).toEqual([]);
    expect(() => exportLmdbStore(directory)).toThrow(
      expect.objectContaining({ details: { reason: `${directory} has no store`, directory } }),
    );
  });
});

test("a backup does not overwrite a file that is created while the backup is written", async () => {
  await withDirectory(async (directory) => {
    const path = join(directory, "file");
    function* pages(): Generator<readonly KeyValue[]> {
      yield [{ key: bytes("k"), value: bytes("v") }];
      writeFileSync(path, "precious");
    }
    const written = writeBackup(path, { madeAtMs: 0, program: "test", version: 1 }, pages());
    await expect(written).rejects.toMatchObject({
      code: "BACKUP_NOT_WRITTEN",
      details: { reason: `${path} exists` },
    });
    expect(readFileSync(path, "utf8")).toBe("precious");
    expect(readdirSync(directory)).toEqual(["file"]);
  });
});
