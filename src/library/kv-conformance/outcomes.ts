/**
 * Outcomes of calls: retries and their limits, abort signals, timeouts, unknown commits, effects
 * after a commit, and closing the store.
 */

import { type Engine, KeyValueError, KeyValueStore, type Transaction } from "../../kv/index.ts";
import { expect } from "./expect.ts";
import type { Test } from "./features.ts";
import { bytes, type Fixture, gate, put, read } from "./fixture.ts";
import { type CommitOutcome, unknownCommits } from "./unknown-commits.ts";

export function outcomeTests(fixture: () => Fixture, test: Test): void {
  /**
   * A body that conflicts in every attempt: after the attempt has read a key, the other node
   * changes this key.
   */
  const alwaysLate = async (tx: Transaction): Promise<void> => {
    await read(tx, "a");
    await fixture().peerKv.transact(async (other) => put(other, "a", String(Math.random())));
    put(tx, "b", "late");
  };

  test("a body that throws writes nothing, and the caller receives the error", async () => {
    const failure = new TypeError("of the body");
    await expect(
      fixture().kv.transact(async (tx) => {
        put(tx, "a", "1");
        throw failure;
      }),
    ).rejects.toBe(failure);
    expect(await fixture().peerKv.read((tx) => read(tx, "a"))).toBeUndefined();
  });

  test("the caller receives the value of the attempt that committed", async () => {
    let attemptCount = 0;
    const returned = await fixture().kv.transact(async (tx) => {
      attemptCount++;
      await read(tx, "a");
      put(tx, "b", "1");
      if (attemptCount <= 3) {
        await fixture().peerKv.transact(async (other) => put(other, "a", String(attemptCount)));
      }
      return attemptCount;
    });
    expect(returned).toBe(4);
  });

  test("a call that reaches its retry limit fails with the last conflict", async () => {
    let attemptCount = 0;
    await expect(
      fixture().kv.transact(
        async (tx) => {
          attemptCount++;
          await alwaysLate(tx);
        },
        { retryCountMax: 2 },
      ),
    ).rejects.toMatchObject({ code: "KV_CONFLICT" });
    expect(attemptCount).toBe(3);
    expect(await fixture().kv.read((tx) => read(tx, "b"))).toBeUndefined();
  });

  test("a time limit applies to all attempts of a call together", async () => {
    await expect(fixture().kv.transact(alwaysLate, { timeoutMs: 300 })).rejects.toMatchObject({
      code: /^KV_(TIMED_OUT|UNKNOWN_COMMIT)$/,
    });
    const held = gate();
    await expect(
      fixture().kv.transact(
        async (tx) => {
          put(tx, "c", "1");
          await held.opened;
        },
        { timeoutMs: 50 },
      ),
    ).rejects.toMatchObject({ code: "KV_TIMED_OUT" });
    held.open();
    expect(await fixture().kv.read((tx) => read(tx, "c"))).toBeUndefined();
  });

  test("an aborted signal ends the call, and the body's later reads fail", async () => {
    const controller = new AbortController();
    const held = gate();
    const late: unknown[] = [];
    const bodyEnded = gate();
    const call = fixture().kv.transact(
      async (tx) => {
        put(tx, "a", "1");
        controller.abort(new Error("gone"));
        await held.opened;
        await tx.get(bytes("a")).catch((error) => late.push(error.code));
        bodyEnded.open();
      },
      { signal: controller.signal },
    );
    await expect(call).rejects.toThrow("gone");
    held.open();
    await bodyEnded.opened;
    expect(late).toEqual(["KV_CLOSED"]);
    expect(await fixture().peerKv.read((tx) => read(tx, "a"))).toBeUndefined();
    await expect(
      fixture().kv.read((tx) => read(tx, "a"), { signal: controller.signal }),
    ).rejects.toThrow("gone");
  });

  test("effects run once, in order, and only after the successful commit", async () => {
    const effects: string[] = [];
    let attemptCount = 0;
    await fixture().kv.transact(async (tx) => {
      attemptCount++;
      const attempt = attemptCount;
      await read(tx, "a");
      put(tx, "b", "1");
      tx.afterCommit(() => effects.push(`first of ${attempt}`));
      tx.afterCommit(() => effects.push(`second of ${attempt}`));
      if (attempt <= 2) {
        await fixture().peerKv.transact(async (other) => put(other, "a", String(attempt)));
      }
      expect(effects).toEqual([]);
    });
    expect(effects).toEqual(["first of 3", "second of 3"]);
    await fixture()
      .kv.transact(async (tx) => {
        tx.afterCommit(() => effects.push("never"));
        throw new Error("of the body");
      })
      .catch(() => {});
    expect(effects).toHaveLength(2);
  });

  const increment = async (tx: Transaction): Promise<void> => {
    const count = Number((await read(tx, "count")) ?? "0");
    put(tx, "count", String(count + 1));
  };
  const withOutcomes = (...outcomes: CommitOutcome[]): KeyValueStore =>
    new KeyValueStore({
      runtime: fixture().runtime,
      engine: unknownCommits(fixture().engine, outcomes),
    });
  const count = (): Promise<string | undefined> => fixture().kv.read((tx) => read(tx, "count"));

  test("an unknown outcome of a commit is reported to callers that can handle it, and the body is not repeated", async () => {
    for (const outcome of ["carried out", "lost"] as const) {
      await fixture().kv.transact(async (tx) => put(tx, "count", "0"));
      const call = withOutcomes(outcome).transact(increment, { whenUnknown: "throw" });
      await expect(call).rejects.toMatchObject({ code: "KV_UNKNOWN_COMMIT" });
      expect(await count()).toBe(outcome === "lost" ? "0" : "1");
    }
  });

  test("an increment under a transaction id is applied once, even if the outcome of commits is unknown", async () => {
    for (const outcomes of [
      ["carried out"],
      ["lost"],
      ["lost", "lost", "carried out"],
      ["lost", "carried out"],
    ] satisfies CommitOutcome[][]) {
      await fixture().kv.transact(async (tx) => put(tx, "count", "0"));
      const effects: unknown[] = [];
      await withOutcomes(...outcomes).transact(async (tx) => {
        await increment(tx);
        tx.afterCommit(({ versionstamp }) => effects.push(versionstamp?.complete));
      });
      expect(await count(), outcomes.join()).toBe("1");
      expect(effects).toEqual([true]);
    }
  });

  test("if the outcome of a commit is unknown and the body wrote nothing, the body runs again, and no transaction id is stored", async () => {
    const ids = { begin: new Uint8Array([0xfe]), end: new Uint8Array([0xff]) };
    const idCount = async (): Promise<number> =>
      (await fixture().kv.read((tx) => tx.getRangePage(ids))).entries.length;
    await fixture().kv.transact(async (tx) => put(tx, "count", "3"), { whenUnknown: "retry" });
    const before = await idCount();
    let attemptCount = 0;
    const value = await withOutcomes("carried out").transact(async (tx) => {
      attemptCount++;
      return read(tx, "count");
    });
    expect(value).toBe("3");
    expect(attemptCount).toBeGreaterThan(1);
    expect(await idCount()).toBe(before);
  });

  test("the outcome of a commit stays unknown if the transaction id cannot be read", async () => {
    const outcomes: CommitOutcome[] = ["carried out"];
    const engine = unknownCommits(fixture().engine, outcomes);
    const gone: Engine = {
      name: engine.name,
      begin(attempt) {
        if (outcomes.length === 0) throw new KeyValueError("KV_UNAVAILABLE", { reason: "gone" });
        return engine.begin(attempt);
      },
      close: () => engine.close(),
    };
    const kv = new KeyValueStore({ runtime: fixture().runtime, engine: gone });
    const call = kv.transact(async (tx) => put(tx, "count", "9"));
    await expect(call).rejects.toMatchObject({ code: "KV_UNKNOWN_COMMIT" });
  });

  test("a body declared idempotent runs again after an unknown commit", async () => {
    await withOutcomes("carried out", "lost").transact(async (tx) => put(tx, "count", "7"), {
      whenUnknown: "retry",
    });
    expect(await count()).toBe("7");
  });

  test("an increment wrongly declared idempotent is applied twice", async () => {
    await withOutcomes("carried out").transact(increment, { whenUnknown: "retry" });
    expect(await count()).toBe("2");
  });
}
