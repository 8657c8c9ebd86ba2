import { expect, test } from "vitest";
import { concatBytes } from "../base/index.ts";
import {
  binaries,
  binary,
  encodeListPieces,
  encodeOnce,
  encodeTerm,
  list,
} from "./external-term.ts";

test("a term that is encoded once is not looked at again, and stands in others as itself", () => {
  let readCount = 0;
  const counted = {
    get binary() {
      readCount++;
      return "a";
    },
  };
  const once = encodeOnce(list([counted]));
  const readBefore = readCount;
  const expected = encodeTerm(list([binary("b"), list([binary("a")])]));
  for (let count = 0; count < 5; count++) {
    expect(encodeTerm(list([binary("b"), once]))).toEqual(expected);
  }
  expect(readCount).toBe(readBefore);
});

test("a list of binaries is what it is of terms, and its pieces are its bytes", () => {
  const texts = ["a", "\u00e9", "x".repeat(127), "x".repeat(128), "\u20ac".repeat(50_000), ""];
  for (const some of [[], texts.slice(0, 1), texts]) {
    expect(encodeTerm(binaries(some))).toEqual(encodeTerm(list(some.map(binary))));
  }
  const once = encodeOnce(binaries(texts));
  for (const items of [[binary("b"), once], [once], [{ number: 1 }, { number: 2 }], []]) {
    const pieces = encodeListPieces(items);
    expect(concatBytes(pieces)).toEqual(encodeTerm(list(items)));
    if (items.includes(once)) expect(pieces).toContain(once.encoded);
  }
});
