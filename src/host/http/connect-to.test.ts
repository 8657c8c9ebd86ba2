import { expect, test } from "vitest";
import { type ConnectTo, parseConnectTo, targetOf, urlOfAddress } from "./connect-to.ts";

function overrides(...texts: readonly string[]): readonly ConnectTo[] {
  return texts.map((text) => parseConnectTo(text) as ConnectTo);
}

test.each([
  ["a.example:443:127.0.0.1:9443", { host: "127.0.0.1", port: 9443 }],
  ["A.Example.:443:proxy.internal:8443", { host: "proxy.internal", port: 8443 }],
  ["a.example:443:[FD00::0:1]:443", { host: "fd00::1", port: 443 }],
])("%s names a target", (text, target) => {
  expect(targetOf(overrides(text), { host: "a.example", port: 443 })).toEqual(target);
});

test("a wildcard matches subdomains only, and the first matching override is used", () => {
  const known = overrides("b.a.example:443:10.0.0.1:1", "*.a.example:443:10.0.0.2:2");
  expect(targetOf(known, { host: "b.a.example", port: 443 })?.port).toBe(1);
  expect(targetOf(known, { host: "d.c.a.example", port: 443 })?.port).toBe(2);
  expect(targetOf(known, { host: "a.example", port: 443 })).toBeUndefined();
  expect(targetOf(known, { host: "ba.example", port: 443 })).toBeUndefined();
  expect(targetOf(known, { host: "b.a.example", port: 80 })).toBeUndefined();
});

test.each([
  "a.example:443:127.0.0.1",
  "a.example:0:127.0.0.1:1",
  "a.example:443:127.0.0.1:65536",
  "a.example:443:fd00::1:443",
  "a.example:443:[127.0.0.1]:443",
  "*:443:127.0.0.1:443",
  "a.*.example:443:127.0.0.1:443",
  "a.example:443::443",
  "a.example:https:127.0.0.1:443",
  "",
])("%j is not an override", (text) => {
  expect(parseConnectTo(text)).toBeUndefined();
});

test("an address is formatted as a URL", () => {
  expect(urlOfAddress({ host: "fd00::1", port: 443 })).toBe("http://[fd00::1]:443");
  expect(urlOfAddress({ host: "a.example", port: 80 })).toBe("http://a.example:80");
});
