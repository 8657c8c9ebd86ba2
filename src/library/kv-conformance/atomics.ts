/** Operations that change a value without reading it. */
import { expect } from "./expect.ts";
import type { Test } from "./features.ts";
import { bytes, type Fixture } from "./fixture.ts";

export function atomicTests(fixture: () => Fixture, test: Test): void {
  const counter = bytes("counter");
  const little = (value: bigint): Uint8Array => {
    const encoded = Buffer.alloc(8);
    encoded.writeBigInt64LE(value);
    return new Uint8Array(encoded);
  };

  test("`add` treats an unset key as zero, and wraps around below zero", async () => {
    await fixture().kv.transact(async (tx) => tx.add(counter, 5n));
    await fixture().peerKv.transact(async (tx) => tx.add(counter, -7n));
    expect(await fixture().kv.read((tx) => tx.get(counter))).toEqual(little(-2n));
  });

  test("concurrent additions do not conflict, and every addition is counted", async () => {
    let attemptCount = 0;
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        (index % 2 === 0 ? fixture().kv : fixture().peerKv).transact(
          async (tx) => {
            attemptCount++;
            tx.add(counter, BigInt(index));
          },
          { whenUnknown: "check" },
        ),
      ),
    );
    expect(await fixture().kv.read((tx) => tx.get(counter))).toEqual(little(190n));
    expect([20, 40]).toContain(attemptCount);
  });

  test("a transaction that has added to a key can read the sum so far", async () => {
    await fixture().kv.transact(async (tx) => tx.set(counter, little(40n)));
    await fixture().kv.transact(async (tx) => {
      tx.add(counter, 1n);
      tx.add(counter, 1n);
      expect(await tx.get(counter)).toEqual(little(42n));
      const page = await tx.getRangePage({ begin: bytes("a"), end: bytes("z") });
      expect(page.entries).toEqual([{ key: counter, value: little(42n) }]);
      tx.clear(counter);
      tx.add(counter, 3n);
      expect(await tx.get(counter)).toEqual(little(3n));
    });
    expect(await fixture().kv.read((tx) => tx.get(counter))).toEqual(little(3n));
  });

  test("`add` truncates a stored value that is longer than the operand to the operand's length", async () => {
    await fixture().kv.transact(async (tx) => tx.set(counter, new Uint8Array(12).fill(1)));
    await fixture().kv.transact(async (tx) => tx.add(counter, 1n));
    const sum = await fixture().kv.read((tx) => tx.get(counter));
    expect(sum).toEqual(new Uint8Array([2, 1, 1, 1, 1, 1, 1, 1]));
  });

  test("max keeps the larger number in little-endian order", async () => {
    const max = (...value: number[]): Promise<void> =>
      fixture().kv.transact(async (tx) => tx.max(counter, new Uint8Array(value)));
    const stored = (): Promise<Uint8Array | undefined> =>
      fixture().kv.read((tx) => tx.get(counter));
    await max(5, 1);
    expect(await stored()).toEqual(new Uint8Array([5, 1]));
    await max(255, 0);
    expect(await stored()).toEqual(new Uint8Array([5, 1]));
    await max(0, 2);
    expect(await stored()).toEqual(new Uint8Array([0, 2]));
    await max(1, 2, 0);
    expect(await stored()).toEqual(new Uint8Array([1, 2, 0]));
    await fixture().kv.transact(async (tx) => {
      tx.max(counter, new Uint8Array([0, 3]));
      tx.max(counter, new Uint8Array([0, 1]));
      expect(await tx.get(counter)).toEqual(new Uint8Array([0, 3]));
    });
  });

  test("byteMin keeps the smaller value in byte order, and sets the value of an unset key", async () => {
    const key = bytes("due");
    const stored = (): Promise<Uint8Array | undefined> => fixture().kv.read((tx) => tx.get(key));
    await fixture().kv.transact(async (tx) => tx.byteMin(key, bytes("m")));
    await fixture().kv.transact(async (tx) => tx.byteMin(key, bytes("z")));
    expect(await stored()).toEqual(bytes("m"));
    await fixture().peerKv.transact(async (tx) => tx.byteMin(key, bytes("ab")));
    expect(await stored()).toEqual(bytes("ab"));
    await fixture().kv.transact(async (tx) => {
      tx.byteMin(key, bytes("a"));
      expect(await tx.get(key)).toEqual(bytes("a"));
    });
    expect(await stored()).toEqual(bytes("a"));
  });
}
