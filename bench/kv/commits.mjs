/**
 * Durable commits per second, as a ratio to raw LMDB with the same puts: four of 600 bytes per
 * transaction.
 */
import { Subspace } from "../../dist/kv/index.js";
import { compare, openRaw, openStore, rate, withDirectory } from "./bench-store.mjs";

const rows = Subspace.fromTuple(["row"]);
const value = Buffer.alloc(600, 7);
const KEY_COUNT = 20_000;
const keys = Array.from({ length: KEY_COUNT }, (_, number) => Buffer.from(rows.pack([number])));
const draw = () => keys[Math.floor(Math.random() * KEY_COUNT)];

await withDirectory(async (directory) => {
  const kv = await openStore(`${directory}/ours`);
  const raw = openRaw(`${directory}/raw`);
  for (const writers of [1, 64]) {
    await compare(
      `durable commits, ${writers} writer${writers === 1 ? "" : "s"}`,
      5,
      () =>
        rate(writers, 1_500, () =>
          kv.transact(async (tx) => {
            for (let part = 0; part < 4; part++) tx.set(draw(), value);
          }),
        ),
      () =>
        rate(writers, 1_500, () =>
          Promise.all(Array.from({ length: 4 }, () => raw.put(draw(), value))),
        ),
    );
  }
  await kv.close();
  await raw.close();
});
