/** Jobs that refer to credentials of the node instead of naming them. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { FetchRequest } from "../../src/http-client/index.ts";
import { adminOnlyRefusal, parseReplication } from "../../src/replicator/index.ts";
import { secretLookup } from "../../src/server/secrets/secret-lookup.ts";
import { openVirtualNode } from "../support/virtual-node.ts";
import { withDirectory } from "../support/with-directory.ts";

const URL = "http://far/a";

/** Every place where a reference may stand, and what a request then has. */
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
  /** Runs a job until it has failed, and what it sent. */
  async function ran(
    source: object,
    lookUpSecret = secretLookup({ CREDENTIAL_A: "resolved-a" }, ["env:*"]),
  ) {
    const sent: FetchRequest[] = [];
    const node = openVirtualNode({
      lookUpSecret,
      config: { client: { usesSessions: false } as never },
      fetch: async (request) => {
        sent.push(request);
        throw new Error("No network here");
      },
    });
    await node.start();
    await node.createDatabase("_replicator");
    await node.put("_replicator", "one", { source: { url: URL, ...source }, target: "b" });
    const entry = await node.document("one", ({ data }) => data.failure !== undefined);
    await node.stop();
    const headers = sent.flatMap(({ headers = {} }) => Object.entries(headers));
    return { entry, lines: headers.map(([name, value]) => `${name}: ${value}`) };
  }

  test.each(PLACES)(
    "has %s looked up when it runs, and stores the reference",
    async (_, source, line) => {
      const { entry, lines } = await ran(source);
      expect(lines).toContain(line);
      expect(JSON.stringify(entry.data)).not.toContain("resolved-a");
      expect(JSON.stringify(entry.data)).toContain("env:CREDENTIAL_A");
    },
  );

  test("sends a password in a URL as it is, whatever it looks like", async () => {
    const { lines } = await ran({ url: "http://jan:env%3ACREDENTIAL_A@far/a" });
    expect(lines).toContain(`authorization: Basic ${btoa("jan:env:CREDENTIAL_A")}`);
  });

  test.each([
    [{}, "env:CREDENTIAL_A is not set on this node"],
    [{ CREDENTIAL_A: "two\nlines" }, "env:CREDENTIAL_A has a character that no header can carry"],
  ])("without its secret crashes, and says which reference", async (environment, reason) => {
    const { entry, lines } = await ran(
      PLACES[0]?.[1] as object,
      secretLookup(environment, ["env:*"]),
    );
    expect(entry.data.failure).toEqual({ error: "secret_missing", reason });
    expect(entry.state).toBe("crashing");
    expect(lines).toEqual([]);
  });
});

describe("only a server admin", () => {
  test.each([
    ...PLACES,
    ["iam.apiKey", { auth: { iam: { api_key: "env:A" } } }, ""] as const,
    ["tls.password", { password: "file:/run/secrets/a" }, ""] as const,
  ])("may have %s be a reference", (place, source) => {
    const replication = parseReplication({ source: { url: URL, ...source }, target: "b" });
    expect(adminOnlyRefusal(replication)).toBe(
      `\`source.${place}\` refers to a secret of the server: only a server admin may`,
    );
  });

  test.each([
    { auth: { basic: { username: "env:A", password: "x env:A" } } },
    { headers: { "x-key": "environment: file:" } },
  ])("is asked for where there is a reference: %j", (source) => {
    const replication = parseReplication({ source: { url: URL, ...source }, target: "b" });
    expect(adminOnlyRefusal(replication)).toBeUndefined();
  });
});

describe("a node", () => {
  const environment = { CREDENTIAL_A: "a", HOME: "/root", TANDEM_SECRETS_KEY: "key" };

  test("looks up what the operator has released, and nothing else", () =>
    withDirectory(async (directory) => {
      const file = join(directory, "secret");
      writeFileSync(file, "of a file\n");
      writeFileSync(join(directory, "other"), "other");
      const lookUp = secretLookup(environment, ["env:CREDENTIAL_*", `file:${file}`]);
      expect(lookUp("env:CREDENTIAL_A")).toEqual({ kind: "found", secret: "a" });
      expect(lookUp(`file:${file}`)).toEqual({ kind: "found", secret: "of a file" });
      for (const reference of ["env:HOME", "env:TANDEM_SECRETS_KEY", `file:${directory}/other`]) {
        const reason = `${reference} is not among [secrets] references of this node`;
        expect(lookUp(reference)).toEqual({ kind: "missing", reason });
      }
      const below = secretLookup(environment, [`file:${directory}/sub/*`]);
      expect(below(`file:${directory}/sub/../secret`).kind).toBe("missing");
    }));

  test.each([
    ["/", "is no file on this node"],
    ["/dev/zero", "is no file on this node"],
    ["/none/there", "cannot be read on this node (ENOENT)"],
    ["", "is empty", ""],
    ["", "is too long", "x".repeat(70_000)],
  ])("says why a file %s is no secret: it %s", (path, reason, content = "") =>
    withDirectory(async (directory) => {
      const file = path === "" ? join(directory, "file") : path;
      if (path === "") writeFileSync(file, content);
      expect(secretLookup({}, ["file:*"])(`file:${file}`)).toEqual({
        kind: "missing",
        reason: `file:${file} ${reason}`,
      });
    }),
  );
});
