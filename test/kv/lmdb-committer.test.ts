/**
 * Outcomes reported for commits whose sync failed, and for concurrent commits of other processes.
 */
import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { ABORT } from "lmdb";
import { expect, test } from "vitest";
import { ByteWriter } from "../../src/host/lmdb/byte-writer.ts";
import { LmdbCommitter } from "../../src/host/lmdb/committer.ts";
import { openEnvironment } from "../../src/host/lmdb/environment.ts";
import {
  DATA_FILE,
  encodeVersion,
  type LmdbDatabase,
  logKey,
  PAGE_BYTES,
  storedKey,
  VERSION_KEY,
} from "../../src/host/lmdb/layout.ts";
import { decodeLogRecord, LogRecordWriter } from "../../src/host/lmdb/log-record.ts";
import {
  OUTCOMES,
  type PackedRequest,
  readRequests,
  writeRequest,
} from "../../src/host/lmdb/messages.ts";
import { redoLostCommits } from "../../src/host/lmdb/redo.ts";
import type { CommitRequest } from "../../src/kv/index.ts";
import { withDirectory } from "../support/with-directory.ts";

test("a commit that fails is not reported as failed if another process completes it from the redo record", async () => {
  await withCommitter(
    ({ database, directory }) => redoLostCommits(database, directory),
    (committer) => {
      expect(outcomeOf(committer, setting(["a"]))).toBe("unknown");
      expect(outcomeOf(committer, setting(["b"]))).toBe("committed");
    },
  );
});

test("a commit that fails is reported as not committed if no process completes it from the redo record", async () => {
  await withCommitter(
    () => {},
    (committer) => {
      expect(outcomeOf(committer, setting(["a"]))).toBe("unavailable");
      expect(outcomeOf(committer, setting(["b"]))).toBe("committed");
    },
  );
});

test("adding a job with long names and its index rows syncs the disk once", async () => {
  await withDirectory(async (directory) => {
    const database = openEnvironment(directory);
    const committer = new LmdbCommitter(database, directory);
    const keys = Array.from({ length: 24 }, (_, number) => `${number}`.padStart(75));
    expect(outcomeOf(committer, setting(keys, 55))).toBe("committed");
    const slot = readFileSync(join(directory, DATA_FILE)).subarray(SLOT_OFFSET);
    expect(slot.readBigUInt64LE(8)).toBe(1n);
    expect(slot.readUInt32LE(4)).toBeGreaterThan(24 * (75 + 55));
    committer.close();
    await database.close();
  });
});

test("a commit completed from its redo record is in the commit log like any other commit", async () => {
  const requests = (): PackedRequest[] =>
    packed(
      [
        { kind: "set", key: "a", value: new Uint8Array(1) },
        { kind: "clear", key: "b" },
        { kind: "clearRange", begin: "c", end: "d" },
        { kind: "add", key: "e", operand: new Uint8Array(8) },
      ],
      [
        { begin: "f", end: undefined },
        { begin: "g", end: "h" },
      ],
    );
  const found: unknown[] = [];
  await withCommitter(
    () => {},
    (committer, { database }) => {
      committer.commit(requests());
      expect(outcomeOf(committer, requests())).toBe("committed");
      found.push(loggedWrites(database, 1));
    },
  );
  await withCommitter(
    ({ database, directory }) => redoLostCommits(database, directory),
    (committer, { database }) => {
      expect(outcomeOf(committer, requests())).toBe("unknown");
      found.push(loggedWrites(database, 1));
    },
  );
  expect(found[0]).toHaveLength(6);
  expect(found[1]).toEqual(found[0]);
});

test("a commit is completed from a redo record in an older format", async () => {
  await withDirectory(async (directory) => {
    const database = openEnvironment(directory);
    const log = new LogRecordWriter({ committedAtMs: 1, mark: 0.5 });
    log.key(Buffer.from("a"));
    const record = wholeRecord(1, [
      [storedKey(Buffer.from("a")), Buffer.from("value")],
      [logKey(1), log.finish()],
      [VERSION_KEY, encodeVersion(1)],
    ]);
    const file = openSync(join(directory, DATA_FILE), "r+");
    writeSync(file, record, 0, record.length, SLOT_OFFSET);
    closeSync(file);
    redoLostCommits(database, directory);
    expect(database.get(storedKey(Buffer.from("a")))).toEqual(new Uint8Array(Buffer.from("value")));
    expect(loggedWrites(database, 1)).toEqual([{ begin: "a", end: undefined }]);
    await database.close();
  });
});

/**
 * Returns a record in the format that was used before `LOG_IS_CUT`. Its log row contains all keys.
 */
function wholeRecord(version: number, rows: readonly (readonly [Buffer, Buffer])[]): Buffer {
  const parts = rows.flatMap(([key, value]) => {
    const head = Buffer.alloc(6);
    head.writeUInt16LE(key.length);
    head.writeUInt32LE(value.length, 2);
    return [head, key, value];
  });
  const bytes = Buffer.concat(parts);
  const head = Buffer.alloc(12);
  head.writeUInt32LE(bytes.length);
  head.writeBigUInt64LE(BigInt(version), 4);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32LE(crc32(Buffer.concat([head, bytes])));
  return Buffer.concat([checksum, head, bytes]);
}

/** Returns the logged writes of a version, sorted by the keys at which they start. */
function loggedWrites(database: LmdbDatabase, version: number): unknown {
  const record = database.get(logKey(version));
  const writes = record === undefined ? [] : decodeLogRecord(record).writes.read();
  return writes.toSorted((left, right) => (left.begin < right.begin ? -1 : 1));
}

/** Offset of the record of version 1, which follows the second root. */
const SLOT_OFFSET = PAGE_BYTES + PAGE_BYTES / 2 + 512;

interface Store {
  readonly database: LmdbDatabase;
  readonly directory: string;
}

/**
 * Calls `body` with a committer whose first commit fails after its redo record was written.
 * `whenFailed` is called when that commit has failed and released the lock.
 */
async function withCommitter(
  whenFailed: (store: Store) => void,
  body: (committer: LmdbCommitter, store: Store) => void,
): Promise<void> {
  await withDirectory(async (directory) => {
    const database = openEnvironment(directory);
    let isToFail = false;
    const failing = new Proxy(database, {
      get(target, name) {
        if (name !== "transactionSync" || !isToFail) return bound(target, name);
        return (work: () => unknown, flags: number): unknown => {
          isToFail = false;
          target.transactionSync(() => {
            work();
            return ABORT;
          }, flags);
          whenFailed({ database, directory });
          throw new Error("Input/output error");
        };
      },
    });
    const committer = new LmdbCommitter(failing, directory);
    isToFail = true;
    body(committer, { database, directory });
    committer.close();
    await database.close();
  });
}

test("a request of several megabytes is written to a buffer of the same size, allocated once", () => {
  const writer = new ByteWriter();
  const value = new Uint8Array(90_000);
  const stamped = { bytes: value, offset: 3 };
  const mutations: CommitRequest["mutations"] = [
    ...Array.from({ length: 50 }, (_, at) => ({ kind: "set", key: `key ${at}`, value }) as const),
    { kind: "setVersionstampedKey", key: "a versionstamp", offset: 2, value },
    { kind: "setVersionstampedValue", key: "a key", value: stamped },
    { kind: "max", key: "another key", operand: value },
    { kind: "clearRange", begin: "a".repeat(5_000), end: "b".repeat(5_000) },
    { kind: "clear", key: "c".repeat(5_000) },
  ];
  writeRequest(writer, 1, { readVersion: 1, reads: [], writes: [], mutations });
  const { length, buffer } = writer.finish();
  expect(length).toBeGreaterThan(53 * value.length);
  // If the buffer had grown by doubling, it would be almost twice as large.
  expect(buffer.byteLength - length).toBeLessThan(1_000);
});

function bound(target: LmdbDatabase, name: string | symbol): unknown {
  const member = Reflect.get(target, name);
  return typeof member === "function" ? member.bind(target) : member;
}

function setting(keys: readonly string[], valueBytes = 1): PackedRequest[] {
  const value = new Uint8Array(valueBytes);
  return packed(keys.map((key) => ({ kind: "set", key, value })));
}

function packed(
  mutations: CommitRequest["mutations"],
  writes: CommitRequest["writes"] = [],
): PackedRequest[] {
  const writer = new ByteWriter();
  writeRequest(writer, 1, { readVersion: undefined, reads: [], writes, mutations });
  return readRequests(writer.finish());
}

function outcomeOf(committer: LmdbCommitter, requests: PackedRequest[]): string | undefined {
  return OUTCOMES[committer.commit(requests).outcomes[0] as number];
}
