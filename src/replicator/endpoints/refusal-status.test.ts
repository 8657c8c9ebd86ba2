import { expect, test } from "vitest";
import { refusalStatus } from "./refusal-status.ts";

test.each([
  ["forbidden", 403],
  ["STORE_DOCUMENT_TOO_LARGE", 413],
  ["STORE_ANYTHING_ELSE", 400],
  ["anything_else", undefined],
  ["constructor", undefined],
])("the HTTP status for the error %s is %s", (error, status) => {
  expect(refusalStatus(error)).toBe(status);
});
