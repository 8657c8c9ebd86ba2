import { expect, test } from "vitest";
import { ProtocolError } from "./protocol-error.ts";
import { compileSelector } from "./selector.ts";

const matches = (pattern: string, text: string): boolean =>
  compileSelector({ s: { $regex: pattern } })({ s: text });

function refusalOf(pattern: string, text: string): string {
  try {
    matches(pattern, text);
  } catch (error) {
    if (error instanceof ProtocolError) return error.reason;
    throw error;
  }
  throw new Error("It was taken");
}

test.each([
  ["^a.c$", "abc", true],
  ["(?i)^B$", "b", true],
  ["(?s)a.b", "a\nb", true],
  ["a.b", "a\nb", false],
  ["(?m)^b$", "a\nb", true],
  ["[[:alpha:]]", "é", true],
  ["^[[:upper:]][[:lower:]]+$", "Émile", true],
  ["^[[:digit:][:space:]]+$", "1 2", true],
  ["\\bmoon\\b", "to the moon and back", true],
  ["a/b\\/c", "a/b/c", true],
  ["\\x{e9}", "é", true],
  ["^(?:a|b){2,3}$", "aba", true],
  ["😀+$", "a😀😀", true],
])("searches for %s in %j: %j", (pattern, text, expected) => {
  expect(matches(pattern, text)).toBe(expected);
});

test.each([
  ["^(a+)+$", "a"],
  ["(.*)(.*)(.*)(.*)(.*)[^a]x$", "a"],
  ["(a?){30}a{30}b", "a"],
  ["^(([a-z])+.)+[A-Z]([a-z])+$", "a"],
])(
  "matching %s takes a number of steps proportional to the length of the text",
  (pattern, letter) => {
    // A backtracking engine would not terminate within the machine's lifetime.
    expect(matches(pattern, `${letter.repeat(20_000)}!`)).toBe(false);
  },
);

test.each([
  ["a(?=b)", "lookahead and lookbehind are not supported"],
  ["(?<!a)b", "lookahead and lookbehind are not supported"],
  ["(a)\\1", "back references are not supported"],
  ["a++b", "atomic groups and possessive quantifiers are not supported"],
  ["(a", "missing closing )"],
  ["[z-a]", "invalid character class range: `z-a`"],
  ["a".repeat(10_001), "the pattern has 10001 characters, at most 10000"],
  ["(a{1,100}b){10}c{400}", "too many repetitions: "],
])("%.20s is refused: %s", (pattern, reason) => {
  expect(refusalOf(pattern, "")).toContain(reason);
});

test("a text that is too long for its pattern is refused with the length as the reason", () => {
  expect(matches("moon", "a".repeat(1_000_000))).toBe(false);
  expect(refusalOf("a{900}b", "a".repeat(1_000_000))).toBe(
    'A text of 1000000 characters is too long for the pattern "a{900}b"',
  );
});
