/** Visibility and conflicts between transactions. */

import {
  firstGreaterOrEqual,
  type KeyValueStore,
  lastLessThan,
  type Transaction,
} from "../../kv/index.ts";
import { expect } from "./expect.ts";
import type { Test } from "./features.ts";
import { bytes, type Fixture, put, read, rows } from "./fixture.ts";

export function isolationTests(fixture: () => Fixture, test: Test): void {
  /**
   * Runs `body` on one node and, in the first attempt that could commit, runs `interfere` on the
   * other node between the body's reads and its commit. Returns whether the attempt conflicted.
   */
  async function conflicts(
    body: (tx: Transaction) => Promise<unknown>,
    interfere: (tx: Transaction) => void,
  ): Promise<boolean> {
    const first = await countAttempts(fixture().kv, body);
    let attemptCount = 0;
    await fixture().kv.transact(async (tx) => {
      await body(tx);
      attemptCount++;
      if (attemptCount === first)
        await fixture().peerKv.transact(async (other) => interfere(other));
    });
    expect([first, first + 1]).toContain(attemptCount);
    return attemptCount > first;
  }

  /**
   * Returns the number of attempts of a transaction without conflicts: 1, or 2 if the store runs
   * each body twice.
   */
  async function countAttempts(
    kv: KeyValueStore,
    body: (tx: Transaction) => Promise<unknown>,
  ): Promise<number> {
    let attemptCount = 0;
    await kv.transact(async (tx) => {
      attemptCount++;
      await body(tx);
    });
    return attemptCount;
  }

  const key = (name: string): Uint8Array => bytes(name);

  test("a transaction sees one state of the store, whatever other transactions commit meanwhile", async () => {
    await fixture().kv.transact(async (tx) => put(tx, "a", "old"));
    await fixture().kv.read(async (tx) => {
      expect(await read(tx, "a")).toBe("old");
      await fixture().peerKv.transact(async (other) => {
        put(other, "a", "new");
        put(other, "b", "new");
      });
      expect(await read(tx, "a")).toBe("old");
      expect(await rows(tx, "a", "z")).toEqual(["a=old"]);
    });
    expect(await fixture().kv.read((tx) => rows(tx, "a", "z"))).toEqual(["a=new", "b=new"]);
  });

  test("a reader that starts after a commit sees its writes, even while older readers are open", async () => {
    const { kv, peerKv } = fixture();
    const current = (): Promise<string | undefined> => kv.read((tx) => read(tx, "a"));
    await kv.transact(async (tx) => put(tx, "a", "first"));
    await kv.read(async (oldest) => {
      expect(await read(oldest, "a")).toBe("first");
      await peerKv.transact(async (tx) => put(tx, "a", "second"));
      await kv.read(async (older) => {
        expect(await read(older, "a")).toBe("second");
        await kv.transact(async (tx) => put(tx, "a", "third"));
        expect([await current(), await read(older, "a")]).toEqual(["third", "second"]);
      });
      await peerKv.transact(async (tx) => tx.clear(key("a")));
      expect([await current(), await read(oldest, "a")]).toEqual([undefined, "first"]);
      expect(await kv.transact((tx) => read(tx, "a"))).toBe(undefined);
    });
  });

  test("a write by another transaction to a key that was read causes a conflict", async () => {
    const body = async (tx: Transaction): Promise<void> => {
      await tx.get(key("a"));
      put(tx, "out", "1");
    };
    expect(await conflicts(body, (tx) => put(tx, "a", "x"))).toBe(true);
    expect(await conflicts(body, (tx) => tx.clear(key("a")))).toBe(true);
    expect(await conflicts(body, (tx) => tx.add(key("a"), 1n))).toBe(true);
    expect(await conflicts(body, (tx) => tx.clearRange({ begin: key("a"), end: key("b") }))).toBe(
      true,
    );
    expect(await conflicts(body, (tx) => put(tx, "aa", "x"))).toBe(false);
  });

  test("writes without reads do not conflict", async () => {
    const body = async (tx: Transaction): Promise<void> => put(tx, "a", "mine");
    expect(await conflicts(body, (tx) => put(tx, "a", "theirs"))).toBe(false);
    expect(await fixture().kv.read((tx) => read(tx, "a"))).toBe("mine");
  });

  test("a new key in a range that was read causes a conflict (no phantoms)", async () => {
    const body = async (tx: Transaction): Promise<void> => {
      await rows(tx, "b", "d");
      put(tx, "out", "1");
    };
    expect(await conflicts(body, (tx) => put(tx, "c", "x"))).toBe(true);
    expect(await conflicts(body, (tx) => tx.clear(key("b1")))).toBe(true);
    expect(await conflicts(body, (tx) => put(tx, "d", "x"))).toBe(false);
    expect(await conflicts(body, (tx) => tx.clearRange({ begin: key("a"), end: key("b") }))).toBe(
      false,
    );
    expect(await conflicts(body, (tx) => tx.clearRange({ begin: key("a"), end: key("b1") }))).toBe(
      true,
    );
  });

  test("if a range read stopped early, only writes up to the last key that it read conflict with it", async () => {
    await fixture().kv.transact(async (tx) => {
      for (const name of ["b", "c", "d", "e"]) put(tx, name, name);
    });
    const up = async (tx: Transaction): Promise<void> => {
      await tx.getRangePage({ begin: key("a"), end: key("z") }, { limit: 2 });
      tx.set(new Uint8Array([1]), key("1"));
    };
    expect(await conflicts(up, (tx) => put(tx, "d", "x"))).toBe(false);
    expect(await conflicts(up, (tx) => put(tx, "c", "x"))).toBe(true);
    const down = async (tx: Transaction): Promise<void> => {
      await tx.getRangePage({ begin: key("a"), end: key("z") }, { limit: 2, reverse: true });
      tx.set(new Uint8Array([1]), key("1"));
    };
    expect(await conflicts(down, (tx) => put(tx, "c", "x"))).toBe(false);
    expect(await conflicts(down, (tx) => put(tx, "d", "x"))).toBe(true);
    expect(await conflicts(down, (tx) => put(tx, "f", "x"))).toBe(true);
  });

  test("writing a key that would change the result of a key selector causes a conflict", async () => {
    await fixture().kv.transact(async (tx) => put(tx, "m", "m"));
    const body = async (tx: Transaction): Promise<void> => {
      await tx.getKey(firstGreaterOrEqual(key("c")));
      tx.set(new Uint8Array([1]), key("1"));
    };
    expect(await conflicts(body, (tx) => put(tx, "z", "x"))).toBe(false);
    expect(await conflicts(body, (tx) => put(tx, "d", "x"))).toBe(true);
  });

  test("a reverse key selector conflicts with a change of the key that it found, and with a key added after that key", async () => {
    await fixture().kv.transact(async (tx) => put(tx, "m", "m"));
    const body = async (tx: Transaction): Promise<void> => {
      await tx.getKey(lastLessThan(key("t")));
      tx.set(new Uint8Array([1]), key("1"));
    };
    expect(await conflicts(body, (tx) => put(tx, "c", "x"))).toBe(false);
    expect(await conflicts(body, (tx) => put(tx, "m", "x"))).toBe(true);
    expect(await conflicts(body, (tx) => put(tx, "p", "x"))).toBe(true);
  });

  test("snapshot reads do not conflict", async () => {
    const body = async (tx: Transaction): Promise<void> => {
      await tx.snapshot.get(key("a"));
      await rows(tx.snapshot, "a", "z");
      await tx.snapshot.getKey(firstGreaterOrEqual(key("a")));
      tx.set(new Uint8Array([1]), key("1"));
    };
    expect(await conflicts(body, (tx) => put(tx, "a", "x"))).toBe(false);
  });

  test("a transaction can declare conflicts without reading or writing", async () => {
    const reader = async (tx: Transaction): Promise<void> => {
      await tx.readVersion();
      tx.addReadConflictKey(key("a"));
      tx.addReadConflictRange({ begin: key("m"), end: key("p") });
      put(tx, "out", "1");
    };
    expect(await conflicts(reader, (tx) => put(tx, "a", "x"))).toBe(true);
    expect(await conflicts(reader, (tx) => put(tx, "n", "x"))).toBe(true);
    expect(await conflicts(reader, (tx) => put(tx, "p", "x"))).toBe(false);
    const body = async (tx: Transaction): Promise<void> => {
      await tx.get(key("a"));
      await rows(tx, "m", "p");
      put(tx, "out", "1");
    };
    expect(await conflicts(body, (tx) => tx.addWriteConflictKey(key("a")))).toBe(true);
    const range = { begin: key("l"), end: key("n") };
    expect(await conflicts(body, (tx) => tx.addWriteConflictRange(range))).toBe(true);
    expect(await conflicts(body, (tx) => tx.addWriteConflictKey(key("b")))).toBe(false);
  });

  test("a read-only transaction never conflicts", async () => {
    const body = async (tx: Transaction): Promise<void> => {
      await tx.get(key("a"));
    };
    expect(await conflicts(body, (tx) => put(tx, "a", "x"))).toBe(false);
  });

  test("if each of two transactions clears a key that the other one reads, only one can commit (no write skew)", async () => {
    for (let round = 0; round < 10; round++) {
      await fixture().kv.transact(async (tx) => {
        put(tx, "on-call/1", "yes");
        put(tx, "on-call/2", "yes");
      });
      const leave = (kv: KeyValueStore, name: string): Promise<void> =>
        kv.transact(async (tx) => {
          const others = await rows(tx, "on-call/", "on-call0");
          if (others.length > 1) tx.clear(key(name));
        });
      await Promise.all([leave(fixture().kv, "on-call/1"), leave(fixture().peerKv, "on-call/2")]);
      const left = await fixture().kv.read((tx) => rows(tx, "on-call/", "on-call0"));
      expect(left).toHaveLength(1);
    }
  });

  test("a counter incremented by many concurrent transactions loses no increment", async () => {
    const increment = (kv: KeyValueStore): Promise<void> =>
      kv.transact(async (tx) => {
        const value = Number((await read(tx, "count")) ?? "0");
        put(tx, "count", String(value + 1));
      });
    await Promise.all(
      Array.from({ length: 24 }, (_, index) =>
        increment(index % 2 === 0 ? fixture().kv : fixture().peerKv),
      ),
    );
    expect(await fixture().kv.read((tx) => read(tx, "count"))).toBe("24");
  });

  test("read versions never decrease, and each commit increases them", async () => {
    const before = await fixture().kv.read((tx) => tx.readVersion());
    await fixture().peerKv.transact(async (tx) => put(tx, "a", "1"));
    const after = await fixture().kv.read((tx) => tx.readVersion());
    expect(after > before).toBe(true);
  });
}
