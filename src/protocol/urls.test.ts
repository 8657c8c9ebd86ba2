import { expect, test } from "vitest";
import { maskCredentials, stripCredentials } from "./urls.ts";

test.each([
  ["http://host/a/", "http://host/a/", "http://host/a/"],
  ["https://u:p@host/a", "https://u:*****@host/a", "https://host/a"],
  ["https://host/a?token=s&b", "https://host/a?token=*****&b", "https://host/a?token=*****&b"],
  ["http://u:p@h/?x=a=b&&y=", "http://u:*****@h/?x=*****&&y=*****", "http://h/?x=*****&&y=*****"],
  ["http://h:5984/a@b:c", "http://h:5984/a@b:c", "http://h:5984/a@b:c"],
  ["http://[::1]:5984/a@b", "http://[::1]:5984/a@b", "http://[::1]:5984/a@b"],
  ["http://u@[::1]:5984/a", "http://u@[::1]:5984/a", "http://[::1]:5984/a"],
  ["http://u:p@[::1]:5984/a", "http://u:*****@[::1]:5984/a", "http://[::1]:5984/a"],
  ["http://a@b.example:p@h/", "http://a@b.example:*****@h/", "http://h/"],
  ["http://:p@h/", "http://:*****@h/", "http://h/"],
])("%s is shown as %s, and as %s if its user name is removed", (url, masked, stripped) => {
  expect(maskCredentials(url)).toBe(masked);
  expect(stripCredentials(url)).toBe(stripped);
});

test.each([
  ["u:p@h", "u:*****@h"],
  ["u:p@h:5984", "u:*****@h:5984"],
  ["http:u:p@h:1/b", "http:u:*****@h:1/b"],
  ["https:/u:p@h", "https:/u:*****@h"],
  ["http:///u:p@h", "http:///u:*****@h"],
  ["//u:p@h", "//u:*****@h"],
  ["http//u:p@h", "http//u:*****@h"],
  [" http://a user:p@h", " http://a user:*****@h"],
  ["ftp://u:p@h", "ftp://u:*****@h"],
  ["http://u:p/w@h:1", "http://u:*****@h:1"],
  ["http://u:1p/w@h:1", "http://u:*****@h:1"],
  ["http://u:p@w/o@h/a", "http://u:*****@h/a"],
  ["http://u:p?w=1@h/a", "http://u:*****@h/a"],
  ["http://u:p#w@h/a?t=s", "http://u:*****@h/a?t=*****"],
])("a password in an almost valid URL is not shown: %s", (text, masked) => {
  expect(maskCredentials(text)).toBe(masked);
  const withoutUser = masked.replace(/^(\s*(?:https?:?|ftp:)?\/*).*:\*{5}@/, "$1");
  expect(stripCredentials(text)).toBe(withoutUser);
});

test.each([
  [""],
  ["h"],
  ["h:5984"],
  ["h:5984/a@b"],
  ["u@h:5984"],
  ["u@h"],
  ["[::1]:5984"],
  ["a/b:c@d"],
  ["http://u@h:5984/a"],
  ["http://h/a:b@c"],
])("a URL without a password is shown unchanged: %s", (text) => {
  expect(maskCredentials(text)).toBe(text);
});
