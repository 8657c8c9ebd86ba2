/** Reads: order, ranges, selectors, pages, and a transaction's own writes. */

import {
  BEHIND_LAST_KEY,
  FIRST_KEY,
  firstGreaterOrEqual,
  firstGreaterThan,
  type KeySelector,
  lastLessOrEqual,
  lastLessThan,
} from "../../kv/index.ts";
import { expect } from "./expect.ts";
import type { Test } from "./features.ts";
import {
  bytes,
  EVERYTHING,
  type Fixture,
  hexKeys,
  put,
  read,
  rows,
  rowText,
  text,
} from "./fixture.ts";

export function readTests(fixture: () => Fixture, test: Test): void {
  const fill = (...keys: string[]): Promise<void> =>
    fixture().kv.transact(async (tx) => {
      for (const key of keys) put(tx, key, key.toUpperCase());
    });

  test("a commit is visible on this node and on another node", async () => {
    await fill("a", "b");
    for (const kv of [fixture().kv, fixture().peerKv]) {
      expect(await kv.read((tx) => read(tx, "a"))).toBe("A");
      expect(await kv.read((tx) => read(tx, "c"))).toBeUndefined();
      expect(await kv.read((tx) => rows(tx, "a", "z"))).toEqual(["a=A", "b=B"]);
    }
  });

  test("getMany returns the values in the order of the requested keys, and includes the transaction's own writes", async () => {
    await fill("a", "b", "c");
    const keys = ["c", "x", "a", "b", "a"].map(bytes);
    await fixture().kv.transact(async (tx) => {
      tx.clear(bytes("b"));
      put(tx, "x", "own");
      for (const reads of [tx, tx.snapshot]) {
        expect((await reads.getMany(keys)).map(text)).toEqual(["C", "own", "A", undefined, "A"]);
        expect(await reads.getMany([])).toEqual([]);
      }
    });
  });

  test("a transaction that read many keys cannot commit if another transaction has changed one of them since", async () => {
    await fill("a", "b");
    const keys = ["a", "b"].map(bytes);
    const { kv, peerKv } = fixture();
    let isChanged = false;
    const seen = await kv.transact(async (tx) => {
      const values = (await tx.getMany(keys)).map(text);
      if (!isChanged) await peerKv.transact(async (other) => put(other, "b", "changed"));
      isChanged = true;
      put(tx, "c", "written");
      return values;
    });
    expect(seen).toEqual(["A", "changed"]);
  });

  test("an empty value differs from an unset one, and a key may be empty", async () => {
    await fixture().kv.transact(async (tx) => {
      put(tx, "empty", "");
      tx.set(FIRST_KEY, bytes("first"));
    });
    const page = await fixture().peerKv.read((tx) => tx.getRangePage(EVERYTHING));
    expect(page.entries.map(rowText)).toEqual(["=first", "empty="]);
    expect(await fixture().kv.read(async (tx) => text(await tx.get(FIRST_KEY)))).toBe("first");
  });

  test("keys are in byte order, and a prefix precedes its extensions", async () => {
    const keys = ["00", "0000", "00ff", "01", "7f", "7fff", "80", "8000", "fe", "fe00", "feff"];
    await fixture().kv.transact(async (tx) => {
      for (const key of keys.toReversed()) tx.set(Buffer.from(key, "hex"), bytes(key));
    });
    await fixture().peerKv.read(async (tx) => {
      const up = await tx.getRangePage(EVERYTHING);
      expect(hexKeys(up.entries)).toEqual(keys);
      const down = await tx.getRangePage(EVERYTHING, { reverse: true });
      expect(hexKeys(down.entries)).toEqual(keys.toReversed());
    });
  });

  test("a page reports why it ended, and the next page begins after the last key", async () => {
    await fill("a", "b", "c", "d", "e");
    await fixture().kv.read(async (tx) => {
      const first = await tx.getRangePage(EVERYTHING, { limit: 2 });
      expect(first.entries.map(rowText)).toEqual(["a=A", "b=B"]);
      expect(first.stoppedBy).toBe("row-limit");
      const begin = firstGreaterThan(bytes("b"));
      const rest = await tx.getRangePage({ begin, end: BEHIND_LAST_KEY });
      expect(rest.entries.map(rowText)).toEqual(["c=C", "d=D", "e=E"]);
      expect(rest.stoppedBy).toBe("exhausted");
      const last = await tx.getRangePage(EVERYTHING, { limit: 2, reverse: true });
      expect(last.entries.map(rowText)).toEqual(["e=E", "d=D"]);
    });
  });

  test("a byte limit ends a page after the row that reaches it", async () => {
    await fixture().kv.transact(async (tx) => {
      for (let index = 0; index < 10; index++) put(tx, `k${index}`, "x".repeat(98));
    });
    await fixture().kv.read(async (tx) => {
      for (const reverse of [false, true]) {
        const page = await tx.getRangePage(
          { begin: bytes("k"), end: bytes("l") },
          { byteLimit: 250, reverse },
        );
        expect(page.stoppedBy).toBe("byte-limit");
        expect(page.entries.length).toBeGreaterThanOrEqual(1);
        expect(page.entries.length).toBeLessThanOrEqual(3);
      }
      const streamed: string[] = [];
      const range = tx.getRange({ begin: bytes("k"), end: bytes("l") }, { byteLimit: 250 });
      for await (const { key } of range) streamed.push(String(text(key)));
      expect(streamed.length).toBeLessThanOrEqual(3);
    });
  });

  test("with `lengthsOnly`, a page contains the stored keys, and placeholders as long as the stored values", async () => {
    const key = (length: number): Uint8Array => new Uint8Array(length).fill(0x61);
    const lengths = [
      [100, 0],
      [4_000, 70],
      [4_500, 90_000],
      [9_000, 5],
    ] as const;
    await fixture().kv.transact(async (tx) => {
      for (const [keyLength, valueLength] of lengths) {
        tx.set(key(keyLength), new Uint8Array(valueLength).fill(1));
      }
    });
    const range = { begin: key(1), end: bytes("b") };
    const measured = await fixture().peerKv.read(async (tx) => {
      const { entries } = await tx.getRangePage(range, { lengthsOnly: true });
      expect(entries.every((row) => Buffer.compare(row.key, key(row.key.length)) === 0)).toBe(true);
      return entries.map((row) => [row.key.length, row.value.length]);
    });
    expect(measured).toEqual(lengths);
    const values = await fixture().peerKv.read((tx) => tx.getRangePage(range));
    for (const { value } of values.entries) expect(value.every((byte) => byte === 1)).toBe(true);
  });

  test("a long range is read in order in both directions, and the caller may stop early", async () => {
    const keys = Array.from({ length: 2_500 }, (_, index) => `k${String(index).padStart(5, "0")}`);
    await fill(...keys);
    await fixture().peerKv.read(async (tx) => {
      expect(await rows(tx, "k", "l")).toHaveLength(2_500);
      const down = await rows(tx, "k", "l", { reverse: true });
      expect(down[0]).toBe("k02499=K02499");
      expect(down).toHaveLength(2_500);
      expect(await rows(tx, "k", "l", { limit: 1_700 })).toHaveLength(1_700);
      for await (const row of tx.getRange({ begin: bytes("k"), end: bytes("l") })) {
        expect(rowText(row)).toBe("k00000=K00000");
        break;
      }
    });
  });

  test("an empty or inverted range has no rows", async () => {
    await fill("a", "b");
    await fixture().kv.read(async (tx) => {
      expect(await rows(tx, "a", "a")).toEqual([]);
      expect(await rows(tx, "b", "a")).toEqual([]);
    });
  });

  test("key selectors find the keys before and after a given key", async () => {
    await fill("b", "d", "f");
    const far = (selector: KeySelector, by: number): KeySelector => ({
      ...selector,
      offset: selector.offset + by,
    });
    const cases: [KeySelector, string | Uint8Array][] = [
      [firstGreaterOrEqual(bytes("d")), "d"],
      [firstGreaterOrEqual(bytes("c")), "d"],
      [firstGreaterThan(bytes("d")), "f"],
      [firstGreaterThan(bytes("f")), BEHIND_LAST_KEY],
      [lastLessThan(bytes("d")), "b"],
      [lastLessOrEqual(bytes("d")), "d"],
      [lastLessOrEqual(bytes("e")), "d"],
      [lastLessThan(bytes("b")), FIRST_KEY],
      [far(firstGreaterOrEqual(bytes("b")), 2), "f"],
      [far(firstGreaterOrEqual(bytes("b")), 3), BEHIND_LAST_KEY],
      [far(lastLessThan(bytes("z")), -2), "b"],
      [far(lastLessThan(bytes("z")), -3), FIRST_KEY],
      [firstGreaterOrEqual(FIRST_KEY), "b"],
      [lastLessThan(BEHIND_LAST_KEY), "f"],
    ];
    await fixture().peerKv.read(async (tx) => {
      for (const [selector, expected] of cases) {
        const key = typeof expected === "string" ? bytes(expected) : expected;
        expect(await tx.getKey(selector), JSON.stringify(selector)).toEqual(key);
      }
      const begin = far(firstGreaterOrEqual(bytes("a")), 1);
      const end = lastLessOrEqual(bytes("z"));
      const page = await tx.getRangePage({ begin, end });
      expect(page.entries.map(rowText)).toEqual(["d=D"]);
    });
  });

  test("key selectors see the transaction's own writes", async () => {
    await fill("b", "d", "f");
    await fixture().kv.transact(async (tx) => {
      tx.clear(bytes("d"));
      put(tx, "e", "E");
      expect(text(await tx.getKey(firstGreaterThan(bytes("b"))))).toBe("e");
      expect(text(await tx.getKey(lastLessThan(bytes("e"))))).toBe("b");
    });
  });

  test("a transaction reads its own writes, which others cannot read before the commit", async () => {
    await fill("a", "b", "c", "d");
    await fixture().kv.transact(async (tx) => {
      put(tx, "b", "new");
      tx.clear(bytes("c"));
      put(tx, "e", "E");
      expect(await read(tx, "b")).toBe("new");
      expect(await read(tx, "c")).toBeUndefined();
      expect(await tx.snapshot.get(bytes("e"))).toEqual(bytes("E"));
      expect(await rows(tx, "a", "z")).toEqual(["a=A", "b=new", "d=D", "e=E"]);
      expect(await rows(tx, "a", "z", { reverse: true, limit: 2 })).toEqual(["e=E", "d=D"]);
      expect(await rows(tx, "a", "z", { limit: 2 })).toEqual(["a=A", "b=new"]);
      expect(await fixture().peerKv.read((other) => read(other, "b"))).toBe("B");
    });
    expect(await fixture().peerKv.read((tx) => rows(tx, "a", "z"))).toEqual([
      "a=A",
      "b=new",
      "d=D",
      "e=E",
    ]);
  });

  test("a cleared range hides stored rows but not later writes of the transaction", async () => {
    await fill("a", "b", "c", "d", "e");
    await fixture().kv.transact(async (tx) => {
      put(tx, "b2", "gone");
      tx.clearRange({ begin: bytes("b"), end: bytes("e") });
      put(tx, "c", "again");
      expect(await read(tx, "b2")).toBeUndefined();
      expect(await read(tx, "d")).toBeUndefined();
      expect(await rows(tx, "a", "z")).toEqual(["a=A", "c=again", "e=E"]);
      expect(await rows(tx, "a", "z", { reverse: true })).toEqual(["e=E", "c=again", "a=A"]);
    });
    expect(await fixture().kv.read((tx) => rows(tx, "a", "z"))).toEqual(["a=A", "c=again", "e=E"]);
  });

  test("keys and values are copied when the caller passes or receives them", async () => {
    const key = bytes("key");
    const value = bytes("value");
    await fixture().kv.transact(async (tx) => {
      key.set(bytes("key"));
      value.set(bytes("value"));
      tx.set(key, value);
      key.fill(0);
      value.fill(0);
      const own = await tx.get(bytes("key"));
      own?.fill(1);
    });
    await fixture().kv.read(async (tx) => {
      const returned = await tx.get(bytes("key"));
      expect(text(returned)).toBe("value");
      returned?.fill(0);
      expect(await rows(tx, "a", "z")).toEqual(["key=value"]);
    });
  });

  test("keys and values passed as Node.js buffers are also copied", async () => {
    const key = Buffer.from("key");
    const value = Buffer.from("value");
    await fixture().kv.transact(async (tx) => {
      key.write("key");
      value.write("value");
      tx.set(key, value);
      key.fill(0);
      value.fill(0);
    });
    expect(await fixture().kv.read((tx) => rows(tx, "a", "z"))).toEqual(["key=value"]);
  });

  test("keys of maximum length that differ only in their last bytes are in byte order", async () => {
    const shared = new Uint8Array(9_900).fill(0x61);
    const key = (suffix: string): Uint8Array => Buffer.concat([shared, bytes(suffix)]);
    const suffixes = ["", "a", "aa", "b", "bbbb", "c"];
    await fixture().kv.transact(async (tx) => {
      put(tx, "a", "short");
      put(tx, "b", "behind");
      for (const suffix of suffixes) tx.set(key(suffix), bytes(`=${suffix}`));
      expect(text(await tx.get(key("aa")))).toBe("=aa");
    });
    const all = await fixture().peerKv.read((tx) => tx.getRangePage(EVERYTHING));
    expect(all.entries.map(({ value }) => text(value))).toEqual([
      "short",
      ...suffixes.map((suffix) => `=${suffix}`),
      "behind",
    ]);
    await fixture().peerKv.transact(async (tx) => {
      tx.clearRange({ begin: key("a"), end: key("bb") });
      tx.clear(key("c"));
      tx.add(key("d"), 7n);
    });
    await fixture().kv.read(async (tx) => {
      expect(text(await tx.get(key("")))).toBe("=");
      expect(await tx.get(key("aa"))).toBeUndefined();
      const found = await tx.getRangePage({ begin: key(""), end: key("c") }, { reverse: true });
      expect(found.entries.map(({ value }) => text(value))).toEqual(["=bbbb", "="]);
      expect((await tx.get(key("d")))?.[0]).toBe(7);
      expect(await tx.getKey(firstGreaterThan(key("")))).toEqual(new Uint8Array(key("bbbb")));
    });
  });
}
