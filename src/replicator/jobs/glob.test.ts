import fc from "fast-check";
import { expect, test } from "vitest";
import { Glob } from "./glob.ts";

const match = (pattern: string, name: string) => new Glob(pattern).match(name);

test("each star captures the text that it matches", () => {
  expect(match("orders", "orders")).toEqual([]);
  expect(match("orders", "orders2")).toBeUndefined();
  expect(match("*", "orders")).toEqual(["orders"]);
  expect(match("user-*", "user-joe")).toEqual(["joe"]);
  expect(match("user-*", "user-")).toEqual([""]);
  expect(match("*-*", "eu-joe-2026")).toEqual(["eu", "joe-2026"]);
  expect(match("a*b*c", "abc")).toEqual(["", ""]);
  expect(match("ab*ba", "aba")).toBeUndefined();
  expect(match("a*b*a", "aba")).toEqual(["", ""]);
  expect(match("*b*b", "ab")).toBeUndefined();
  expect(match("a.c", "abc")).toBeUndefined();
});

/** Reference implementation, which tries every length for each star. */
function matchesSlowly(pattern: string, name: string): boolean {
  if (pattern === "") return name === "";
  if (pattern[0] !== "*") {
    return pattern[0] === name[0] && matchesSlowly(pattern.slice(1), name.slice(1));
  }
  for (let length = 0; length <= name.length; length++) {
    if (matchesSlowly(pattern.slice(1), name.slice(length))) return true;
  }
  return false;
}

const pattern = fc.string({ unit: fc.constantFrom("a", "b", "*"), maxLength: 6 });
const name = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 8 });

test("matches like the reference implementation, and the captures rebuild the name", () => {
  fc.assert(
    fc.property(pattern, name, (text, given) => {
      const captures = match(text, given);
      expect(captures !== undefined).toBe(matchesSlowly(text, given));
      let index = 0;
      if (captures !== undefined)
        expect(text.replaceAll("*", () => captures[index++] ?? "")).toBe(given);
    }),
  );
});

test("`meets` and `covers` are consistent with the names that the two patterns match", () => {
  fc.assert(
    fc.property(pattern, pattern, name, (left, right, given) => {
      const [one, other] = [new Glob(left), new Glob(right)];
      const inBoth = one.match(given) !== undefined && other.match(given) !== undefined;
      if (inBoth) expect(one.meets(other)).toBe(true);
      expect(one.meets(other)).toBe(other.meets(one));
      if (one.covers(other) && other.match(given) !== undefined) {
        expect(one.match(given)).toBeDefined();
      }
    }),
  );
  expect(new Glob("a*").meets(new Glob("*b"))).toBe(true);
  expect(new Glob("copy-*").meets(new Glob("user-*"))).toBe(false);
  expect(new Glob("a").meets(new Glob("a*b"))).toBe(false);
  expect(new Glob("*").meets(new Glob(""))).toBe(true);
});

test("matches a pattern with many stars in linear time, even if the name nearly matches", () => {
  const stars = new Glob(`${"a*".repeat(100)}b`);
  for (let count = 0; count < 20_000; count++) expect(stars.match("a".repeat(238))).toBeUndefined();
});
