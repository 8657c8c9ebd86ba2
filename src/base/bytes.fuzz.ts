import fc from "fast-check";
import { expect, test } from "vitest";
import { base64Decode, base64Encode, compareBytes, hexDecode, hexEncode } from "./bytes.ts";

test("base64 and hexadecimal are those of the platform, both ways", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
      expect(base64Encode(bytes)).toBe(Buffer.from(bytes).toString("base64"));
      expect(base64Decode(base64Encode(bytes))).toEqual(bytes);
      expect(hexEncode(bytes)).toBe(Buffer.from(bytes).toString("hex"));
      expect(hexDecode(hexEncode(bytes))).toEqual(bytes);
    }),
  );
});

test("what is no base64 is refused", () => {
  expect(["!", "a", "ab=c", "é"].map(base64Decode)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

test("bytes are ordered as the platform orders them", () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), (left, right) => {
      expect(Math.sign(compareBytes(left, right))).toBe(Buffer.compare(left, right));
    }),
  );
});
