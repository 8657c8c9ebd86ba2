import { describe, expect, test } from "vitest";
import { Utf8Text } from "../../base/index.ts";
import { withStoredSecrets } from "./masked-secrets.ts";

/** The document as stored. `MASKED` is the same document as shown on status pages. */
const STORED = {
  source: "http://jan:secret@couch.example:5984/films?token=abc&feed=x",
  target: {
    url: "https://other.example/copy",
    headers: { Cookie: "cookie", "X-Plain": "plain" },
    auth: { iam: { api_key: "key", token_url: "https://iam.example/token" } },
    password: "of the key",
  },
  source_proxy: "http://me:proxypw@proxy.example:3128",
  password: "of all keys",
};
const MASKED = {
  source: "http://jan:*****@couch.example:5984/films?token=*****&feed=*****",
  target: {
    url: "https://other.example/copy",
    headers: { Cookie: "*****", "X-Plain": "*****" },
    auth: { iam: { api_key: "*****", token_url: "https://iam.example/token" } },
    password: "*****",
  },
  source_proxy: "http://me:*****@proxy.example:3128",
  password: "*****",
};

function put(given: object, stored: object = STORED): unknown {
  const before = Utf8Text.of(JSON.stringify(stored));
  const result = withStoredSecrets(Utf8Text.of(JSON.stringify(given)), before);
  return result.kind === "whole"
    ? JSON.parse(result.body.text)
    : result.reason.replace(/ is.*/, "");
}

test("replaces masked values by their stored secrets", () => {
  expect(put(MASKED)).toEqual(STORED);
});

test("accepts changed values that do not affect how the server is reached", () => {
  const source = "http://jan:*****@couch.example:5984/series?token=*****";
  const headers = { Cookie: "*****", "X-New": "new" };
  const target = { ...MASKED.target, url: "https://other.example/new", headers };
  expect(put({ ...MASKED, source, target, continuous: true })).toEqual({
    ...STORED,
    source: "http://jan:secret@couch.example:5984/series?token=abc",
    target: {
      ...STORED.target,
      url: "https://other.example/new",
      headers: { ...headers, Cookie: "cookie" },
    },
    continuous: true,
  });
});

test("accepts new secrets, whatever else changes", () => {
  const given = { source: "http://jan:new@elsewhere.example/films", target: "b" };
  expect(put(given)).toEqual(given);
});

test("does not change unmasked values", () => {
  const text = '{"source":"http://a:*****@b/c","target":"x", "big": 12345678901234567890.0}';
  const stored = Utf8Text.of('{"source":"http://a:pw@b/c"}');
  const result = withStoredSecrets(Utf8Text.of(text), stored);
  expect(result).toMatchObject({ kind: "whole" });
  const { body } = result as { body: Utf8Text };
  expect(body.text).toContain("12345678901234567890.0");
  const other = Utf8Text.of('{"source":"a","target":"b","note":"*****"}');
  expect(withStoredSecrets(other, undefined)).toEqual({ kind: "whole", body: other });
});

test("restores the masked secret of an OAuth client only if its other members are unchanged", () => {
  const client = { token_url: "https://idp.example/token", client_id: "c", client_secret: "s" };
  const withClient = (members: object) => ({
    source: { url: "https://couch.example/films", auth: { oauth2: { ...client, ...members } } },
    target: "b",
  });
  const stored = withClient({});
  expect(put(withClient({ client_secret: "*****" }), stored)).toEqual(stored);
  for (const change of [{ token_url: "https://evil.example/token" }, { client_id: "d" }]) {
    const given = withClient({ client_secret: "*****", ...change });
    expect(put(given, stored)).toBe("`source.auth`");
  }
});

describe("does not send a masked secret to another place after a change", () => {
  const target = (change: object) => ({ ...MASKED, target: { ...MASKED.target, ...change } });
  const iam = { api_key: "*****", token_url: "https://evil.example/token" };
  test.each<[string, object, string]>([
    ["the host", { ...MASKED, source: "http://jan:*****@evil.example/films" }, "`source`"],
    ["the port", { ...MASKED, source: "http://jan:*****@couch.example:1/films" }, "`source`"],
    ["the scheme", { ...MASKED, source: "https://jan:*****@couch.example:5984/f" }, "`source`"],
    [
      "the host of a token in a query",
      { ...MASKED, source: "http://evil.example/?token=*****" },
      "`source`",
    ],
    ["the host of headers and keys", target({ url: "https://evil.example/copy" }), "`target`"],
    ["another form", { ...MASKED, target: "https://jan:*****@other.example/copy" }, "`target`"],
    ["the server of tokens", target({ auth: { iam } }), "`target.auth`"],
    ["the kind of auth", target({ auth: { bearer: "*****" } }), "`target.auth`"],
    ["the name of a header", target({ headers: { Other: "*****" } }), "`target.headers.Other`"],
    ["the name in a query", { ...MASKED, source: `${MASKED.source}&new=*****` }, "`source`"],
    ["the user", { ...MASKED, source: "http://eve:*****@couch.example:5984/films" }, "`source`"],
    ["the proxy", { ...MASKED, source_proxy: "http://evil.example:1" }, "`source`"],
    [
      "the proxy's host",
      { ...MASKED, source_proxy: "http://me:*****@evil.example:3128" },
      "`source_proxy`",
    ],
    ["the proxy of both sides", { ...MASKED, proxy: "http://evil.example:1" }, "`source`"],
    [
      "whether certificates are verified",
      { ...MASKED, verify_ssl_certificates: false },
      "`source`",
    ],
    [
      "whether those of one side are verified",
      target({ verify_ssl_certificates: false }),
      "`target`",
    ],
    ["the trusted authorities", target({ cacert_file: "/mine" }), "`target`"],
    [
      "an endpoint to a database of the server",
      { source: "a", target: "b", password: "*****" },
      "`password`",
    ],
  ])("%s", (_, given, field) => {
    expect(put(given)).toBe(field);
  });

  test("rejects a mask without a stored secret", () => {
    expect(put(MASKED, {})).toBe("`source_proxy`");
    expect(put({ source: MASKED.source, target: "b" }, { source: "a", target: "b" })).toBe(
      "`source`",
    );
  });
});

test.each(["source", "target"])(
  "refuses a masked password for the certificate keys of both sides if the %s is on another server",
  (side) => {
    const given = { source: "http://a.example/x", target: "http://b.example/x", password: "*****" };
    const stored = { ...given, password: "secret" };
    expect(put(given, stored)).toEqual(stored);
    const moved = put({ ...given, [side]: "http://elsewhere.example/x" }, stored);
    expect(moved).toEqual(expect.stringContaining("password"));
  },
);
