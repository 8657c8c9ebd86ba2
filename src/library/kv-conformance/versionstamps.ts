/** Versionstamps: the values set by the commit, and their order. */

import {
  packTupleVersionstamped,
  Subspace,
  type Transaction,
  type Tuple,
  unpackTuple,
  Versionstamp,
} from "../../kv/index.ts";
import { expect } from "./expect.ts";
import type { Test } from "./features.ts";
import { bytes, type Fixture, put } from "./fixture.ts";

export function versionstampTests(fixture: () => Fixture, test: Test): void {
  const log = Subspace.fromTuple(["log"]);

  const append = (...names: string[]): Promise<void> =>
    fixture().kv.transact(async (tx) => {
      for (const name of names) {
        const stamp = Versionstamp.incomplete(tx.nextUserVersion());
        tx.setVersionstampedKey(log.packVersionstamped([stamp, name]), bytes(name));
      }
    });

  async function entries(): Promise<[Versionstamp, string][]> {
    const page = await fixture().peerKv.read((tx) => tx.getRangePage(log.range()));
    return page.entries.map(({ key }) => log.unpack(key) as [Versionstamp, string]);
  }

  test("versionstamped keys are sorted by commit, and within a commit by user version", async () => {
    await append("a", "b");
    await append("c");
    await append("d", "e", "f");
    const found = await entries();
    expect(found.map(([, name]) => name)).toEqual(["a", "b", "c", "d", "e", "f"]);
    const commits = found.map(([stamp]) => stamp.toString().slice(0, 20));
    expect(commits[0]).toBe(commits[1]);
    expect(new Set(commits).size).toBe(3);
    expect(found.map(([stamp]) => stamp.bytes[11])).toEqual([0, 1, 0, 0, 1, 2]);
  });

  test("transactions that commit together get different versionstamps", async () => {
    const { kv, peerKv } = fixture();
    await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        (index % 2 === 0 ? kv : peerKv).transact(async (tx) => {
          const key = log.packVersionstamped([Versionstamp.incomplete(), String(index)]);
          tx.setVersionstampedKey(key, bytes(""));
        }),
      ),
    );
    const stamps = (await entries()).map(([stamp]) => stamp.toString());
    expect(new Set(stamps).size).toBe(30);
    expect(stamps).toEqual(stamps.toSorted());
  });

  test("the versionstamp stored in a value is the one that afterCommit reports", async () => {
    let announced: Versionstamp | undefined;
    await fixture().kv.transact(async (tx) => {
      const tuple: Tuple = ["x", Versionstamp.incomplete(3), "y"];
      tx.setVersionstampedValue(bytes("value"), packTupleVersionstamped(tuple));
      const key = log.packVersionstamped([Versionstamp.incomplete(4), "key"]);
      tx.setVersionstampedKey(key, bytes(""));
      tx.afterCommit(({ versionstamp }) => {
        announced = versionstamp;
      });
    });
    const stored = await fixture().peerKv.read((tx) => tx.get(bytes("value")));
    const [before, stamp, after] = unpackTuple(stored ?? bytes(""));
    expect([before, after]).toEqual(["x", "y"]);
    expect(stamp).toEqual(announced?.withUserVersion(3));
    expect((await entries())[0]?.[0]).toEqual(announced?.withUserVersion(4));
  });

  test("a later commit has a larger versionstamp, whichever node commits", async () => {
    const stamps: string[] = [];
    for (let index = 0; index < 10; index++) {
      const kv = index % 2 === 0 ? fixture().kv : fixture().peerKv;
      await kv.transact(async (tx) => {
        put(tx, "a", String(index));
        tx.afterCommit(({ versionstamp }) => stamps.push(String(versionstamp)));
      });
    }
    expect(stamps).toEqual(stamps.toSorted());
    expect(new Set(stamps).size).toBe(10);
  });

  test("a versionstamped key cannot be read before the commit", async () => {
    await expect(
      fixture().kv.transact(async (tx) => {
        tx.setVersionstampedValue(bytes("v"), packTupleVersionstamped([Versionstamp.incomplete()]));
        await tx.get(bytes("v"));
      }),
    ).rejects.toThrow();
    await expect(
      fixture().kv.transact(async (tx) => {
        const key = log.packVersionstamped([Versionstamp.incomplete()]);
        tx.setVersionstampedKey(key, bytes(""));
        await tx.getRangePage(log.range());
      }),
    ).rejects.toThrow();
  });

  test("if a transaction writes a versionstamped key twice, the last value is stored", async () => {
    // Odd, so that an engine that reorders every other write is detected.
    const count = 21;
    await fixture().kv.transact(async (tx) => {
      const stamps = Array.from({ length: count }, () =>
        Versionstamp.incomplete(tx.nextUserVersion()),
      );
      for (const value of ["first", "last"]) {
        for (const stamp of stamps) {
          tx.setVersionstampedKey(log.packVersionstamped([stamp]), bytes(value));
        }
      }
    });
    const { entries: stored } = await fixture().kv.read((tx) => tx.getRangePage(log.range()));
    expect(stored.map(({ value }) => [...value])).toEqual(
      Array.from({ length: count }, () => [...bytes("last")]),
    );
  });

  test("clearing a range also clears the transaction's own versionstamped keys in that range", async () => {
    await append("before");
    await fixture().kv.transact(async (tx) => {
      await tx.readVersion();
      const key = log.packVersionstamped([Versionstamp.incomplete(tx.nextUserVersion()), "gone"]);
      tx.setVersionstampedKey(key, bytes("gone"));
      tx.clearRange({ begin: bytes("elsewhere"), end: bytes("elsewhere0") });
      tx.clearRange(log.range());
      expect((await tx.getRangePage(log.range())).entries).toEqual([]);
      const later = log.packVersionstamped([
        Versionstamp.incomplete(tx.nextUserVersion()),
        "later",
      ]);
      tx.setVersionstampedKey(later, bytes("later"));
    });
    expect((await entries()).map(([, name]) => name)).toEqual(["later"]);
  });

  test("clearing a range keeps the versionstamped keys after the range", async () => {
    await append("before");
    const clearBefore = async (tx: Transaction): Promise<void> => {
      const { begin } = log.range();
      const readVersion = await tx.readVersion();
      const stampBytes = new Uint8Array(12);
      new DataView(stampBytes.buffer).setBigUint64(0, readVersion);
      const key = log.packVersionstamped([Versionstamp.incomplete(tx.nextUserVersion()), "kept"]);
      tx.setVersionstampedKey(key, bytes("kept"));
      tx.clearRange({ begin, end: log.pack([Versionstamp.fromBytes(stampBytes)]) });
    };
    // The cleared key stays unreadable until the commit. After an attempt to read it, FoundationDB
    // also refuses the commit.
    await expect(
      fixture().kv.transact(async (tx) => {
        await clearBefore(tx);
        await tx.getRangePage(log.range());
      }),
    ).rejects.toThrow();
    await fixture().kv.transact(clearBefore);
    expect((await entries()).map(([, name]) => name)).toContain("kept");
  });

  test("user versions start at zero in each attempt", async () => {
    const drawn: number[] = [];
    await fixture().kv.transact(async (tx) => {
      drawn.splice(0);
      put(tx, "a", "1");
      drawn.push(tx.nextUserVersion(), tx.nextUserVersion(), tx.nextUserVersion());
    });
    expect(drawn).toEqual([0, 1, 2]);
  });

  test("a transaction that writes nothing has no versionstamp", async () => {
    const announced: unknown[] = [];
    await fixture().kv.transact(async (tx) => {
      await tx.get(bytes("a"));
      tx.afterCommit(({ versionstamp }) => announced.push(versionstamp));
    });
    expect(announced).toEqual([undefined]);
  });
}
