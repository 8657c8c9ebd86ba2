/**
 * Calls of the engine to FoundationDB's package, and the handling of the results. A fake replaces
 * the package.
 */
import { expect, test } from "vitest";
import { utf8Decode, utf8Encode } from "../../src/base/index.ts";
import type { FdbTransaction, FdbWatch } from "../../src/host/foundationdb/package.ts";
import { FoundationDbTransaction } from "../../src/host/foundationdb/transaction.ts";
import { deferred } from "../support/deferred.ts";

test("a watch that exceeds the client's maximum number of watches fires after a pause rather than immediately", async () => {
  const paused = deferred<void>();
  const pauses: AbortSignal[] = [];
  const transaction = opened({ watch: () => failedWatch(1032) }, (signal) => {
    pauses.push(signal);
    return paused.promise;
  });
  const watch = transaction.watch(utf8Encode("k"));
  await transaction.commit();
  let isFired = false;
  const fired = watch.fired().then(() => {
    isFired = true;
  });
  await new Promise(setImmediate);
  expect([isFired, pauses.length]).toEqual([false, 1]);
  paused.resolve();
  await fired;
  watch.cancel();
  expect(pauses[0]?.aborted).toBe(true);
});

test("a watch that is lost for any other reason fires without a pause", async () => {
  const transaction = opened({ watch: () => failedWatch(1009) }, () => {
    throw new Error("It is not to pause");
  });
  const watch = transaction.watch(utf8Encode("k"));
  await transaction.commit();
  await watch.fired();
});

test("a reverse page that stops early adds a conflict range that begins at its last row", async () => {
  const conflicts: string[] = [];
  const row = (key: string): [Buffer, Buffer] => [Buffer.from(key), Buffer.from("")];
  const reads: Partial<FdbTransaction> = {
    getRangeNative: async () => ({ results: [row("e"), row("d")], more: true }),
    addReadConflictRange: (begin, end) => conflicts.push(`${utf8Decode(begin)}-${utf8Decode(end)}`),
  };
  const transaction = opened({ ...reads, snapshot: () => reads as FdbTransaction });
  const range = { begin: utf8Encode("a"), end: utf8Encode("z") };
  await transaction.getRangePage(range, { limit: 2, reverse: true });
  expect(conflicts).toEqual(["d-z"]);
});

function opened(
  fake: Partial<FdbTransaction>,
  pause: (signal: AbortSignal) => Promise<void> = async () => {},
): FoundationDbTransaction {
  const transaction = { rawCommit: async () => {}, ...fake } as FdbTransaction;
  return new FoundationDbTransaction(transaction, {
    watches: new Set(),
    observe: (call) => call,
    pause,
  });
}

function failedWatch(code: number): FdbWatch {
  const promise = Promise.reject(Object.assign(new Error("of the client"), { code }));
  return { promise, cancel: () => {} };
}
