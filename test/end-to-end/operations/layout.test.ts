/** A store written by a newer program is not changed by an older one. */
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, expect, test } from "vitest";
import { utf8Decode, utf8Encode } from "../../../src/base/index.ts";
import { createSystemRuntime, openLmdbEngine } from "../../../src/host/index.ts";
import { KeyValueStore, Subspace } from "../../../src/kv/index.ts";
import { Processes } from "../../support/open-process.ts";

const LAYOUT_KEY = Subspace.fromTuple(["tandem", 0]).pack([0]);
const processes = new Processes();
afterAll(() => processes.close());

async function withStore<T>(
  directory: string,
  work: (kv: KeyValueStore) => Promise<T>,
): Promise<T> {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
  try {
    return await work(kv);
  } finally {
    await kv.close();
  }
}

test("a program too old for the store reports this and exits", async () => {
  const directory = processes.directory();
  const node = await processes.open({ directory });
  await node.stop();
  const data = join(directory, "data");
  const layout = await withStore(data, (kv) => kv.read((tx) => tx.get(LAYOUT_KEY)));
  const newer = String(Number(utf8Decode(layout ?? new Uint8Array())) + 1);
  await withStore(data, (kv) => kv.transact(async (tx) => tx.set(LAYOUT_KEY, utf8Encode(newer))));
  const tooOld = processes.start({ directory });
  const [errors, [code]] = await Promise.all([
    text(tooOld.stderr as NodeJS.ReadableStream),
    once(tooOld, "exit"),
  ]);
  expect(code).toBe(2);
  expect(errors).toContain(`the store has format ${newer}`);
  expect(errors).toContain(`install a version of Tandem that supports format ${newer}`);
});
