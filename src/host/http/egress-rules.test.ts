import { describe, expect, test } from "vitest";
import { normalHost } from "./egress-addresses.ts";
import { type EgressRule, EgressRules, parseEgressRule } from "./egress-rules.ts";

function rule(text: string): EgressRule {
  const parsed = parseEgressRule(text);
  if (parsed === undefined) throw new Error(`No rule: ${text}`);
  return parsed;
}

function rules({ allow = [], deny = [] }: { allow?: string[]; deny?: string[] }): EgressRules {
  return new EgressRules(allow.map(rule), deny.map(rule));
}

/** Returns the reason why the rules refuse the host of `url` or its resolved address. */
function refusal(of: EgressRules, url: string, address?: string): string | undefined {
  const { hostname, port, protocol } = new URL(url);
  const usualPort = protocol === "https:" ? 443 : 80;
  const target = {
    host: normalHost(hostname.replace(/^\[|\]$/g, "")) ?? "",
    port: port === "" ? usualPort : Number(port),
  };
  const ofHost = of.refusalOfHost(target, address !== undefined);
  return ofHost ?? (address === undefined ? undefined : of.refusalOfAddress(target, address));
}

describe("by default", () => {
  test.each([
    "http://127.0.0.1:5984/",
    "http://[::1]/",
    "http://10.1.2.3/",
    "https://example.com/",
  ])("connections to %s are permitted", (url) => {
    expect(refusal(rules({}), url, url.includes("example") ? "192.0.2.1" : undefined)).toBe(
      undefined,
    );
  });

  test.each([
    ["http://169.254.169.254/", "169.254.0.0/16"],
    ["http://169.254.0.1/", "169.254.0.0/16"],
    ["http://2852039166/", "169.254.0.0/16"],
    ["http://0xa9fea9fe/", "169.254.0.0/16"],
    ["http://0251.0376.0251.0376/", "169.254.0.0/16"],
    ["http://169.254.43518/", "169.254.0.0/16"],
    ["http://169.254.169.254./", "169.254.0.0/16"],
    ["http://[::ffff:169.254.169.254]/", "169.254.0.0/16"],
    ["http://[::ffff:a9fe:a9fe]/", "169.254.0.0/16"],
    ["http://[0:0:0:0:0:ffff:a9fe:a9fe]/", "169.254.0.0/16"],
    ["http://[::169.254.169.254]/", "169.254.0.0/16"],
    ["http://[64:ff9b::169.254.169.254]/", "169.254.0.0/16"],
    ["http://[2002:a9fe:a9fe::1]/", "169.254.0.0/16"],
    ["http://[fe80::1]/", "fe80::/10"],
    ["http://[febf::1]/", "fe80::/10"],
    ["http://[fd00:ec2::254]/", "fd00:ec2::254"],
    ["http://[fd00:0ec2:0:0:0:0:0:254]/", "fd00:ec2::254"],
    ["http://100.100.100.200/", "100.100.100.200"],
    ["http://168.63.129.16/", "168.63.129.16"],
    ["http://0xa83f8110/", "168.63.129.16"],
    ["http://[::ffff:168.63.129.16]/", "168.63.129.16"],
    ["http://[::ffff:0:168.63.129.16]/", "168.63.129.16"],
    ["http://[64:ff9b::a83f:8110]/", "168.63.129.16"],
    ["http://[64:ff9b:1::168.63.129.16]/", "168.63.129.16"],
    ["http://[64:ff9b:1:a83f:81:1000::]/", "168.63.129.16"],
    ["http://[2001:db8::5efe:168.63.129.16]/", "168.63.129.16"],
    ["http://[2001:db8::200:5efe:168.63.129.16]/", "168.63.129.16"],
    ["http://[2001:0:c000:201::57c0:7eef]/", "168.63.129.16"],
    ["http://192.0.0.192/", "192.0.0.192"],
    ["http://[fd20:ce::254]/", "fd20:ce::254"],
    ["http://[fd20:00ce:0:0::0254]/", "fd20:ce::254"],
    ["http://[fd00:ec2::23]/", "fd00:ec2::23"],
    ["http://[fd00:c1::a9fe:a9fe]/", "fd00:c1::a9fe:a9fe"],
    ["http://[fd00:42::42]/", "fd00:42::42"],
    ["http://metadata.goog/", "metadata.goog"],
    ["http://metadata.google.internal/", "metadata.google.internal"],
    ["http://METADATA.google.internal./", "metadata.google.internal"],
  ])("connections to %s are refused", (url, named) => {
    expect(refusal(rules({}), url)).toContain(
      ` is denied by the rule "${named}", a default of [replicator.egress] deny`,
    );
  });

  test.each(["169.254.169.254", "::ffff:169.254.169.254", "fe80::1%eth0"])(
    "connections to a name that resolves to %s are refused",
    (address) => {
      expect(refusal(rules({}), "http://x.example/", address)).toMatch(
        `the address ${address} of host x.example is denied by the rule "`,
      );
    },
  );

  test.each([
    [["*"], "http://169.254.169.254/", undefined, false],
    [["0.0.0.0/0", "::/0"], "http://169.254.169.254/", undefined, false],
    [["169.254.0.0/15"], "http://169.254.169.254/", undefined, false],
    [["169.254.0.0/16"], "http://169.254.169.254/", undefined, true],
    [["169.254.169.254:80"], "http://169.254.169.254/", undefined, true],
    [["169.254.169.254:80"], "http://169.254.169.254:81/", undefined, false],
    [["169.254.169.253"], "http://169.254.169.254/", undefined, false],
    [["169.254.169.254"], "http://[::ffff:169.254.169.254]/", undefined, true],
    [["[fe80::/64]:5984"], "http://[fe80::7]:5984/", undefined, true],
    [["metadata.google.internal"], "http://metadata.google.internal/", "169.254.169.254", true],
    [["*.google.internal"], "http://metadata.google.internal/", "192.0.2.1", false],
    [["x.example"], "http://x.example/", "169.254.169.254", false],
  ])("allow %j permits %s only if the rule names the host", (allow, url, address, isLifted) => {
    expect(refusal(rules({ allow }), url, address) === undefined).toBe(isLifted);
  });
});

describe("a rule", () => {
  test.each([
    ["example.com", "http://example.com/", true],
    ["example.com", "http://EXAMPLE.com./", true],
    ["Example.COM.", "http://example.com/", true],
    ["bücher.example", "http://xn--bcher-kva.example/", true],
    ["example.com", "http://a.example.com/", false],
    ["example.com", "http://notexample.com/", false],
    ["*.example.com", "http://a.b.example.com/", true],
    ["*.example.com", "http://example.com/", false],
    ["*.example.com", "http://aexample.com/", false],
    ["example.com:443", "https://example.com/", true],
    ["example.com:443", "https://example.com:6984/", false],
    ["*.example.com:80", "http://a.example.com/", true],
    ["*:6984", "http://10.0.0.1:6984/", true],
    ["*:6984", "http://10.0.0.1:5984/", false],
    ["10.0.0.0/8", "http://10.255.0.1/", true],
    ["10.1.2.3/8", "http://10.255.0.1/", true],
    ["10.0.0.0/8:5984", "http://10.0.0.1:5984/", true],
    ["10.0.0.0/8:5984", "http://10.0.0.1/", false],
    ["10.0.0.0/8", "http://11.0.0.1/", false],
    ["10.0.0.0/8", "http://[::ffff:10.0.0.1]/", true],
    ["::ffff:10.0.0.1", "http://[::ffff:10.0.0.1]/", true],
    ["0x7f.1", "http://127.0.0.1/", true],
    ["127.0.0.0/8", "http://0.0.0.0/", true],
    ["127.0.0.0/8", "http://[::]/", true],
    ["::1", "http://[::]/", true],
    ["::1", "http://[0:0::0:1]/", true],
    ["[::1]:5984", "http://[::1]:5984/", true],
    ["[::1]:5984", "http://[::1]:5985/", false],
    ["[::1]", "http://[::1]/", true],
    ["fd00::/8", "http://[fdff::1]/", true],
    ["[fd00::/8]:443", "https://[fd00::1]/", true],
    ["fd00::/8", "http://[fe00::1]/", false],
    ["0.0.0.0/0", "http://192.0.2.1/", true],
  ])("%s matches %s: %j", (text, url, isMatched) => {
    const denied = refusal(rules({ deny: [text] }), url);
    expect(denied?.endsWith(` is denied by the rule "${text}" of [replicator.egress] deny`)).toBe(
      isMatched ? true : undefined,
    );
    const isAllowed = refusal(rules({ allow: [text] }), url) === undefined;
    expect(isAllowed).toBe(isMatched);
  });

  test.each([
    "",
    ":5984",
    "example.com:",
    "example.com:0",
    "example.com:65536",
    "example.com:http",
    "http://example.com",
    "user@example.com",
    "example.com/path",
    "exa mple.com",
    "a.*.com",
    "*.",
    "*.10.0.0.1",
    "**",
    "10.0.0.0/33",
    "10.0.0.0/-1",
    "10.0.0.0/8/8",
    "10.0.0.0/",
    "10.0/8",
    "10.0.0.256",
    "::1/129",
    "::1:65536:x",
    "[::1",
    "[10.0.0.1]:80",
    "[::1]5984",
    "fe80::1%eth0",
  ])("%j is not a rule", (text) => {
    expect(parseEgressRule(text)).toBe(undefined);
  });
});

test("deny takes precedence over allow, and allow permits only the hosts that it lists", () => {
  const both = rules({
    allow: ["*.example.com", "10.0.0.0/8"],
    deny: ["10.9.0.0/16", "b.example.com"],
  });
  expect(refusal(both, "http://a.example.com/", "192.0.2.1")).toBe(undefined);
  expect(refusal(both, "http://other.example/", "10.0.0.1")).toBe(undefined);
  expect(refusal(both, "http://b.example.com/", "192.0.2.1")).toBe(
    'the host b.example.com is denied by the rule "b.example.com" of [replicator.egress] deny',
  );
  expect(refusal(both, "http://a.example.com/", "10.9.0.1")).toBe(
    'the address 10.9.0.1 of host a.example.com is denied by the rule "10.9.0.0/16" of [replicator.egress] deny',
  );
  expect(refusal(both, "http://other.example/", "192.0.2.1")).toBe(
    "the address 192.0.2.1 of host other.example with port 80 matches no rule of [replicator.egress] allow",
  );
});

test("a host name that a proxy resolves must match a rule by name", () => {
  const target = { host: "other.example", port: 80 };
  const ranges = rules({ allow: ["10.0.0.0/8"] });
  expect(ranges.refusalOfHost(target, true)).toBe(undefined);
  expect(ranges.refusalOfHost(target, false)).toBe(
    "the host other.example with port 80 matches no rule of [replicator.egress] allow",
  );
});
