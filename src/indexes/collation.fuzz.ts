/** Checks that the keys of strings have the same order as the strings have in selectors. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compareBytes, Yielder } from "../base/index.ts";
import { systemClock } from "../host/system/clock.ts";
import { systemDigests } from "../host/system/digests.ts";
import { Collation, hasOneKey, readKey } from "./collation.ts";

const collation = await Collation.derive(systemDigests, new Yielder(systemClock));
const letters = new Intl.Collator("und", { sensitivity: "base" });
const all = new Intl.Collator("und");
const LENGTH_MAX = 2_000;

/**
 * Code points of many scripts, including many that combine with letters, change them, or are
 * ignored by the collation.
 */
const character = fc.oneof(
  fc.constantFrom(..."abAB éÉèæÆœßﬁﬀĳŉǆøØđłŀl·ıİiİ½¼Ⅳ㎏①²₂،؛٣३๓𝟛𝔸"),
  fc.constantFrom(..."ийИЙёеї̆̈̂ѵѷΑαάΆςσΣᾳἀ"),
  fc.constantFrom("\u0301", "\u0306", "\u0308", "\u0338", "\u0327", "\u0323", "\u200d", "\u00ad"),
  fc.constantFrom(
    "\u0000",
    "\u0001",
    "\ufffd",
    "\ufffe",
    "\uffff",
    "\ue000",
    "\u{10fffd}",
    "\ud800",
  ),
  fc.constantFrom(..."かがカｶﾞガーｰ々ゝ゛゙가각나각ㄱ中国㐀一丁龥豈"),
  fc.constantFrom(..."เแกขคาำ้ະເກຄཀཱཱིུக்ஷௌகौकখা", "\u{20000}", "\u{17000}", "😀", "🇩", "\u{1d15e}"),
  fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCodePoint(code)),
  fc.integer({ min: 0xa0, max: 0x5ff }).map((code) => String.fromCodePoint(code)),
  fc.integer({ min: 0, max: 0x2fff }).map((code) => String.fromCodePoint(code)),
  fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCodePoint(code)),
  fc.integer({ min: 0x10000, max: 0x10ffff }).map((code) => String.fromCodePoint(code)),
);
const text = fc.array(character, { maxLength: 8 }).map((characters) => characters.join(""));
/**
 * Pairs of strings with a common prefix, because most random pairs differ in the first character.
 */
const pair = fc
  .tuple(fc.array(character, { maxLength: 4 }), text, text)
  .map(([prefix, left, right]) => [prefix.join("") + left, prefix.join("") + right] as const);

function key(value: string): Uint8Array {
  const out: number[] = [];
  collation.append(out, value, LENGTH_MAX);
  return Uint8Array.from(out);
}

function primary(value: string): { readonly bytes: Uint8Array; readonly isWhole: boolean } {
  const out: number[] = [];
  const isWhole = collation.appendPrimary(out, value, LENGTH_MAX);
  return { bytes: Uint8Array.from(out), isWhole };
}

describe("a key", () => {
  test("sorts on the same side of a bound as its string does", () => {
    fc.assert(
      fc.property(pair, ([left, right]) => {
        if (all.compare(left, right) > 0) return;
        const low = primary(left);
        const high = primary(right);
        expect(compareBytes(key(right), low.bytes)).toBeGreaterThanOrEqual(0);
        const above = Uint8Array.of(...high.bytes, high.isWhole ? 0x01 : 0xff);
        expect(compareBytes(key(left), above)).toBeLessThan(0);
      }),
      { numRuns: Number(process.env.FUZZ_COUNT ?? 20_000) },
    );
  });

  test.each([
    ["l®", "l·<"],
    ["L·", "L®"],
    ["ŀ", "l·"],
  ])("treats the Catalan dot as part of its letter: %s, %s", (left, right) => {
    const order = compareBytes(primary(left).bytes, primary(right).bytes);
    expect(Math.sign(order)).toBe(letters.compare(left, right));
  });

  test("sorts by the primary level if all characters have weights", () => {
    fc.assert(
      fc.property(pair, ([left, right]) => {
        if (!primary(left).isWhole || !primary(right).isWhole) return;
        const order = letters.compare(left, right);
        if (order !== 0) expect(Math.sign(compareBytes(key(left), key(right)))).toBe(order);
      }),
      { numRuns: Number(process.env.FUZZ_COUNT ?? 20_000) },
    );
  });

  test("is a prefix of another key only if the next byte of the other key is FF", () => {
    fc.assert(
      fc.property(pair, ([left, right]) => {
        const [first, second] = [key(left), key(right)];
        if (compareBytes(first, second) === 0) return;
        const isBegun = compareBytes(second.subarray(0, first.length), first) === 0;
        expect(isBegun && second[first.length] !== 0xff).toBe(false);
      }),
    );
  });

  test("is the same for strings that the collator treats as equal, if all characters have weights", () => {
    fc.assert(
      fc.property(pair, character, fc.nat(8), ([left, right], inserted, at) => {
        const variants = [
          left.normalize("NFD"),
          left.normalize("NFC"),
          left.slice(0, at) + inserted + left.slice(at),
          right,
        ];
        for (const variant of variants) {
          if (all.compare(left, variant) !== 0) continue;
          if (!collation.append([], left, LENGTH_MAX) || !hasOneKey(left)) continue;
          expect(key(variant)).toEqual(key(left));
        }
      }),
      { numRuns: Number(process.env.FUZZ_COUNT ?? 20_000) },
    );
  });

  test("can be skipped by a reader, which returns the string if the key contains it", () => {
    fc.assert(
      fc.property(text, text, (before, value) => {
        const prefix = key(before);
        const bytes = Uint8Array.of(...prefix, ...key(value));
        const whole = Buffer.from(value).toString();
        const hasGap = !collation.append([], value, LENGTH_MAX);
        const read = { text: hasGap ? whole : undefined, end: bytes.length };
        expect(readKey(bytes, prefix.length)).toEqual(read);
      }),
      { numRuns: Number(process.env.FUZZ_COUNT ?? 20_000) },
    );
  });

  test("sorts words of European languages like the collator", () => {
    const words =
      "abc aBc ABC Abc äbc ábc Äbc zebra Zebra éclair eclair Eclair straße strasse naïve naive Ångström Angstrom ёлка елка Ёлка άλφα αλφα 10 2 a-b a b _a !a".split(
        " ",
      );
    const byKey = [...words].sort((left, right) => compareBytes(key(left), key(right)));
    expect(byKey).toEqual([...words].sort(all.compare));
  });
});
