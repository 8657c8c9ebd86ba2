import { expect, test } from "vitest";
import { binary, encodeOnce, encodeTerm, list } from "./external-term.ts";

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
