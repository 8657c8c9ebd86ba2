import { expect, test } from "vitest";
import { endpointUrl, validEndpointUrl } from "./endpoint-url.ts";

const at = (url: string) => ({ kind: "http", url, headers: {} }) as const;

test.each([
  [
    "HTTPS://Example.com:443/Db%2Fa/?n=1",
    { scheme: "https", origin: "https://example.com", host: "example.com" },
    { isHttps: true, host: "Example.com", port: 443, path: "/Db%2Fa/?n=1" },
  ],
  [
    "http://[2001:DB8::1]:5984/db/",
    { origin: "http://[2001:db8::1]:5984", host: "[2001:db8::1]:5984", hostname: "[2001:db8::1]" },
    { isHttps: false, host: "2001:DB8::1", port: 5984, path: "/db/" },
  ],
  [
    "http://host?n=1",
    { origin: "http://host", host: "host", hostname: "host" },
    { isHttps: false, host: "host", port: 80, path: "/?n=1" },
  ],
])("parses %s into its normal form, and keeps the written form", (url, normal, written) => {
  expect(endpointUrl(at(url))).toMatchObject({ ...normal, written });
});

test("the URL of an address is parsed once", () => {
  const address = at("http://host/db/");
  expect(endpointUrl(address)).toBe(endpointUrl(address));
  expect(endpointUrl({ ...address, url: "http://other/db/" }).host).toBe("other");
});

test("an address with an invalid URL has no parts", () => {
  expect(validEndpointUrl(at("http://host:port/db/"))).toBeUndefined();
});
