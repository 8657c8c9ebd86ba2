import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { KeyValue } from "../../kv/index.ts";
import { readBackup, writeBackup } from "./file.ts";

const HEAD = { madeAtMs: 1_795_000_000_000, program: "1.2.3", version: 77 };

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tandem-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

function page(prefix: string, count: number): KeyValue[] {
  return Array.from({ length: count }, (_, index) => ({
    key: new Uint8Array(Buffer.from(`${prefix}${index}`)),
    value: new Uint8Array(index).fill(index),
  }));
}

async function write(name = "whole"): Promise<string> {
  const file = join(directory, name);
  await writeBackup(file, HEAD, [page("a", 4), page("b", 3)]);
  return file;
}

test("the rows of a backup are read back, and only the owner can read the file", async () => {
  const file = await write();
  const rows: KeyValue[] = [];
  const summary = await readBackup(file, { rows: (read) => rows.push(...read) });
  expect(summary).toEqual({ ...HEAD, rowCount: 7, byteCount: 23 });
  expect(rows).toEqual([...page("a", 4), ...page("b", 3)]);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(directory)).toEqual(["whole"]);
});

test("a backup with any byte changed is refused", async () => {
  const bytes = readFileSync(await write());
  const file = join(directory, "damaged");
  for (let at = 0; at < bytes.length; at++) {
    const damaged = Buffer.from(bytes);
    damaged[at] = (damaged[at] as number) ^ (1 << (at % 8));
    writeFileSync(file, damaged);
    await expect(readBackup(file, {}), `byte ${at}`).rejects.toMatchObject({
      code: "BACKUP_DAMAGED",
    });
  }
});

test("a backup that is truncated or extended is refused", async () => {
  const bytes = readFileSync(await write());
  const file = join(directory, "damaged");
  for (let length = 0; length < bytes.length; length++) {
    writeFileSync(file, bytes.subarray(0, length));
    await expect(readBackup(file, {}), `${length} bytes`).rejects.toMatchObject({
      details: { reason: "the file is truncated" },
    });
  }
  writeFileSync(file, Buffer.concat([bytes, Buffer.alloc(1)]));
  await expect(readBackup(file, {})).rejects.toMatchObject({
    details: { reason: "there is data after the end block" },
  });
});

test("reordered or missing blocks are refused", async () => {
  const bytes = readFileSync(await write());
  const blocks: Buffer[] = [];
  for (let at = 16; at < bytes.length; ) {
    const end = at + 5 + bytes.readUInt32BE(at) + 32;
    blocks.push(bytes.subarray(at, end));
    at = end;
  }
  const [head, first, second, end] = blocks as [Buffer, Buffer, Buffer, Buffer];
  const file = join(directory, "damaged");
  for (const parts of [
    [head, second, first, end],
    [head, second, end],
    [head, first, second, second, end],
    [first, second, end],
  ]) {
    writeFileSync(file, Buffer.concat([bytes.subarray(0, 16), ...parts]));
    await expect(readBackup(file, {})).rejects.toMatchObject({ code: "BACKUP_DAMAGED" });
  }
});

test("a failed backup leaves no file, and an existing backup is not overwritten", async () => {
  const file = join(directory, "whole");
  function* broken(): Generator<readonly KeyValue[]> {
    yield page("a", 4);
    throw new Error("the store is away");
  }
  await expect(writeBackup(file, HEAD, broken())).rejects.toMatchObject({
    code: "BACKUP_NOT_WRITTEN",
    details: { reason: "the store is away" },
  });
  expect(readdirSync(directory)).toEqual([]);
  const before = readFileSync(await write());
  await expect(write()).rejects.toMatchObject({ details: { reason: `${file} exists` } });
  expect(readFileSync(file).equals(before)).toBe(true);
});
