import { expect, test } from "vitest";
import { encodeAttachmentName, encodeDocumentId, percentEncode } from "./urls.ts";

test.each(["", "a b/?&=%", "\u00e9\u4e2d", "\ud83d\ude00"])(
  "%j is encoded as by encodeURIComponent",
  (text) => {
    expect(percentEncode(text)).toBe(encodeURIComponent(text));
  },
);

test("an unpaired surrogate is encoded as three bytes in all URLs with text from documents or users", () => {
  expect(percentEncode("a\ud83d b\ude00")).toBe("a%ED%A0%BD%20b%ED%B8%80");
  expect(encodeDocumentId("_design/\ud83d")).toBe("_design/%ED%A0%BD");
  expect(encodeAttachmentName("a/\ud83d")).toBe("a/%ED%A0%BD");
});
