import { expect, test } from "vitest";
import { IAM_TOKEN_URL } from "../../http-client/index.ts";
import { REPLICATOR_CONFIG_DEFAULT } from "../replicator-config.ts";
import { withAuth } from "./parse-endpoint.ts";
import { ReplicationInvalidError } from "./parse-fields.ts";
import { parseReplication } from "./parse-replication.ts";

const BODY = { source: "https://host/a", target: "b" };
const at = (source: object) => ({ ...BODY, source: { url: "https://host/a", ...source } });

const TOKEN_URL = "`source.auth.oauth2.token_url` must be an http:// or https:// URL";
const ONE_PROOF = "`source.auth.oauth2` must have either `client_secret` or `client_assertion`";
const CLIENT = { token_url: "https://idp/token", client_id: "c", client_secret: "s" };
const oauth2 = (members: object) => at({ auth: { oauth2: { ...CLIENT, ...members } } });

function reasonOf(body: Record<string, unknown>): string | undefined {
  try {
    parseReplication(body);
    return undefined;
  } catch (error) {
    return error instanceof ReplicationInvalidError ? error.reason : String(error);
  }
}

test.each([
  ["iam", { api_key: "k" }],
  ["ibm", { apikey: "k" }],
  ["ibm", { api_key: "k" }],
])("accepts an API key at auth.%s as %j", (name, value) => {
  const { source } = parseReplication(at({ auth: { [name]: value } }));
  expect(source).toMatchObject({ iam: { apiKey: "k", tokenUrl: IAM_TOKEN_URL } });
});

test("accepts an OAuth client with its optional members", () => {
  const members = { auth_method: "client_secret_post", scope: "a b", audience: "c", resource: "r" };
  expect(parseReplication(oauth2(members)).source).toMatchObject({
    oauth2: {
      tokenUrl: "https://idp/token",
      clientId: "c",
      clientSecret: "s",
      authMethod: "client_secret_post",
      scope: "a b",
      audience: "c",
      resource: "r",
    },
  });
});

test("`valid_endpoint_protocols` also applies to token endpoints", () => {
  const protocols = { endpoint: ["https"], proxy: [] };
  const body = oauth2({ token_url: "http://idp/token" });
  expect(() => parseReplication(body, { ...REPLICATOR_CONFIG_DEFAULT, protocols })).toThrow(
    expect.objectContaining({
      reason:
        "the `token_url` of `source` must be an https:// URL (set by [replicator] valid_endpoint_protocols)",
    }),
  );
});

test("explicit authentication overrides the user in the URL", () => {
  const url = "https://user:password@host/a";
  const { source } = parseReplication(at({ url, auth: { bearer: { token: "t" } } }));
  expect(source).toEqual({
    kind: "http",
    url: "https://host/a/",
    headers: { authorization: "Bearer t" },
  });
});

test("`proxy` applies to both sides, `source_proxy` and `target_proxy` to one side", () => {
  const proxy = "socks5://u:p@proxy:1080";
  const urls = (body: object) => {
    const { source, target } = parseReplication({ ...BODY, target: "https://host/b", ...body });
    return [source, target].map((side) => (side.kind === "http" ? side.proxyUrl : "local"));
  };
  expect(urls({})).toEqual([undefined, undefined]);
  expect(urls({ proxy })).toEqual([proxy, proxy]);
  expect(urls({ source_proxy: proxy })).toEqual([proxy, undefined]);
  expect(urls({ source_proxy: proxy, target_proxy: "http://other" })).toEqual([
    proxy,
    "http://other",
  ]);
});

test("top-level certificates apply to both endpoints, and an endpoint's certificates only to that endpoint", () => {
  const { source } = parseReplication({
    ...at({ cert_file: "/own.pem", verify_ssl_certificates: false }),
    cert_file: "/both.pem",
    key_file: "/key.pem",
    password: "opened",
    cacert_file: "/ca.pem",
    ssl_certificate_max_depth: 1,
  });
  expect(source).toMatchObject({
    tls: {
      verify: false,
      trustedCertificatesFile: "/ca.pem",
      depthMax: 1,
      certificateFile: "/own.pem",
      keyFile: "/key.pem",
      password: "opened",
    },
  });
});

test.each<[Record<string, unknown>, string]>([
  [{ ...BODY, source: "http://host:port/a" }, "`source` has an invalid url"],
  [{ ...BODY, source: "http:///a" }, "`source` has an invalid url"],
  [
    { ...BODY, source: "http://host/a\r\nHost: b" },
    "`source` has a space or control character in its url",
  ],
  [at({ url: "http://ho\tst/a" }), "`source` has a space or control character in its url"],
  [at({ headers: { x: "\u0100" } }), "`source.headers.x` is not a valid HTTP header"],
  [at({ headers: { x: "a\0" } }), "`source.headers.x` is not a valid HTTP header"],
  [
    at({ headers: { Host: "b" } }),
    "`source.headers.Host` cannot be set: it belongs to the connection",
  ],
  [
    at({ headers: { "transfer-encoding": "chunked" } }),
    "`source.headers.transfer-encoding` cannot be set: it belongs to the connection",
  ],
  [{ ...BODY, proxy: "ftp://x" }, "`proxy` must be an http://, https:// or socks5:// URL"],
  [
    { ...BODY, proxy: "http://u:100%@x" },
    "`proxy` has a percent sign in its user or password: write it as %25",
  ],
  [
    { ...BODY, target_proxy: "socks5://%ED%A0%BD:p@x" },
    "`target_proxy` has a percent sign in its user or password: write it as %25",
  ],
  [{ ...BODY, source_proxy: 5 }, "`source_proxy` must be a string"],
  [
    { ...BODY, proxy: "http://a", source_proxy: "http://b" },
    "`proxy` is mutually exclusive with `source_proxy`",
  ],
  [
    { ...BODY, proxy: "http://a", target_proxy: "http://b" },
    "`proxy` is mutually exclusive with `target_proxy`",
  ],
  [{ ...BODY, verify_ssl_certificates: 1 }, "`verify_ssl_certificates` must be a boolean"],
  [at({ key_file: 1 }), "`source.key_file` must be a string"],
  [
    at({ ssl_certificate_max_depth: -1 }),
    "`source.ssl_certificate_max_depth` must be an integer of at least 0",
  ],
  [at({ auth: { iam: {} } }), "`source.auth.iam` must be an object with the string `api_key`"],
  [
    at({ auth: { iam: { api_key: "k", token_url: "x" } } }),
    "`source.auth.iam.token_url` must be an http:// or https:// URL without user and password",
  ],
  [
    at({ auth: { kerberos: {} } }),
    "`source.auth.kerberos` is not known: use basic, iam, oauth2 or bearer",
  ],
  [oauth2({ token_url: "https://u:p@idp/" }), `${TOKEN_URL} without user and password`],
  [oauth2({ token_url: "https://idp/ token" }), `${TOKEN_URL} without user and password`],
  [oauth2({ token_url: undefined }), TOKEN_URL],
  [oauth2({ client_id: 7 }), "`source.auth.oauth2.client_id` must be a string"],
  [oauth2({ client_id: undefined }), "`source.auth.oauth2.client_id` must be a string"],
  [oauth2({ client_secret: undefined }), ONE_PROOF],
  [oauth2({ client_assertion: "identity:a" }), ONE_PROOF],
  [
    oauth2({ client_secret: undefined, client_assertion: "eyJ" }),
    "`source.auth.oauth2.client_assertion` must be a reference, such as identity:NAME",
  ],
  [
    oauth2({ auth_method: "tls_client_auth" }),
    "`source.auth.oauth2.auth_method` must be client_secret_basic or client_secret_post, and requires `client_secret`",
  ],
  [
    oauth2({ scope: "a\nb" }),
    "`source.auth.oauth2.scope` must have 1 to 8192 characters, and no control characters",
  ],
  [
    oauth2({ client_key: "s" }),
    "`source.auth.oauth2.client_key` is not known: use token_url, client_id, client_secret, client_assertion, auth_method, scope, audience, resource",
  ],
  [
    at({ auth: { bearer: { token: "a b" } } }),
    "`source.auth.bearer` must be a token of printable ASCII characters",
  ],
  [{ ...BODY, socket_options: [] }, "`socket_options` must be a string"],
  [{ ...BODY, ibrowse_options: [] }, "`ibrowse_options` must be a string"],
])("refuses %j with an error that names the member", (body, reason) => {
  expect(reasonOf(body)).toBe(reason);
});

test("Erlang's socket options are accepted", () => {
  expect(reasonOf({ ...BODY, socket_options: "[{keepalive, true}]" })).toBeUndefined();
  expect(reasonOf({ ...BODY, ibrowse_options: "[{pool, 2}]" })).toBeUndefined();
});

test.each([
  [
    { ...BODY, source: "http://host/a" },
    "`source` must be an https:// URL (set by [replicator] valid_endpoint_protocols)",
  ],
  [{ ...BODY, proxy: "http://proxy" }, "`proxy` must be an https:// or socks5:// URL"],
])("t_parse_db_invalid_protocol, t_parse_proxy_invalid_protocol: refuses %j", (body, reason) => {
  const protocols = { endpoint: ["https"], proxy: ["https", "socks5"] };
  const config = { ...REPLICATOR_CONFIG_DEFAULT, protocols };
  expect(() => parseReplication(body, config)).toThrow(expect.objectContaining({ reason }));
  expect(() => parseReplication({ ...BODY, proxy: "socks5://p" }, config)).not.toThrow();
});

test.each([{}, { cert_file: "/own.pem" }, { cert_file: "/own.pem", key_file: "/key.pem" }])(
  "an endpoint with %j keeps its certificates when its credentials are replaced",
  (members) => {
    const { source } = parseReplication(at({ ...members, headers: { "X-A": "1" } }));
    if (source.kind !== "http") throw new Error("It is a URL");
    const basic = { username: "ann", password: "secret" };
    expect(withAuth("source", source, { basic })).toEqual({ ...source, basic });
  },
);
