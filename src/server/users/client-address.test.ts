import { BlockList } from "node:net";
import { expect, test } from "vitest";
import { parseProxies } from "../settings/trusted-proxies.ts";
import { clientAddress } from "./client-address.ts";

const PROXIES = ["10.0.0.0/8", "fd00::5"];

function listOf(proxies: readonly string[]): BlockList {
  const list = parseProxies(proxies);
  if (!(list instanceof BlockList)) throw new Error(list.wrong);
  return list;
}

function clientOf(peer: string, forwarded?: string, proxies: readonly string[] = PROXIES): string {
  const headers = new Map(forwarded === undefined ? [] : [["x-forwarded-for", forwarded]]);
  return clientAddress(
    { peer, headers },
    { trustedProxies: listOf(proxies), peerHeader: undefined },
  );
}

test.each([
  ["a direct client is itself", "192.0.2.1", undefined, "192.0.2.1"],
  ["a client cannot claim another address", "192.0.2.1", "198.51.100.7", "192.0.2.1"],
  ["a trusted proxy names its client", "10.0.0.5", "198.51.100.7", "198.51.100.7"],
  ["so does one over IPv6", "fd00::5", "2001:db8::1", "2001:db8::1"],
  ["so does one with a mapped address", "::ffff:10.0.0.5", "198.51.100.7", "198.51.100.7"],
  [
    "addresses written by the client do not count",
    "10.0.0.5",
    "1.1.1.1, 198.51.100.7",
    "198.51.100.7",
  ],
  ["a chain of proxies is followed", "10.0.0.5", "198.51.100.7, 10.0.0.6", "198.51.100.7"],
  ["a port is ignored", "10.0.0.5", "198.51.100.7:4711", "198.51.100.7"],
  ["a bracketed port is ignored", "10.0.0.5", "[2001:db8::1]:80", "2001:db8::1"],
  ["an empty item does not count", "10.0.0.5", "198.51.100.7, ,", "198.51.100.7"],
  ["a proxy without the header is the client", "10.0.0.5", undefined, "10.0.0.5"],
  ["a word is not an address", "10.0.0.5", "unknown", "10.0.0.5"],
])("%s", (_, peer, forwarded, client) => {
  expect(clientOf(peer, forwarded)).toBe(client);
});

test("without trusted proxies the header is ignored", () => {
  expect(clientOf("10.0.0.5", "198.51.100.7", [])).toBe("10.0.0.5");
});

test.each([
  ["counts from a trusted proxy", "10.0.0.5", "198.51.100.7", PROXIES, "198.51.100.7"],
  ["may be an IPv6 address", "10.0.0.5", "2001:db8::1", PROXIES, "2001:db8::1"],
  ["does not count from others", "192.0.2.1", "198.51.100.7", PROXIES, "192.0.2.1"],
  ["counts from everyone without trusted proxies", "192.0.2.1", "198.51.100.7", [], "198.51.100.7"],
  ["is not a list", "192.0.2.1", "198.51.100.7, 1.1.1.1", [], "192.0.2.1"],
  ["is not a word", "192.0.2.1", "client", [], "192.0.2.1"],
  ["may be missing", "192.0.2.1", undefined, [], "192.0.2.1"],
])("the address in `peer_header` %s", (_, peer, named, proxies, client) => {
  const headers = new Map(named === undefined ? [] : [["x-couch-client-ip", named]]);
  const settings = { trustedProxies: listOf(proxies), peerHeader: "x-couch-client-ip" };
  expect(clientAddress({ peer, headers }, settings)).toBe(client);
});

test.each(["10.0.0.0/33", "proxy.example", "10.0.0.1/8/8", ""])("%j is not a proxy", (item) => {
  expect(parseProxies([item])).toEqual({ wrong: item });
});
