import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { cutBytes } from "./byte-slab.ts";
import {
  base64Decode,
  base64Encode,
  byteText,
  compareBytes,
  Utf8Writer,
  utf8Decode,
  utf8Encode,
  utf8Slice,
} from "./bytes.ts";
import { hexDecode, hexEncode, isLowerCaseHex } from "./hex.ts";

test("base64 and hexadecimal match the platform, in both directions", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
      expect(base64Encode(bytes)).toBe(Buffer.from(bytes).toString("base64"));
      expect(base64Decode(base64Encode(bytes))).toEqual(bytes);
      expect(hexEncode(bytes)).toBe(Buffer.from(bytes).toString("hex"));
      expect(hexDecode(hexEncode(bytes))).toEqual(bytes);
    }),
  );
});

test("strings are encoded as the platform encodes them, however long they are", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.constantFrom(1, 10, 20_000), (part, count) => {
      const text = part.repeat(count);
      const bytes = utf8Encode(text);
      expect(Buffer.from(text).equals(bytes)).toBe(true);
      expect(utf8Decode(bytes)).toBe(Buffer.from(text).toString());
    }),
    { numRuns: 200 },
  );
});

test("a writer appends strings and bytes, however small its initial size", () => {
  const piece = fc.oneof(fc.string({ unit: "binary" }), fc.uint8Array());
  fc.assert(
    fc.property(fc.array(piece), fc.nat({ max: 100 }), (pieces, byteCountExpected) => {
      const writer = new Utf8Writer(byteCountExpected);
      for (const each of pieces) {
        if (typeof each === "string") writer.text(each);
        else writer.bytes(each);
      }
      const parts = pieces.map((each) => Buffer.from(each as string));
      expect(Buffer.concat(parts).equals(writer.finish())).toBe(true);
    }),
  );
});

test("isLowerCaseHex accepts exactly the strings of lower-case hexadecimal digits", () => {
  const letter = fc.constantFrom(..."0123456789abcdefABFG/:@`g\u00e9");
  fc.assert(
    fc.property(fc.array(letter), (letters) => {
      const text = letters.join("");
      expect(isLowerCaseHex(text)).toBe(/^[0-9a-f]*$/.test(text));
    }),
  );
});

test("copies in a shared slab neither overlap nor change the original", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 5_000 })), (sources) => {
      const copies = sources.map((source) => cutBytes(source, 0, source.length));
      const kept = sources.map((source) => Uint8Array.from(source));
      expect(copies).toEqual(kept);
      for (const [index, copy] of copies.entries()) if (index % 2 === 0) copy.fill(0xaa);
      expect(sources).toEqual(kept);
      for (const [index, copy] of copies.entries()) {
        if (index % 2 === 1) expect(copy).toEqual(kept[index]);
      }
    }),
  );
});

test("invalid base64 is refused", () => {
  for (const text of ["!", "a", "ab=c", "é", "\u0141BCD", "ab-_", "ab==ab=="])
    expect(base64Decode(text)).toBeUndefined();
});

test("padding is optional unless required", () => {
  for (const text of ["ab", "abc", "ab=", "ab===", "====", "abcd=", "ab cd e"]) {
    expect(base64Decode(text, { isPadded: true })).toBeUndefined();
  }
  expect(base64Decode("ab")).toEqual(base64Decode("ab==", { isPadded: true }));
  for (const text of ["", "abcd", "a b\nc=", "ab = =", "aB=="]) {
    expect(base64Decode(text, { isPadded: true })).toEqual(
      new Uint8Array(Buffer.from(text, "base64")),
    );
  }
});

test("bytes are compared as the platform compares them", () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), (left, right) => {
      expect(Math.sign(compareBytes(left, right))).toBe(Buffer.compare(left, right));
    }),
  );
});

test("strings are decoded alike with and without Node's Buffer", async () => {
  vi.stubGlobal("Buffer", undefined);
  // The query string loads a second instance of the module, without `Buffer`.
  const built = new URL("../../dist/base/bytes.js?plain", import.meta.url);
  const plain: typeof import("./bytes.ts") = await import(/* @vite-ignore */ built.href);
  vi.unstubAllGlobals();
  expect(plain.byteText).not.toBe(byteText);
  const size = fc.constantFrom(1, 10, 5_000);
  fc.assert(
    fc.property(fc.uint8Array(), size, fc.nat(), fc.nat(), (part, count, one, other) => {
      const bytes = new Uint8Array(part.length * count);
      for (let at = 0; at < bytes.length; at += part.length) bytes.set(part, at);
      const begin = Math.min(one, other) % (bytes.length + 1);
      const end = begin + (Math.max(one, other) % (bytes.length - begin + 1));
      const text = byteText(bytes, begin, end);
      expect(text).toBe(plain.byteText(bytes, begin, end));
      expect([...text].map((char) => char.charCodeAt(0))).toEqual([...bytes.slice(begin, end)]);
    }),
    { numRuns: 100 },
  );
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (before, text) => {
      const bytes = utf8Encode(before + text);
      const begin = utf8Encode(before).length;
      expect(utf8Slice(bytes, begin, bytes.length)).toBe(text);
      expect(plain.utf8Slice(bytes, begin, bytes.length)).toBe(text);
    }),
  );
});
