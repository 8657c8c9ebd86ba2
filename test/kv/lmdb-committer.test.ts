/** What a commit is said to have become when its wait for the disk failed, and what others did before that was settled. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ABORT } from "lmdb";
import { expect, test } from "vitest";
import { ByteWriter } from "../../src/host/lmdb/byte-writer.ts";
import { LmdbCommitter } from "../../src/host/lmdb/committer.ts";
import { openEnvironment } from "../../src/host/lmdb/environment.ts";
import { DATA_FILE, type LmdbDatabase, PAGE_BYTES } from "../../src/host/lmdb/layout.ts";
import {
  OUTCOMES,
  type PackedRequest,
  readRequests,
  writeRequest,
} from "../../src/host/lmdb/messages.ts";
import { redoLostCommits } from "../../src/host/lmdb/redo.ts";
import { withDirectory } from "../support/with-directory.ts";

test("a commit that another process carried out after its wait had failed is not said to have failed", async () => {
  await withCommitter(
    ({ database, directory }) => redoLostCommits(database, directory),
    (committer) => {
      expect(outcomeOf(committer, setting(["a"]))).toBe("unknown");
      expect(outcomeOf(committer, setting(["b"]))).toBe("committed");
    },
  );
});

test("a commit whose wait failed, and which nobody carried out, has failed for certain", async () => {
  await withCommitter(
    () => {},
    (committer) => {
      expect(outcomeOf(committer, setting(["a"]))).toBe("unavailable");
      expect(outcomeOf(committer, setting(["b"]))).toBe("committed");
    },
  );
});

test("a job that is added with its rows in the index waits for the disk once", async () => {
  await withDirectory(async (directory) => {
    const database = openEnvironment(directory);
    const committer = new LmdbCommitter(database, directory);
    const keys = Array.from({ length: 18 }, (_, number) => `${number}`.padStart(53));
    expect(outcomeOf(committer, setting(keys, 67))).toBe("committed");
    const slot = readFileSync(join(directory, DATA_FILE)).subarray(SLOT_OFFSET);
    expect(slot.readBigUInt64LE(8)).toBe(1n);
    expect(slot.readUInt32LE(4)).toBeGreaterThan(18 * (53 + 67));
    committer.close();
    await database.close();
  });
});

/** Where the record of version 1 lies: behind the second root. */
const SLOT_OFFSET = PAGE_BYTES + PAGE_BYTES / 2 + 512;

interface Store {
  readonly database: LmdbDatabase;
  readonly directory: string;
}

/** Of whose commits the first one fails behind its record; `whenFailed` runs then, without the lock. */
async function withCommitter(
  whenFailed: (store: Store) => void,
  body: (committer: LmdbCommitter) => void,
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
    body(committer);
    committer.close();
    await database.close();
  });
}

function bound(target: LmdbDatabase, name: string | symbol): unknown {
  const member = Reflect.get(target, name);
  return typeof member === "function" ? member.bind(target) : member;
}

function setting(keys: readonly string[], valueBytes = 1): PackedRequest[] {
  const writer = new ByteWriter();
  const value = new Uint8Array(valueBytes);
  const mutations = keys.map((key) => ({ kind: "set" as const, key, value }));
  writeRequest(writer, { readVersion: undefined, reads: [], writes: [], mutations });
  return readRequests(writer.finish());
}

function outcomeOf(committer: LmdbCommitter, requests: PackedRequest[]): string | undefined {
  return OUTCOMES[committer.commit(requests).outcomes[0] as number];
}
