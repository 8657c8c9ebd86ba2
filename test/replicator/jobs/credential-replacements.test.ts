/** A single request replaces the credentials of many jobs. */
import { describe, expect, test } from "vitest";
import { Utf8Text } from "../../../src/base/index.ts";
import type { WriteContext } from "../../../src/databases/index.ts";
import type { FetchRequest, FetchResponse } from "../../../src/http-client/index.ts";
import type { Entitlement } from "../../../src/replicator/credential-entitlement.ts";
import type { CredentialReplacement } from "../../../src/replicator/credential-replacements.ts";
import { parseReplacement, parseReplication } from "../../../src/replicator/index.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

const OLD = "http://jan:old-password@far.example";
const NEW = { basic: { username: "jan", password: "new-password" } };
const REPLACEMENT = parseReplacement({ host: "http://far.example/", username: "jan", auth: NEW });
const NEW_LINE = `Basic ${btoa("jan:new-password")}`;
const OPERATOR = { userName: "ops" };
const OLD_LINE = `Basic ${btoa("jan:old-password")}`;

/** Returns the entitlement of an operator who does not know any password of the server. */
function entitlementOf({ owner, rootPath }: CredentialReplacement): Entitlement {
  return { caller: OPERATOR, owner, rootPath, validPassword: undefined };
}

async function open(answer: (request: FetchRequest) => Promise<never>) {
  const node = openVirtualNode({
    config: { client: { usesSessions: false } as never, maxJobs: 1000 } as never,
    fetch: answer,
  });
  await node.start();
  await node.createDatabase("_replicator");
  const { world, kv, databases, replicator } = node;
  return {
    ...node,
    read: (id: string) =>
      world.until(
        kv.read(async (tx) => (await databases.open(tx, "_replicator")).documents.read(tx, id)),
      ),
    /** Returns the outcome of the job. */
    replace: async (
      jobId: string,
      replacement = REPLACEMENT,
      entitlement = entitlementOf(replacement),
    ) => {
      const replacing = kv.transact((tx) =>
        replicator.credentials.replace(tx, [jobId], replacement, OPERATOR, entitlement),
      );
      return (await world.until(replacing)).get(jobId);
    },
    entries: () =>
      world.until(
        (async () => {
          const entries = [];
          for await (const entry of replicator.lists.all({})) entries.push(entry);
          return entries;
        })(),
      ),
  };
}

const offline = async (): Promise<never> => {
  throw new Error("No network here");
};

test("a hundred jobs of documents log in with the new password in their next run, and their documents are otherwise unchanged", async () => {
  const lines: (string | undefined)[] = [];
  const node = await open(async (request) => {
    lines.push(request.headers?.authorization);
    return offline();
  });
  const forms: readonly unknown[] = [
    `${OLD}/a`,
    { url: `${OLD}/a`, headers: { "X-Own": "1" } },
    { url: "http://far.example/a", headers: { Authorization: OLD_LINE } },
    { url: "http://far.example/a", auth: { basic: { username: "jan", password: "old-password" } } },
  ];
  const count = 100;
  for (let number = 0; number < count; number++) {
    const source = forms[number % forms.length];
    await node.put("_replicator", `job-${number}`, { source, target: `b-${number}`, n: number });
  }
  for (let number = 0; number < count; number++) {
    await node.document(`job-${number}`, ({ data }) => data.failure !== undefined);
  }
  expect(new Set(lines)).toEqual(new Set([OLD_LINE]));
  for (const { jobId, data } of await node.entries()) {
    expect(node.replicator.credentials.concerns(REPLACEMENT, data)).toBe(true);
    expect(await node.replace(jobId)).toBe("replaced");
  }
  lines.splice(0);
  await node.world.time.run(node.world.time.nowMs + 60_000);
  expect(new Set(lines)).toEqual(new Set([NEW_LINE]));
  for (const number of [0, 1, 2, 3]) {
    const document = await node.read(`job-${number}`);
    expect(document?.revision).toMatch(/^2-/);
    expect(JSON.parse(document?.body.text ?? "")).toEqual({
      source: {
        url: "http://far.example/a",
        ...(number === 1 ? { headers: { "X-Own": "1" } } : {}),
        ...(number === 2 ? { headers: {} } : {}),
        auth: NEW,
      },
      target: `b-${number}`,
      owner: null,
      n: number,
    });
  }
  expect(await node.entries()).toHaveLength(count);
  await node.stop();
});

describe("a job with an OAuth client", () => {
  const client = { token_url: "https://idp.example/token", client_id: "jan" };
  const before = { oauth2: { ...client, client_secret: "old", scope: "s" } };
  const after = { oauth2: { ...client, client_secret: "new", scope: "s" } };
  const replacement = parseReplacement({
    host: "http://far.example/",
    username: "jan",
    auth: after,
  });

  test("gets the new secret of the client", async () => {
    const lines: unknown[] = [];
    const node = await open(async ({ headers }) => {
      lines.push(headers?.authorization);
      return offline();
    });
    const source = { url: "http://far.example/a", auth: before };
    await node.put("_replicator", "one", { source, target: "b" });
    await node.document("one", ({ data }) => data.failure !== undefined);
    const [entry] = await node.entries();
    expect(await node.replace(entry?.jobId ?? "", replacement)).toBe("replaced");
    lines.splice(0);
    await node.world.time.run(node.world.time.nowMs + 60_000);
    expect(new Set(lines)).toEqual(new Set([`Basic ${btoa("jan:new")}`]));
    const stored = JSON.parse((await node.read("one"))?.body.text ?? "");
    expect(stored.source).toEqual({ url: "http://far.example/a", auth: after });
    await node.stop();
  });

  test("does not get a password, which would be sent to the database instead", async () => {
    const node = await open(offline);
    const source = { url: "http://far.example/a", auth: before };
    await node.put("_replicator", "one", { source, target: "b" });
    const [entry] = await node.entries();
    expect(await node.replace(entry?.jobId ?? "", REPLACEMENT)).toBe("unmatched");
    await node.stop();
  });

  test("of another user gets the new secret only if it has the old secret, and not through a proxy", async () => {
    const node = await open(offline);
    const entitled = async (auth: object, more: object = {}) => {
      const source = { url: "http://far.example/a", auth };
      const replication = parseReplication({ source, target: "b", ...more });
      const data = { replication, userName: "eve", wasAdmin: false } as never;
      const caller = { userName: "ops", wasAdmin: true };
      const entitlement = { caller, owner: undefined, validPassword: "old", rootPath: "/" };
      return node.replicator.credentials.isEntitled(replacement, data, entitlement);
    };
    expect(await entitled(before)).toBe(true);
    expect(await entitled({ oauth2: { ...before.oauth2, client_secret: "guess" } })).toBe(false);
    expect(await entitled(before, { proxy: "http://proxy.example" })).toBe(false);
    await node.stop();
  });
});

test("a running transient job restarts with the new credential and keeps its id and history", async () => {
  const seen: (string | undefined)[] = [];
  const node = await open(async ({ headers, signal }) => {
    seen.push(headers?.authorization);
    return new Promise<never>((_, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason));
    });
  });
  await node.createDatabase("b");
  const replication = parseReplication({ source: `${OLD}/a`, target: "b", continuous: true });
  const { world, replicator } = node;
  const requester = { userName: "sue", isAdmin: false };
  const id = await world.until(replicator.start(replication, requester));
  while (seen.length === 0) await world.time.run(world.time.nowMs + 100);
  expect((await world.until(replicator.find(id)))?.state).toBe("running");
  expect(await node.replace(id)).toBe("withheld");
  expect(await node.replace(id, { ...REPLACEMENT, owner: "sue" })).toBe("replaced");
  while (!seen.includes(NEW_LINE)) await world.time.run(world.time.nowMs + 100);
  const entry = await world.until(replicator.find(id));
  expect(entry?.data.replication?.source).toMatchObject(NEW);
  expect(entry?.data.history.map(({ type }) => type)).toContain("added");
  expect(entry?.data.userName).toBe("sue");
  await node.stop();
});

test("a paused job stays paused and uses the new credential after it is resumed", async () => {
  const lines: (string | undefined)[] = [];
  const node = await open(async ({ headers }) => {
    lines.push(headers?.authorization);
    return offline();
  });
  const { world, replicator } = node;
  const replication = parseReplication({ source: `${OLD}/a`, target: "b", continuous: true });
  const id = await world.until(replicator.start(replication, { userName: null, isAdmin: true }));
  await world.until(replicator.commands.pause(id, { userName: "ops" }));
  await world.time.run(world.time.nowMs + 10_000);
  lines.splice(0);
  node.names.splice(0);
  expect(await node.replace(id)).toBe("replaced");
  await world.time.run(world.time.nowMs + 600_000);
  expect(node.names).not.toContain("replication.accepted");
  expect(lines).toEqual([]);
  const [control] = await world.until(replicator.commands.controls([id]));
  expect(control).toMatchObject({
    isPaused: true,
    events: [{ action: "replace-credentials" }, {}],
  });
  await world.until(replicator.commands.resume(id, { userName: "ops" }));
  await world.time.run(world.time.nowMs + 10_000);
  expect(new Set(lines)).toEqual(new Set([NEW_LINE]));
  await node.stop();
});

test.each([
  ["another host", { source: "http://jan:x@other.example/a" }],
  ["another port", { source: "http://jan:x@far.example:5984/a" }],
  ["another scheme", { source: "https://jan:x@far.example/a" }],
  ["another user", { source: "http://eve:x@far.example/a" }],
  ["no user", { source: "http://far.example/a" }],
  ["the server's own databases", { source: "a" }],
])("a replacement does not change the credentials of a job that uses %s", async (_, body) => {
  const node = await open(offline);
  await node.put("_replicator", "one", { ...body, target: "b" });
  const [entry] = await node.entries();
  expect(await node.replace(entry?.jobId ?? "")).toBe("unmatched");
  expect((await node.read("one"))?.revision).toMatch(/^1-/);
  await node.stop();
});

test("a request can select one side of a job if both sides are on the same server", async () => {
  const node = await open(offline);
  await node.put("_replicator", "one", { source: `${OLD}/a`, target: `${OLD}/b` });
  const [entry] = await node.entries();
  expect(await node.replace(entry?.jobId ?? "", { ...REPLACEMENT, side: "target" })).toBe(
    "replaced",
  );
  expect(JSON.parse((await node.read("one"))?.body.text ?? "")).toMatchObject({
    source: `${OLD}/a`,
    target: { url: "http://far.example/b", auth: NEW },
  });
  await node.stop();
});

describe("the jobs of other users", () => {
  const EVE: WriteContext = { userName: "eve", roles: [], isAdmin: false };
  const JOE: WriteContext = { userName: "joe", roles: [], isAdmin: false };
  const VALID = `${OLD}/a`;
  const GUESS = "http://jan:guess@far.example/a";
  const auth = NEW;

  /**
   * Opens a server that accepts the old password, both at `far.example` and through every proxy.
   */
  async function openServer() {
    const answering = async ({ headers, url, method }: FetchRequest): Promise<FetchResponse> => {
      const isIn = headers?.authorization === OLD_LINE;
      const isDatabase = /\/[ab]\/$/.test(url) && method === "GET";
      const status = !isIn ? 401 : isDatabase ? 200 : url.includes("_changes") ? 200 : 404;
      const members = url.includes("_changes")
        ? { results: [], last_seq: "1", pending: 0 }
        : { update_seq: "1", instance_start_time: "0", error: "not_found", reason: "missing" };
      const body = new TextEncoder().encode(JSON.stringify(members));
      return {
        status,
        headers: new Map([["content-type", "application/json"]]),
        body: (async function* () {
          yield body;
        })(),
        discard() {},
      };
    };
    const node = await open(answering as never);
    await node.createDatabase("b");
    const { world, kv, databases } = node;
    const put = (id: string, writer: WriteContext, members: object) =>
      world.until(
        kv.transact(async (tx) => {
          const database = await databases.open(tx, "_replicator");
          const body = Utf8Text.of(
            JSON.stringify({ target: "b", create_target: true, ...members }),
          );
          const edit = { mode: "interactive", id, parent: undefined, deleted: false } as const;
          return database.write(tx, { ...edit, body, attachments: [] }, writer);
        }),
      );
    /**
     * Replaces the credentials of all jobs, as the user `ops`. Returns the result for the job of
     * each document.
     */
    const replaceAll = async (members: object = {}) => {
      await world.time.run(world.time.nowMs + 20_000);
      const replacement = parseReplacement({
        host: "http://far.example/",
        username: "jan",
        auth,
        ...members,
      });
      const entries = await node.entries();
      const { credentials } = node.replicator;
      const found = await world.until(credentials.find(replacement, { userName: "ops" }));
      const { entitlement } = found.content;
      const outcomes: Record<string, string | undefined> = {};
      for (const { jobId, data } of entries) {
        const outcome = await node.replace(jobId, replacement, entitlement);
        outcomes[data.document?.id ?? ""] = outcome;
      }
      return outcomes;
    };
    return { ...node, put, replaceAll };
  }

  test("get the new password only if the server accepted their old password", async () => {
    const node = await openServer();
    await node.put("joes", JOE, { source: VALID });
    await node.put("eves", EVE, { source: GUESS });
    expect(await node.replaceAll()).toEqual({ joes: "replaced", eves: "withheld" });
    expect((await node.read("eves"))?.body.text).not.toContain("new-password");
    await node.stop();
  });

  test("do not get the new password if the server has accepted another password in the meantime", async () => {
    const node = await openServer();
    await node.put("eves", EVE, { source: VALID });
    expect(await node.replaceAll()).toEqual({ eves: "replaced" });
    await node.put("joes", JOE, { source: VALID });
    const again = { auth: { basic: { username: "jan", password: "newest" } } };
    expect(await node.replaceAll(again)).toEqual({ joes: "replaced", eves: "withheld" });
    await node.stop();
  });

  test.each<[string, object]>([
    ["a proxy", { source: VALID, source_proxy: "http://evil.example:3128" }],
    ["a proxy for both sides", { source: VALID, proxy: "http://evil.example:3128" }],
    ["unverified certificates", { source: { url: VALID, verify_ssl_certificates: false } }],
    ["a header for a proxy", { source: { url: VALID, headers: { "X-Forwarded-Host": "evil" } } }],
    ["another path", { source: `${OLD}/evil/a` }],
  ])("do not get the new password if their author chose %s", async (_, members) => {
    const node = await openServer();
    await node.put("joes", JOE, { source: VALID });
    await node.put("eves", EVE, members);
    expect(await node.replaceAll()).toEqual({ joes: "replaced", eves: "withheld" });
    expect(await node.replaceAll({ owner: "eve" })).toMatchObject({ eves: "withheld" });
    await node.stop();
  });

  test("get the new password if the operator names their owner, unless a token vouched for the owner's name", async () => {
    const node = await openServer();
    await node.put("eves", EVE, { source: GUESS });
    await node.put("tokens", { ...EVE, vouchedBy: "jwt" }, { source: GUESS, target: "c" });
    await node.put("joes", JOE, { source: GUESS, target: "d" });
    expect(await node.replaceAll({ owner: "eve" })).toEqual({
      eves: "replaced",
      tokens: "withheld",
      joes: "withheld",
    });
    await node.stop();
  });

  test("do not get the new password if they have never run but their documents contain the state completed", async () => {
    const node = await openServer();
    const state = {
      _replication_state: "completed",
      _replication_stats: { checkpointed_source_seq: "9" },
    };
    await node.put("eves", EVE, { source: GUESS, ...state });
    expect(await node.replaceAll()).toEqual({ eves: "withheld" });
    await node.stop();
  });

  test("do not get a reference to a secret", async () => {
    const node = await openServer();
    await node.put("joes", JOE, { source: VALID });
    const reference = { basic: { username: "jan", password: "env:CREDENTIAL_A" } };
    expect(await node.replaceAll({ auth: reference })).toEqual({ joes: "withheld" });
    expect(await node.replaceAll({ auth: reference, owner: "joe" })).toEqual({ joes: "withheld" });
    await node.stop();
  });
});

test.each([
  [{ host: "far.example", username: "jan", auth: NEW }, "`host` must be"],
  [{ host: "ftp://far.example", username: "jan", auth: NEW }, "`host` must be"],
  [{ host: "http://a", auth: NEW }, "`username` must be"],
  [{ host: "http://a", username: "jan", side: "both", auth: NEW }, "`side` must be"],
  [{ host: "http://a", username: "jan", owner: 7, auth: NEW }, "`owner` must be"],
  [{ host: "http://a", username: "jan" }, "`auth` must be an object"],
  [{ host: "http://a", username: "jan", auth: {} }, "`auth` must contain"],
  [{ host: "http://a", username: "jan", auth: { basic: {} } }, "auth.basic"],
])("the replacement %j is rejected", (members, reason) => {
  expect(() => parseReplacement(members)).toThrow(
    expect.objectContaining({ reason: expect.stringContaining(reason) }),
  );
});

test("a replacement also applies to a rule: its jobs continue, and jobs that it creates later use the new credential", async () => {
  const lines: (string | undefined)[] = [];
  const node = await open(async ({ headers, signal }) => {
    lines.push(headers?.authorization);
    return new Promise<never>((_, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason));
    });
  });
  const { world, replicator } = node;
  const { rules, credentials } = replicator;
  const owner = { userName: "sue" };
  await node.createDatabase("user-one");
  await world.until(rules.put("users", { source: "local", target: `${OLD}/{db}` }, owner));
  await world.until(
    rules.put("others", { source: "local", target: "copy-{db}", except: ["*"] }, owner),
  );
  const jobOf = async (database: string) => {
    for (;;) {
      const found = (await node.entries()).find(({ jobId }) => jobId.endsWith(`|${database}`));
      if (found !== undefined) return found;
      await world.time.run(world.time.nowMs + 1000);
    }
  };
  const { jobId, data } = await jobOf("user-one");
  const inRule = (name: string, isDryRun: boolean) =>
    world.until(credentials.replaceInRule(name, REPLACEMENT, { isDryRun }));
  expect([await inRule("users", true), await inRule("others", true)]).toEqual([true, false]);
  expect(await node.replace(jobId)).toBe("replaced");
  expect([await inRule("users", false), await inRule("others", false)]).toEqual([true, false]);
  lines.splice(0);
  await node.createDatabase("user-two");
  await jobOf("user-two");
  await world.time.run(world.time.nowMs + 60_000);
  expect(new Set(lines)).toEqual(new Set([NEW_LINE]));
  const after = await jobOf("user-one");
  expect(after.data.addedTimeMs).toBe(data.addedTimeMs);
  const rule = await world.until(rules.get("users"));
  expect(rule).toMatchObject({
    generation: 2,
    content: { owner, members: { target: { url: "http://far.example/{db}", auth: NEW } } },
  });
  // A repeated request finds the same job because the same user sends it.
  expect(await inRule("users", true)).toBe(true);
  await node.stop();
});
