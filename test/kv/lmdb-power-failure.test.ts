/**
 * LMDB's file after a failure of the machine. The file contains everything written before the last
 * sync, and an arbitrary part of later writes. The test combines such files from copies taken
 * between the commits.
 *
 * The root of a small commit is not synced, so the file might lack the root. It might also contain
 * a part of the next commit, which was not acknowledged.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createSystemRuntime, openLmdbEngine } from "../../src/host/index.ts";
import {
  type KeyValueStore,
  Subspace,
  type Transaction,
  Versionstamp,
} from "../../src/kv/index.ts";
import { bytes, EVERYTHING } from "../../src/library/kv-conformance/fixture.ts";
import { PlainStore } from "../../src/library/kv-conformance/plain-store.ts";
import { withDirectory } from "../support/with-directory.ts";

/** Number of runs. Set `TANDEM_POWER_FAILURES=500` for a longer test. */
const RUN_COUNT = Number(process.env.TANDEM_POWER_FAILURES ?? 8);

const DATA_FILE = "data.mdb";
/**
 * Size of the pieces into which a write can be torn. It is a divisor of the sector size of every
 * disk, which is at least 512 bytes.
 */
const PIECE_BYTES = 64;
/**
 * Offsets of LMDB's two roots: the starts of the first two pages. A root is smaller than a sector.
 */
const ROOT_PLACES = [0, 8_192];
const ROOT_BYTES = 512;
/** Commits of at least this size also sync their root. */
const LARGE_BYTES = 6_000;

const runtime = createSystemRuntime();
const stamped = Subspace.fromTuple(["stamped"]);

const place = fc.integer({ min: 0, max: 40 });
const keyAt = (at: number): Uint8Array => bytes(String(at).padStart(2, "0"));
const key = place.map(keyAt);
const range = fc.tuple(place, place).map(([one, other]) => ({
  begin: keyAt(Math.min(one, other)),
  end: keyAt(Math.max(one, other)),
}));
const operation = fc.oneof(
  fc.record({
    kind: fc.constant("set" as const),
    key,
    byteCount: fc.oneof(
      { weight: 5, arbitrary: fc.integer({ min: 200, max: 400 }) },
      { weight: 1, arbitrary: fc.constant(LARGE_BYTES) },
    ),
  }),
  fc.record({ kind: fc.constant("clear" as const), key }),
  fc.record({ kind: fc.constant("clearRange" as const), range }),
  fc.record({ kind: fc.constant("add" as const), key }),
  fc.record({ kind: fc.constant("stamp" as const) }),
);
type Operation = typeof operation extends fc.Arbitrary<infer Each> ? Each : never;
const transactions = fc.array(fc.array(operation, { minLength: 1, maxLength: 5, size: "max" }), {
  minLength: 3,
  maxLength: 8,
  size: "max",
});

/** State after a commit: the contents of the file and of the store. */
interface Stage {
  readonly file: Buffer;
  readonly content: string;
  /** Whether the commit was large enough to sync its root. */
  readonly isLarge: boolean;
}

test(`an acknowledged commit survives a failure of the machine, and no commit is applied in part (${RUN_COUNT} runs)`, async () => {
  await fc.assert(
    fc.asyncProperty(transactions, fc.infiniteStream(fc.boolean()), async (operations, coins) => {
      await withDirectory(async (directory) => {
        const stages = await commitAll(join(directory, "live"), operations);
        const toss = (): boolean => coins.next().value as boolean;
        for (const [index, stage] of stages.slice(1).entries()) {
          const before = stages[index] as Stage;
          const next = stages[index + 2] ?? stage;
          const isRootKept = stage.isLarge || (next !== stage && toss());
          const isNextWhole = toss();
          const kept = mixed(before.file, stage.file, (place) => isRootKept || !isRoot(place));
          const left = mixed(kept, next.file, (place) => !isRoot(place) && (isNextWhole || toss()));
          const found = await contentAfterFailure(join(directory, String(index)), left);
          expect([stage.content, next.content]).toContain(found);
        }
      });
    }),
    { numRuns: RUN_COUNT },
  );
});

test("a short transaction whose cleared keys do not fit into a redo record is applied, and its conflicts are detected", async () => {
  await withDirectory(async (directory) => {
    const kv = await openStore(directory);
    await kv.transact(async (tx) => {
      for (let number = 0; number < 1_000; number++) tx.set(bytes(`row ${number}`), bytes("v"));
    });
    const attempts: string[] = [];
    await kv.transact(async (tx) => {
      const row = await tx.get(bytes("row 7"));
      tx.set(bytes("found"), row ?? bytes("nothing"));
      if (attempts.push("copy") > 1) return;
      await kv.transact(async (clearing) => {
        attempts.push("clear");
        await clearing.get(bytes("row 8"));
        clearing.clearRange(EVERYTHING);
      });
    });
    expect(attempts).toEqual(["copy", "clear", "copy"]);
    expect(await contentOf(kv)).toBe(`${hex(bytes("found"))} ${hex(bytes("nothing"))}`);
    await kv.close();
  });
});

async function commitAll(
  directory: string,
  transactions: readonly (readonly Operation[])[],
): Promise<Stage[]> {
  const kv = await openStore(directory);
  const stages: Stage[] = [];
  for (const [number, operations] of transactions.entries()) {
    await kv.transact(async (tx) => {
      tx.set(bytes("number"), bytes(String(number)));
      for (const each of operations) carryOut(tx, each, number);
    });
    stages.push({
      file: readFileSync(join(directory, DATA_FILE)),
      content: await contentOf(kv),
      isLarge: operations.some((each) => each.kind === "set" && each.byteCount === LARGE_BYTES),
    });
  }
  await kv.close();
  return stages;
}

function carryOut(tx: Transaction, each: Operation, number: number): void {
  switch (each.kind) {
    case "set":
      tx.set(each.key, new Uint8Array(each.byteCount).fill(number));
      break;
    case "clear":
      tx.clear(each.key);
      break;
    case "clearRange":
      tx.clearRange(each.range);
      break;
    case "add":
      tx.add(each.key, 1n);
      break;
    case "stamp": {
      const stamp = Versionstamp.incomplete(tx.nextUserVersion());
      tx.setVersionstampedKey(stamped.packVersionstamped([stamp]), bytes(String(number)));
    }
  }
}

function isRoot(place: number): boolean {
  return ROOT_PLACES.some((root) => place >= root && place < root + ROOT_BYTES);
}

/**
 * Combines two files. Where they differ, the result has the piece of `after` if `isWritten` returns
 * true for the place, and otherwise the piece of `before`.
 */
function mixed(before: Buffer, after: Buffer, isWritten: (place: number) => boolean): Buffer {
  const file = Buffer.alloc(after.length);
  before.copy(file);
  for (let place = 0; place < after.length; place += PIECE_BYTES) {
    const piece = after.subarray(place, place + PIECE_BYTES);
    const isSame = piece.equals(file.subarray(place, place + PIECE_BYTES));
    if (!isSame && isWritten(place)) piece.copy(file, place);
  }
  return file;
}

/**
 * Returns the content of the store, as read by two successive processes, which also write to it.
 */
async function contentAfterFailure(directory: string, file: Buffer): Promise<string> {
  mkdirSync(directory);
  writeFileSync(join(directory, DATA_FILE), file);
  const kv = await openStore(directory);
  const content = await contentOf(kv);
  await kv.transact(async (tx) => tx.set(bytes("afterwards"), bytes("written")));
  await kv.transact(async (tx) => tx.clear(bytes("afterwards")));
  await kv.close();
  const again = await openStore(directory);
  expect(await contentOf(again)).toBe(content);
  await again.close();
  return content;
}

async function contentOf(kv: KeyValueStore): Promise<string> {
  const { entries } = await kv.read((tx) => tx.getRangePage(EVERYTHING));
  return entries.map((row) => `${hex(row.key)} ${hex(row.value)}`).join("\n");
}

function hex(each: Uint8Array): string {
  return Buffer.from(each).toString("hex");
}

async function openStore(directory: string): Promise<KeyValueStore> {
  const engine = await openLmdbEngine({ runtime, directory });
  return new PlainStore({ runtime, engine });
}
