import { expect, test } from "vitest";
import { FairQueue } from "./fair-queue.ts";

function open(runningMax = 2) {
  let nowMs = 0;
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs, sleep: () => Promise.resolve() };
  const queue = new FairQueue<{ id: string; share: { user: string; database: string } }>(
    clock,
    runningMax,
  );
  const call = (id: string, user: string, database: string) => ({ id, share: { user, database } });
  return {
    queue,
    call,
    add: (id: string, user: string, database: string) => queue.add(call(id, user, database)),
    wait: (durationMs: number): void => {
      nowMs += durationMs;
    },
    /** Simulates a call that runs for `durationMs`. */
    use(user: string, database: string, durationMs: number): void {
      const used = call("", user, database);
      queue.add(used);
      queue.take();
      queue.ended(used, durationMs);
    },
  };
}

test("calls of equal priority run in order", () => {
  const { queue, add } = open(9);
  for (const id of ["1", "2", "3"]) add(id, "ann", "films");
  expect([queue.take()?.id, queue.take()?.id, queue.take()?.id]).toEqual(["1", "2", "3"]);
  expect(queue.take()).toBeUndefined();
});

test("calls are delayed if their user or their database has used threads recently", () => {
  const { queue, add, use } = open();
  use("eve", "bait", 1_000);
  add("same user", "eve", "other");
  add("same database", "bob", "bait");
  add("another", "ann", "films");
  expect([queue.take()?.id, queue.take()?.id, queue.take()?.id]).toEqual([
    "another",
    "same user",
    "same database",
  ]);
});

test("neither a user nor a database runs more calls at a time than allowed", () => {
  const { queue, add, call } = open(1);
  add("1", "eve", "a");
  add("2", "eve", "b");
  add("3", "bob", "a");
  add("4", "ann", "films");
  expect([queue.take()?.id, queue.take()?.id, queue.take()?.id]).toEqual(["1", "4", undefined]);
  queue.ended(call("1", "eve", "a"), 1);
  expect(queue.take()?.id).toBe("2");
});

test("usage decays with time", () => {
  const { queue, add, use, wait } = open();
  use("eve", "a", 1_000);
  wait(600_000);
  use("ann", "films", 1);
  add("eve", "eve", "a");
  add("ann", "ann", "films");
  expect(queue.take()?.id).toBe("eve");
});

test("a removed call does not run", () => {
  const { queue, call } = open();
  const gone = call("gone", "ann", "films");
  queue.add(gone);
  expect([queue.remove(gone), queue.remove(gone), queue.take()]).toEqual([true, false, undefined]);
});
