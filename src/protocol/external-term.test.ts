import { expect, test } from "vitest";
import { concatBytes, parseJson } from "../base/index.ts";
import {
  binaries,
  binary,
  encodeListPieces,
  encodeOnce,
  encodeTerm,
  jsonTerm,
  list,
} from "./external-term.ts";

test("a term is encoded once, and embedded unchanged", () => {
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

test("a list of binaries is encoded like a list of terms, even if it is encoded in pieces", () => {
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

test.each([
  ["1", "8361" + "01"],
  ["1.0", "83463ff0000000000000"],
  ["1e3", "8346408f400000000000"],
  ["-0", "8361" + "00"],
  ["-0.0", "83468000000000000000"],
  ["300", "8362" + "0000012c"],
  ["-5", "8362" + "fffffffb"],
  ["369553424691494913", "836e0800" + "010044bce1ea2005"],
  ["-369553424691494913", "836e0801" + "010044bce1ea2005"],
  ["1000000000000000000000", "836e0900" + "0000a0dec5adc93536"],
])("the JSON number %s is encoded as its Erlang term", (text, hex) => {
  expect(Buffer.from(encodeTerm(jsonTerm(parseJson(text)))).toString("hex")).toBe(hex);
});

test("integers of more than 255 bytes are encoded as large, and lists of bytes as strings", () => {
  const digits = (2n ** 2048n).toString();
  const term = Buffer.from(encodeTerm(jsonTerm(parseJson(digits)))).toString("hex");
  expect(term).toBe(`836f0000010100${"00".repeat(256)}01`);
  const listHex = (text: string) =>
    Buffer.from(encodeTerm(jsonTerm(parseJson(text)))).toString("hex");
  expect(listHex("[1,2]")).toBe("836b00020102");
  expect(listHex("[1.0]")).toBe("836c00000001463ff00000000000006a");
});
