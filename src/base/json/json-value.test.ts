import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  hasJsonNumber,
  integerValue,
  keepsForm,
  numberValue,
  parseJson,
  printJson,
} from "./json-value.ts";

describe("parseJson and printJson", () => {
  test.each([
    ["1.0"],
    ["[1.50]"],
    ['{"a":1e3}'],
    ["[1E5,-2e-7]"],
    ["-0"],
    ["[-0,-0.0]"],
    ["0.0000001"],
    ["369553424691494913"],
    ["[123456789.123456789]"],
    [`[${"9".repeat(400)}]`],
    ['{"2":1,"1":2}'],
    ['{"b":{"10":[],"9":{}},"a":1.0}'],
    ['{"n":1.0,"__proto__":{"a":2}}'],
    ['{"n":1.0,"a":"\\"],\\\\","b":"\\\\"}'],
  ])("preserve the form of %s", (text) => {
    expect(printJson(parseJson(text))).toBe(text);
  });

  const number = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
    fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }).map(String),
    fc.stringMatching(/^-?(0|[1-9]\d{0,18})(\.\d{1,18})?([eE][+-]?\d{1,2})?$/),
  );
  const { text } = fc.letrec<{ text: string }>((tie) => ({
    text: fc.oneof(
      { maxDepth: 4 },
      number,
      fc.string().map((value) => JSON.stringify(value)),
      fc.constantFrom("null", "true", "false"),
      fc.array(tie("text"), { maxLength: 4 }).map((items) => `[${items.join()}]`),
      fc
        .uniqueArray(fc.tuple(fc.oneof(fc.string(), fc.nat(20).map(String)), tie("text")), {
          maxLength: 5,
          selector: ([name]) => name,
        })
        .map((members) => `{${members.map(([n, v]) => `${JSON.stringify(n)}:${v}`).join()}}`),
    ),
  }));

  test("preserve every text that contains no spaces", () => {
    fc.assert(
      fc.property(text, (json) => {
        expect(printJson(parseJson(json))).toBe(json);
        if (keepsForm(json)) expect(JSON.stringify(JSON.parse(json))).toBe(json);
      }),
      { numRuns: 2_000 },
    );
  });

  test("refuse invalid JSON, with and without exact numbers", () => {
    for (const broken of ['{"a":1.0', "[1.0,]", "[01.0]", "1.0.0", "{1:1.0}"]) {
      expect(() => parseJson(broken)).toThrow(SyntaxError);
    }
  });

  test("parse a value nested thousands of levels deep", () => {
    const deep = `${"[".repeat(20_000)}1.0${"]".repeat(20_000)}`;
    expect(Array.isArray(parseJson(deep))).toBe(true);
  });
});

test("integers are equal only if their digits are equal", () => {
  const digits = fc.bigInt({ min: -(10n ** 25n), max: 10n ** 25n });
  fc.assert(
    fc.property(digits, (integer) => {
      // JavaScript prints the shortest decimal that reads back as the same double:
      // 369553424691494900 for 369553424691494912.
      const printed = shortestDigits(integer);
      const [one, other] = [integer, printed].map((it) => numberValue(parseJson(String(it))));
      expect(BigInt(one as number | bigint)).toBe(integer);
      expect(one === other).toBe(integer === printed);
    }),
    { numRuns: 2_000, examples: [[369553424691494912n], [369553424691494900n], [2n ** 53n]] },
  );
});

test("numbers have exact values, and integers have no fraction and no exponent", () => {
  const exactValue = (text: string) => numberValue(parseJson(text));
  expect(exactValue("1.0")).toBe(1);
  expect(exactValue("9007199254740993")).toBe(9007199254740993n);
  expect(exactValue("9007199254740992000")).toBe(9007199254740992000);
  expect(exactValue('"1"')).toBeUndefined();
  const integerOf = (text: string) => integerValue(parseJson(text));
  expect(integerOf("1.0")).toBeUndefined();
  expect(integerOf("1e3")).toBeUndefined();
  expect(integerOf("1000000000000000000000")).toBe(10n ** 21n);
  expect(integerOf("-0")).toBe(0n);
  expect(integerOf("7")).toBe(7n);
});

test("JSON.stringify refuses numbers that it would change", () => {
  const value = parseJson('{"n":[1.0]}');
  expect(hasJsonNumber(value)).toBe(true);
  expect(hasJsonNumber(parseJson('{"n":[1]}'))).toBe(false);
  expect(() => JSON.stringify(value)).toThrow("printJson");
});

/** Returns the integer that JavaScript prints for the double nearest to `integer`. */
function shortestDigits(integer: bigint): bigint {
  const [digits = "", exponent = "0"] = Number(integer).toExponential().replace(".", "").split("e");
  const length = Number(exponent) + (digits.startsWith("-") ? 2 : 1);
  return BigInt(digits.padEnd(length, "0"));
}
