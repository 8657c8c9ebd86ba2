import { expect, test } from "vitest";
import { checkAttachmentName } from "./names.ts";

test.each([
  ["", "must not be empty"],
  ["_x", "starts with prohibited character '_'"],
  ["\ud800", "is not UTF-8 encoded"],
  ["x".repeat(100_000), "is too long"],
])("attachment name %# is refused with a reason", (name, reason) => {
  let refusal: unknown;
  try {
    checkAttachmentName(name);
  } catch (error) {
    refusal = error;
  }
  expect(refusal).toMatchObject({
    code: "STORE_ATTACHMENT_NAME_INVALID",
    details: { reason: expect.stringContaining(reason) },
  });
});

test.each(["x", "a_b", " ", "a/b.png", "é"])("%j is accepted as an attachment name", (name) => {
  expect(() => checkAttachmentName(name)).not.toThrow();
});
