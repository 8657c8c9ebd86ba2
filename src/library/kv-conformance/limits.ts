/** FoundationDB's limits, which apply on every engine. */

import { Subspace, Versionstamp } from "../../kv/index.ts";
import { expect } from "./expect.ts";
import type { Test } from "./features.ts";
import { bytes, EVERYTHING, type Fixture, put, read } from "./fixture.ts";

export function limitTests(fixture: () => Fixture, test: Test): void {
  test("a key of 9,900 bytes is stored, and a key of more than 10,000 bytes is refused", async () => {
    const largest = new Uint8Array(9_900).fill(1);
    await fixture().kv.transact(async (tx) => tx.set(largest, bytes("x")));
    expect(await fixture().peerKv.read((tx) => tx.get(largest))).toEqual(bytes("x"));
    const larger = new Uint8Array(10_001).fill(1);
    const refusal = { code: "KV_KEY_TOO_LARGE" };
    await expect(fixture().kv.read((tx) => tx.get(larger))).rejects.toMatchObject(refusal);
    for (const write of ["set", "clear", "add"] as const) {
      await expect(
        fixture().kv.transact(async (tx) => {
          if (write === "set") tx.set(larger, bytes("x"));
          else if (write === "clear") tx.clear(larger);
          else tx.add(larger, 1n);
        }),
      ).rejects.toMatchObject(refusal);
    }
  });

  test("a range with a bound of more than 10,000 bytes is refused", async () => {
    const { kv } = fixture();
    const longer = new Uint8Array(10_010).fill(1);
    const refusal = { code: "KV_KEY_TOO_LARGE" };
    for (const range of [
      { begin: longer, end: EVERYTHING.end },
      { begin: EVERYTHING.begin, end: longer },
    ]) {
      await expect(kv.read((tx) => tx.getRangePage(range))).rejects.toMatchObject(refusal);
      await expect(kv.transact(async (tx) => tx.clearRange(range))).rejects.toMatchObject(refusal);
    }
  });

  test("a value of 100,000 bytes is stored, and a larger value is refused", async () => {
    const largest = new Uint8Array(100_000).fill(7);
    await fixture().kv.transact(async (tx) => tx.set(bytes("v"), largest));
    const stored = await fixture().peerKv.read((tx) => tx.get(bytes("v")));
    expect(stored?.length).toBe(100_000);
    expect(stored?.every((byte) => byte === 7)).toBe(true);
    await expect(
      fixture().kv.transact(async (tx) => tx.set(bytes("v"), new Uint8Array(100_001))),
    ).rejects.toMatchObject({ code: "KV_VALUE_TOO_LARGE" });
  });

  test("a transaction of 9 MB is committed, and one of more than 10 MB is refused as a whole", async () => {
    const fill = (count: number): Promise<void> =>
      fixture().kv.transact(async (tx) => {
        for (let index = 0; index < count; index++) put(tx, `big/${index}`, "x".repeat(90_000));
      });
    await fill(100);
    const page = await fixture().peerKv.read((tx) => tx.getRangePage(EVERYTHING));
    expect(page.entries).toHaveLength(100);
    await fixture().kv.transact(async (tx) => tx.clearRange(EVERYTHING));
    await expect(fill(115)).rejects.toMatchObject({ code: "KV_TOO_LARGE" });
    const after = await fixture().peerKv.read((tx) => tx.getRangePage(EVERYTHING));
    expect(after.entries).toEqual([]);
  });

  test("a transaction can have at most 65,536 versionstamps", async () => {
    const log = Subspace.fromTuple(["log"]);
    await fixture().kv.transact(async (tx) => {
      for (let number = 0; number < 65_536; number++) {
        const stamp = Versionstamp.incomplete(tx.nextUserVersion());
        tx.setVersionstampedKey(log.packVersionstamped([stamp]), bytes(""));
      }
    });
    const { entries } = await fixture().peerKv.read((tx) => tx.getRangePage(log.range()));
    expect(entries).toHaveLength(65_536);
    const oneMore = fixture().kv.transact(async (tx) => {
      for (let number = 0; number < 65_537; number++) tx.nextUserVersion();
    });
    await expect(oneMore).rejects.toMatchObject({ code: "KV_TOO_LARGE" });
  }, ["versionstamps"]);

  test("a read version is too old after five seconds, and the next attempt gets a new one", async () => {
    await fixture().kv.transact(async (tx) => put(tx, "a", "1"));
    let attemptCount = 0;
    const value = await fixture().kv.read(async (tx) => {
      attemptCount++;
      await read(tx, "b");
      if (attemptCount === 1) await fixture().passReadVersionAge();
      return await read(tx, "a");
    });
    expect(value).toBe("1");
    expect(attemptCount).toBe(2);
    await expect(
      fixture().kv.read(
        async (tx) => {
          await read(tx, "b");
          await fixture().passReadVersionAge();
          return await read(tx, "a");
        },
        { retryCountMax: 0 },
      ),
    ).rejects.toMatchObject({ code: "KV_TOO_OLD" });
  }, ["read-version-age"]);

  test("a transaction whose read version is more than five seconds old cannot commit", async () => {
    let attemptCount = 0;
    await fixture().kv.transact(async (tx) => {
      attemptCount++;
      await read(tx, "a");
      put(tx, "b", String(attemptCount));
      if (attemptCount === 1) await fixture().passReadVersionAge();
    });
    expect(attemptCount).toBe(2);
    expect(await fixture().kv.read((tx) => read(tx, "b"))).toBe("2");
  }, ["read-version-age"]);
}
