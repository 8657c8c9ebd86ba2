/** Jobs that contain references to credentials of the node instead of the credentials. */
import { linkSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { FetchRequest, FetchResponse } from "../../../src/http-client/index.ts";
import { adminOnlyRefusal, parseReplication } from "../../../src/replicator/index.ts";
import { readConfig } from "../../../src/server/index.ts";
import { secretLookup } from "../../../src/server/secrets/secret-lookup.ts";
import { parseIdentities } from "../../../src/server/settings/identity-settings.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";
import { withDirectory } from "../../support/with-directory.ts";

const URL = "http://far/a";
const CLIENT = { token_url: "https://idp/token", client_id: "c" };

/** The response to a login. */
const SESSION: FetchResponse = {
  status: 200,
  headers: new Map([["set-cookie", "AuthSession=c"]]),
  body: (async function* () {})(),
  discard: () => {},
};

/** Each member that may contain a reference, and the resulting request header. */
const PLACES: readonly (readonly [string, object, string])[] = [
  [
    "basic.password",
    { auth: { basic: { username: "jan", password: "env:CREDENTIAL_A" } } },
    `authorization: Basic ${btoa("jan:resolved-a")}`,
  ],
  ["headers.x-key", { headers: { "x-key": "env:CREDENTIAL_A" } }, "x-key: resolved-a"],
  [
    "headers.Authorization",
    { headers: { Authorization: "Bearer env:CREDENTIAL_A" } },
    "authorization: Bearer resolved-a",
  ],
  [
    "headers.authorization",
    { auth: { bearer: { token: "env:CREDENTIAL_A" } } },
    "authorization: Bearer resolved-a",
  ],
];

describe("a job", () => {
  /** Runs a job until it fails. Returns the job and the headers of its requests. */
  async function ran(
    source: object,
    lookUpSecret = secretLookup({ CREDENTIAL_A: "resolved-a" }, ["env:*"]),
    usesSessions = false,
    members: object = {},
  ) {
    const sent: FetchRequest[] = [];
    const node = openVirtualNode({
      lookUpSecret,
      config: { client: { usesSessions } as never },
      fetch: async (request) => {
        sent.push(request);
        if (request.url.endsWith("/_session")) return SESSION;
        throw new Error("No network here");
      },
    });
    await node.start();
    await node.createDatabase("_replicator");
    await node.put("_replicator", "one", {
      source: { url: URL, ...source },
      target: "b",
      ...members,
    });
    const entry = await node.document("one", ({ data }) => data.failure !== undefined);
    await node.stop();
    const headers = sent.flatMap(({ headers = {} }) => Object.entries(headers));
    return { entry, lines: headers.map(([name, value]) => `${name}: ${value}`) };
  }

  test.each(PLACES)(
    "resolves a reference in %s when it runs, and stores only the reference",
    async (_, source, line) => {
      const { entry, lines } = await ran(source);
      expect(lines).toContain(line);
      expect(JSON.stringify(entry.data)).not.toContain("resolved-a");
      expect(JSON.stringify(entry.data)).toContain("env:CREDENTIAL_A");
    },
  );

  test("sends a bearer token from `headers` even if the URL contains a user name and a password", async () => {
    const headers = { Authorization: "Bearer env:CREDENTIAL_A" };
    const { lines } = await ran({ url: "http://jan:b@far/a", headers }, undefined, true);
    expect(lines).toContain("authorization: Bearer resolved-a");
  });

  test.each([
    [
      "an unverified certificate",
      "HTTPS://far/a",
      { verify_ssl_certificates: false },
      "to https://far without verifying its certificate",
    ],
    [
      "a proxy without TLS",
      "http://far/a",
      { proxy: "http://proxy.example" },
      "to http://far through a proxy, because",
    ],
  ])("does not get an identity if its connection uses %s", async (_, url, members, words) => {
    const identities = parseIdentities(new Map([["a", "/etc/hostname https://far http://far"]]));
    const lookUp = secretLookup({}, [], undefined, identities);
    const auth = { bearer: { token: "identity:a" } };
    const { entry, lines } = await ran({ url, auth }, lookUp, true, members);
    expect(entry.data.failure).toMatchObject({
      error: "secret_missing",
      reason: expect.stringContaining(words),
    });
    expect(lines).toEqual([]);
  });

  test("sends a password in a URL unchanged, even if it looks like a reference", async () => {
    const { lines } = await ran({ url: "http://jan:env%3ACREDENTIAL_A@far/a" });
    expect(lines).toContain(`authorization: Basic ${btoa("jan:env:CREDENTIAL_A")}`);
  });

  test.each([
    [{}, "env:CREDENTIAL_A is not set on this node"],
    [
      { CREDENTIAL_A: "two\nlines" },
      "env:CREDENTIAL_A has a character that is not allowed in a header",
    ],
  ])(
    "crashes if its secret is missing, and the error names the reference",
    async (environment, reason) => {
      const { entry, lines } = await ran(
        PLACES[0]?.[1] as object,
        secretLookup(environment, ["env:*"]),
      );
      expect(entry.data.failure).toEqual({ error: "secret_missing", reason });
      expect(entry.state).toBe("crashing");
      expect(lines).toEqual([]);
    },
  );
});

describe("a reference to a node's secret", () => {
  test.each([
    ...PLACES,
    ["iam.apiKey", { auth: { iam: { api_key: "env:A" } } }, ""] as const,
    ["tls.password", { password: "file:/run/secrets/a" }, ""] as const,
    ["headers.authorization", { auth: { bearer: { token: "identity:a" } } }, ""] as const,
    [
      "oauth2.clientSecret",
      { auth: { oauth2: { ...CLIENT, client_secret: "env:A" } } },
      "",
    ] as const,
    [
      "oauth2.clientAssertion",
      { auth: { oauth2: { ...CLIENT, client_assertion: "identity:a" } } },
      "",
    ] as const,
  ])("may be used only by a server admin: %s", (place, source) => {
    const replication = parseReplication({ source: { url: URL, ...source }, target: "b" });
    expect(adminOnlyRefusal(replication)).toBe(
      `\`source.${place}\` refers to a secret of the server; this requires server admin rights`,
    );
  });

  test.each([
    { auth: { basic: { username: "env:A", password: "x env:A" } } },
    { headers: { "x-key": "environment: file:" } },
  ])("is not recognized in text that only resembles one: %j", (source) => {
    const replication = parseReplication({ source: { url: URL, ...source }, target: "b" });
    expect(adminOnlyRefusal(replication)).toBeUndefined();
  });
});

describe("an identity", () => {
  const INI = "/tokens/couch https://couch.example https://*.b.example:6984 http://127.0.0.1:5984";

  /** Looks up an identity. `content` is the content of its file. */
  const found = (url: string, isDirect = true, content = "token\n") =>
    withDirectory(async (directory) => {
      const file = join(directory, "token");
      writeFileSync(file, content);
      const texts = new Map([["couch", INI.replace("/tokens/couch", file)]]);
      const keys = { files: [file], keys: () => [new Uint8Array(32).fill(7)] };
      return secretLookup(
        {},
        [],
        keys,
        parseIdentities(texts),
      )("identity:couch", {
        url,
        isDirect,
      });
    });

  test.each([
    "https://couch.example/db",
    "https://COUCH.example:443/",
    "https://a.b.example:6984/db",
    "http://127.0.0.1:5984/db",
  ])("is sent to a server that the operator has named: %s", async (url) => {
    expect(await found(url)).toEqual({ kind: "found", secret: "token" });
  });

  test.each([
    "http://couch.example/",
    "https://couch.example:444/",
    "https://a.couch.example/",
    "https://couch.example.evil/",
    "https://couch.example@evil/",
    "https://b.example:6984/",
    "https://evilb.example:6984/",
    "https://a.b.example/",
    "http://localhost:5984/",
  ])("is sent to no other server: %s", async (url) => {
    expect(await found(url)).toMatchObject({
      kind: "missing",
      reason: expect.stringMatching(
        /^identity:couch must not be sent to .*: \[identities\] permits it for other servers only$/,
      ),
    });
  });

  test("is not sent over a connection that others could intercept", async () => {
    const reason =
      "identity:couch is not sent to https://couch.example without verifying its certificate";
    expect(await found("https://couch.example/", false)).toEqual({ kind: "missing", reason });
  });

  test("may be a token of a service account, but not a sealing key", async () => {
    const claims = Buffer.from('{"sub":"system:serviceaccount:a:b"}').toString("base64url");
    const token = `e30.${claims}.c2ln`;
    const url = "https://couch.example/";
    expect(await found(url, true, token)).toEqual({ kind: "found", secret: token });
    const key = Buffer.from(new Uint8Array(32).fill(7)).toString("base64");
    expect((await found(url, true, key)).kind).toBe("missing");
  });

  test("is found only if it is configured on this node and the request has a destination", () => {
    const lookUp = secretLookup({}, ["*"], undefined, parseIdentities(new Map([["couch", INI]])));
    const destination = { url: "https://couch.example/", isDirect: true };
    expect(lookUp("identity:other", destination)).toEqual({
      kind: "missing",
      reason: "identity:other is not among [identities] of this node",
    });
    expect(lookUp("identity:couch")).toMatchObject({ kind: "missing" });
  });

  test.each([
    ["a/b", INI, "a name of letters, digits, `_`, `.` and `-`"],
    ["a", "tokens/couch https://b", "the absolute path of a file, followed by servers"],
    ["a", "/tokens/couch", "one or more servers after the path"],
    ["a", "/tokens/couch b.example", "one or more servers after the path"],
    ["a", "/tokens/couch https://*", "one or more servers after the path"],
    ["a", "/tokens/couch https://b/db", "one or more servers after the path"],
    ["a", "/tokens/couch https://u:p@b", "one or more servers after the path"],
    ["a", "/tokens/couch ftp://b", "one or more servers after the path"],
  ])("must be configured as a path and servers: %s = %s", (name, text, expected) => {
    expect(() => parseIdentities(new Map([[name, text]]))).toThrow(
      `[identities] ${name} = ${text}: expected ${expected}`,
    );
  });

  test("is read only from the file of --config, which HTTP requests cannot change", () =>
    withDirectory(async (directory) => {
      const at = (name: string): string => join(directory, name);
      writeFileSync(at("token"), "token");
      writeFileSync(
        at("tandem.ini"),
        `[identities]\ncouch = ${at("token")} https://couch.example\n`,
      );
      mkdirSync(at("data"));
      writeFileSync(at("data/local.ini"), `[identities]\nother = ${at("token")} https://evil\n`);
      const { secrets } = readConfig(
        { dataDirectory: at("data") },
        { TANDEM_CONFIG: at("tandem.ini") },
      );
      const kindOf = (name: string, url: string) =>
        secrets.lookUp(`identity:${name}`, { url, isDirect: true }).kind;
      expect(kindOf("couch", "https://couch.example/")).toBe("found");
      expect(kindOf("other", "https://evil/")).toBe("missing");
    }));
});

describe("a node", () => {
  const environment = { CREDENTIAL_A: "a", HOME: "/root", TANDEM_SECRETS_KEY: "key" };

  test("looks up only secrets that its operator has released", () =>
    withDirectory(async (directory) => {
      const file = join(directory, "secret");
      writeFileSync(file, "of a file\n");
      writeFileSync(join(directory, "other"), "other");
      const lookUp = secretLookup(environment, ["env:CREDENTIAL_*", `file:${file}`]);
      expect(lookUp("env:CREDENTIAL_A")).toEqual({ kind: "found", secret: "a" });
      expect(lookUp(`file:${file}`)).toEqual({ kind: "found", secret: "of a file" });
      for (const reference of ["env:HOME", "env:TANDEM_SECRETS_KEY", `file:${directory}/other`]) {
        const reason = `${reference} is not among the [secrets] references of this node`;
        expect(lookUp(reference)).toEqual({ kind: "missing", reason });
      }
      const below = secretLookup(environment, [`file:${directory}/sub/*`]);
      expect(below(`file:${directory}/sub/../secret`).kind).toBe("missing");
    }));

  test.each([
    ["/", "is not a regular file on this node"],
    ["/dev/zero", "is not a regular file on this node"],
    ["/none/there", "cannot be read on this node (ENOENT)"],
    ["", "is empty", ""],
    ["", "is too long", "x".repeat(70_000)],
  ])(
    "reports why it cannot use the file %s as a secret: the file %s",
    (path, reason, content = "") =>
      withDirectory(async (directory) => {
        const file = path === "" ? join(directory, "file") : path;
        if (path === "") writeFileSync(file, content);
        expect(secretLookup({}, ["file:*"])(`file:${file}`)).toEqual({
          kind: "missing",
          reason: `file:${file} ${reason}`,
        });
      }),
  );

  describe("never looks up", () => {
    const KEY = new Uint8Array(32).fill(7);
    const BASE64 = Buffer.from(KEY).toString("base64");
    const ALL = ["env:*", "file:*"];
    const FORBIDDEN = {
      kind: "missing",
      reason: expect.stringContaining("is never available to jobs"),
    };
    const kubernetes = (claims: object): string =>
      ["e30", Buffer.from(JSON.stringify(claims)).toString("base64url"), "c2ln"].join(".");

    test("a variable that contains or names a key", () => {
      const given = {
        TANDEM_SECRETS_KEY: "key",
        TANDEM_SECRETS_KEY_FILE: "/run/key",
        tandem_secrets_key: "key",
        OTHER: `${Buffer.from(KEY).toString("base64")},x`,
        URL_SAFE: Buffer.from(KEY).toString("base64url"),
        HEX: Buffer.from(KEY).toString("hex").toUpperCase(),
        TOKEN: kubernetes({ sub: "system:serviceaccount:shop:tandem" }),
        CREDENTIAL: "a password",
      };
      const lookUp = secretLookup(given, ALL, { files: [], keys: () => [KEY] });
      for (const name of Object.keys(given).filter((each) => each !== "CREDENTIAL")) {
        expect([name, lookUp(`env:${name}`)]).toEqual([name, FORBIDDEN]);
      }
      expect(lookUp("env:CREDENTIAL")).toEqual({ kind: "found", secret: "a password" });
    });

    test("a key file, its folder, or a link to either", () =>
      withDirectory(async (directory) => {
        const [keys, open] = [join(directory, "keys"), join(directory, "open")];
        for (const each of [keys, open]) mkdirSync(each);
        const key = join(keys, "data.key");
        writeFileSync(key, `# keys\n${BASE64}\n`);
        writeFileSync(join(keys, "data.key.old"), "old");
        writeFileSync(join(keys, "beside"), "beside");
        symlinkSync(key, join(open, "link"));
        symlinkSync(keys, join(open, "folder"));
        symlinkSync(join(open, "link"), join(open, "link-to-link"));
        linkSync(key, join(open, "hard"));
        writeFileSync(join(open, "copy"), `x ${BASE64}`);
        writeFileSync(join(open, "credential"), "a password");
        const lookUp = secretLookup({}, ALL, { files: [key], keys: () => [KEY] });
        const paths = [
          ...["data.key", "data.key.old", "beside"].map((name) => join(keys, name)),
          ...["link", "link-to-link", "hard", "copy", "folder/data.key", "folder/beside"].map(
            (name) => join(open, name),
          ),
        ];
        for (const path of paths) expect([path, lookUp(`file:${path}`)]).toEqual([path, FORBIDDEN]);
        for (const path of [
          `${open}/../keys/data.key`,
          `${open}//credential`,
          `${keys}/./beside`,
        ]) {
          expect(lookUp(`file:${path}`).kind).toBe("missing");
        }
        const found = lookUp(`file:${join(open, "credential")}`);
        expect(found).toEqual({ kind: "found", secret: "a password" });
        // If the lookup does not know the key's folder, it recognizes the key by its content.
        const byContent = secretLookup({}, ALL, { files: [], keys: () => [KEY] });
        expect(byContent(`file:${key}`)).toEqual(FORBIDDEN);
      }));

    test("a token of the platform, or the environment of a process", () =>
      withDirectory(async (directory) => {
        for (const folder of ["kubernetes.io/serviceaccount", "eks.amazonaws.com/x", "tokens"]) {
          mkdirSync(join(directory, folder), { recursive: true });
          const file = join(directory, folder, "token");
          writeFileSync(file, "a token");
          expect(secretLookup({}, ALL)(`file:${file}`)).toEqual(FORBIDDEN);
        }
        const file = join(directory, "projected");
        writeFileSync(file, kubernetes({ "kubernetes.io": { namespace: "shop" } }));
        expect(secretLookup({}, ALL)(`file:${file}`)).toEqual(FORBIDDEN);
        writeFileSync(file, kubernetes({ sub: "jan" }));
        expect(secretLookup({}, ALL)(`file:${file}`).kind).toBe("found");
        expect(secretLookup({}, ALL)(`file:/proc/${process.pid}/environ`)).toEqual(FORBIDDEN);
      }));

    test("the keys of the node, whatever files its configuration names", () =>
      withDirectory(async (directory) => {
        const at = (name: string): string => join(directory, name);
        for (const folder of ["tls", "named", "data", "free"]) mkdirSync(at(folder));
        writeFileSync(at("tls/server.pem"), "a TLS key");
        writeFileSync(at("named/node.key"), `${BASE64}\n`);
        writeFileSync(at("free/credential"), "a password");
        const ini = `[secrets]\nkey_file = ${at("named/node.key")}\nreferences = file:*, env:*\n[ssl]\nkey_file = ${at("tls/server.pem")}\n`;
        writeFileSync(at("tandem.ini"), ini);
        const environment = { TANDEM_CONFIG: at("tandem.ini") };
        const { secrets } = readConfig({ dataDirectory: at("data") }, environment);
        for (const name of ["tls/server.pem", "named/node.key"]) {
          expect(secrets.lookUp(`file:${at(name)}`)).toEqual(FORBIDDEN);
        }
        expect(secrets.lookUp(`file:${at("free/credential")}`).kind).toBe("found");
      }));
  });
});
