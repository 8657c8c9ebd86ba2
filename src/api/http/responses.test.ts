import { expect, test } from "vitest";
import { begun } from "./responses.ts";

/** Returns a source of two pieces, and a flag that is set when the source is closed. */
function openPieces() {
  const state = { isFree: false };
  const pieces = (async function* () {
    try {
      yield "a";
      yield "b";
    } finally {
      state.isFree = true;
    }
  })();
  return { state, pieces };
}

test("a stream whose first piece was awaited yields each piece once, in order", async () => {
  const { state, pieces } = openPieces();
  const read: string[] = [];
  for await (const piece of await begun(pieces)) read.push(piece);
  expect(read).toEqual(["a", "b"]);
  expect(state.isFree).toBe(true);
});

test.each([0, 1])("ending the stream after %d pieces closes its source", async (count) => {
  const { state, pieces } = openPieces();
  const iterator = (await begun(pieces))[Symbol.asyncIterator]();
  for (let index = 0; index < count; index++) await iterator.next();
  expect(state.isFree).toBe(false);
  await iterator.return?.();
  expect(state.isFree).toBe(true);
  expect(await iterator.next()).toMatchObject({ done: true });
});
