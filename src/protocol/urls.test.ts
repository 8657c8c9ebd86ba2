import { expect, test } from "vitest";
import { maskCredentials, stripCredentials } from "./urls.ts";

test.each([
  ["http://host/a/", "http://host/a/", "http://host/a/"],
  ["https://u:p@host/a", "https://u:*****@host/a", "https://host/a"],
  ["https://host/a?token=s&b", "https://host/a?token=*****&b", "https://host/a?token=*****&b"],
  ["http://u:p@h/?x=a=b&&y=", "http://u:*****@h/?x=*****&&y=*****", "http://h/?x=*****&&y=*****"],
])("%s is shown as %s, and without a user as %s", (url, masked, stripped) => {
  expect(maskCredentials(url)).toBe(masked);
  expect(stripCredentials(url)).toBe(stripped);
});
