import { expect, test } from "vitest";
import { type FetchResponse, observeBody, readBytes } from "./fetch.ts";

function answer(pieces: readonly string[], failure?: Error): FetchResponse {
  const body = async function* () {
    for (const piece of pieces) yield new TextEncoder().encode(piece);
    if (failure !== undefined) throw failure;
  };
  return { status: 200, headers: new Map(), body: body(), discard: () => {} };
}

/** Returns an observer that records its calls. Its `onPiece` returns `waiting`. */
function openObserver(name: string, reported: string[], waiting?: Promise<void>) {
  return {
    onPiece: (byteCount: number) => {
      reported.push(`${name} ${byteCount}`);
      return waiting;
    },
    onEnd: () => {
      reported.push(`${name} end`);
    },
  };
}

test("observers of a body are called for each piece before the reader receives it, and once at the end", async () => {
  const reported: string[] = [];
  let release = (): void => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const first = observeBody(answer(["ab", "c"]), openObserver("first", reported, gate));
  const both = observeBody(first, openObserver("second", reported));
  const reading = readBytes(both, 10);
  await new Promise((resolve) => setImmediate(resolve));
  expect(reported).toEqual(["first 2"]);
  release();
  expect(new TextDecoder().decode(await reading)).toBe("abc");
  expect(reported).toEqual([
    "first 2",
    "second 2",
    "first 1",
    "second 1",
    "first end",
    "second end",
  ]);
});

test("observers are notified when reading a body fails, is aborted, or is refused by an observer", async () => {
  const reported: string[] = [];
  const failing = observeBody(
    answer(["ab"], new Error("broken")),
    openObserver("failing", reported),
  );
  await expect(readBytes(failing, 10)).rejects.toThrow("broken");
  const long = observeBody(answer(["ab", "c"]), openObserver("long", reported));
  expect(await readBytes(long, 1)).toBeUndefined();
  const refusal = Promise.reject(new Error("no budget"));
  const refused = observeBody(answer(["ab"]), openObserver("refused", reported, refusal));
  await expect(readBytes(refused, 10)).rejects.toThrow("no budget");
  const kinds = ["failing 2", "failing end", "long 2", "long end", "refused 2", "refused end"];
  expect(reported).toEqual(kinds);
});
