import { expect, test } from "vitest";
import { utf8Encode } from "../../../base/index.ts";
import { createSystemRuntime } from "../../../host/index.ts";
import { KeyValueError, KeyValueStore, MemoryEngine } from "../../../kv/index.ts";
import { GroupedWrites } from "./grouped-writes.ts";

function open() {
  const runtime = createSystemRuntime();
  const engine = new MemoryEngine({ runtime });
  let transactionCount = 0;
  const counted = Object.assign(Object.create(engine), {
    begin: () => {
      transactionCount++;
      return engine.begin();
    },
  });
  const kv = new KeyValueStore({ runtime, engine: counted });
  const writes = new GroupedWrites(runtime.clock, kv);
  const write = (name: string) =>
    writes.write(async (tx) => {
      tx.set(utf8Encode(name), utf8Encode(name));
      return name;
    });
  const stored = (name: string) => kv.read((tx) => tx.get(utf8Encode(name)));
  return { kv, writes, write, stored, transactionCount: () => transactionCount };
}

test("up to sixteen writes at the same time share a transaction", async () => {
  const { write, stored, transactionCount } = open();
  const names = Array.from({ length: 20 }, (_, number) => `n${number}`);
  expect(await Promise.all(names.map(write))).toEqual(names);
  expect(transactionCount()).toBe(2);
  expect(await write("later")).toBe("later");
  expect(transactionCount()).toBe(3);
  for (const name of [...names, "later"]) expect(await stored(name)).toBeDefined();
});

test("an error of one write does not affect the others", async () => {
  const { writes, write, stored } = open();
  const refused = writes.write(async () => {
    throw new Error("refused");
  });
  const written = write("a");
  await expect(refused).rejects.toThrow("refused");
  expect(await written).toBe("a");
  expect(await stored("a")).toBeDefined();
});

test("a write that the store refuses does not affect the others", async () => {
  const { writes, write, stored } = open();
  const refused = writes.write(async (tx) => {
    tx.set(utf8Encode("b"), utf8Encode("b"));
    throw new KeyValueError("KV_TOO_LARGE");
  });
  const [before, , after] = await Promise.allSettled([write("a"), refused, write("c")]);
  expect([before.status, after.status]).toEqual(["fulfilled", "fulfilled"]);
  await expect(refused).rejects.toThrow("too large");
  expect([await stored("a"), await stored("c")]).not.toContain(undefined);
  expect(await stored("b")).toBeUndefined();
});
