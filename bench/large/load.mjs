/** Loads a large database with documents of 450 bytes and random ids. */
import { ask, drawsOf } from "../load/node-process.mjs";

export const BATCH = 1_000;
const BYTES = 450;
const CLIENTS = 4;
const TEXT = "x".repeat(BYTES - 80);

function documentsOf(draw, from, count) {
  return Array.from({ length: count }, (_, at) => {
    const id = Array.from({ length: 4 }, () =>
      Math.floor(draw() * 2 ** 32)
        .toString(16)
        .padStart(8, "0"),
    ).join("");
    return { _id: id, n: from + at, text: TEXT };
  });
}

/** Creates the database, and writes `count` documents through `_bulk_docs`. */
export async function load({ url }, database, count) {
  await ask(url, "PUT", `/${database}`);
  const draw = drawsOf(count);
  let next = 0;
  const client = async () => {
    while (next < count) {
      const from = next;
      next += BATCH;
      const docs = documentsOf(draw, from, Math.min(BATCH, count - from));
      const { status } = await ask(url, "POST", `/${database}/_bulk_docs`, { docs });
      if (status !== 201) throw new Error(`_bulk_docs: ${status}`);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
}
