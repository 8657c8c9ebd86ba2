/**
 * Logins of jobs with a wrong password. They never lock an account, whatever the number of nodes.
 */
import { describe, expect, test } from "vitest";
import type { FetchRequest, FetchResponse } from "../../../src/http-client/index.ts";
import { parseReplacement } from "../../../src/replicator/index.ts";
import { World } from "../../simulation/kernel/world.ts";
import { openVirtualNode } from "../../support/virtual-node.ts";

/** CouchDB's defaults for `[chttpd_auth_lockout]`. */
const THRESHOLD = 5;
const LIFETIME_MS = 300_000;
const RIGHT = "right-password";

/**
 * Opens a server with an empty database and one user. Like CouchDB, it locks the user out after
 * repeated failures.
 */
function openLockingServer(world: World, { hasSessions }: { hasSessions: boolean }) {
  const server = {
    password: RIGHT,
    /** Passwords of additional users. */
    accounts: {} as Record<string, string>,
    failures: [] as number[],
    lockouts: 0,
    locked: { count: 0, sinceMs: Number.NEGATIVE_INFINITY },
    fetch: async (request: FetchRequest): Promise<FetchResponse> => {
      const { pathname } = new URL(request.url);
      const given = passwordOf(request);
      if (given !== undefined) {
        const refusal = login(given);
        if (refusal !== undefined) return refusal;
      } else if (!isSession(request.headers?.cookie)) {
        return answer(401, { error: "unauthorized", reason: "You are not authorized." });
      }
      if (pathname === "/_session") {
        if (!hasSessions) return answer(404, { error: "not_found", reason: "missing" });
        return answer(200, {}, { "set-cookie": `AuthSession=${given}; Max-Age=600` });
      }
      if (pathname.includes("_local"))
        return answer(404, { error: "not_found", reason: "missing" });
      if (pathname.endsWith("_changes"))
        return answer(200, { results: [], last_seq: 0, pending: 0 });
      return answer(200, { db_name: "films", update_seq: 0, doc_count: 0, doc_del_count: 0 });
    },
  };
  function isSession(cookie: string | undefined): boolean {
    const passwords = [server.password, ...Object.values(server.accounts)];
    return passwords.some((password) => cookie === `AuthSession=${password}`);
  }
  function login(password: string): FetchResponse | undefined {
    const nowMs = world.time.nowMs;
    const { locked } = server;
    if (nowMs - locked.sinceMs >= LIFETIME_MS) locked.count = 0;
    if (locked.count >= THRESHOLD) {
      server.lockouts++;
      const reason = "Account is temporarily locked due to multiple authentication failures";
      return answer(403, { error: "forbidden", reason });
    }
    if (password === server.password) return undefined;
    if (Object.values(server.accounts).includes(password)) return undefined;
    if (locked.count === 0) locked.sinceMs = nowMs;
    locked.count++;
    server.failures.push(nowMs);
    return answer(401, { error: "unauthorized", reason: "Name or password is incorrect." });
  }
  return server;
}

function passwordOf({ headers = {}, body }: FetchRequest): string | undefined {
  const [, encoded] = /^Basic (.*)$/.exec(headers.authorization ?? "") ?? [];
  if (encoded !== undefined) return atob(encoded).split(":")[1];
  return typeof body === "string" && body.startsWith("name=")
    ? (new URLSearchParams(body).get("password") ?? undefined)
    : undefined;
}

function answer(
  status: number,
  json: object,
  headers: Readonly<Record<string, string>> = {},
): FetchResponse {
  async function* body() {
    yield new TextEncoder().encode(JSON.stringify(json));
  }
  return { status, headers: new Map(Object.entries(headers)), body: body(), discard: () => {} };
}

const sourceWith = (password: string) => `http://jan:${password}@far.example/films`;

async function openCluster(hasSessions: boolean) {
  const world = new World("logins");
  const server = openLockingServer(world, { hasSessions });
  const options = { world, fetch: server.fetch, config: { penaltySecMin: 1 } };
  const nodes = ["a", "b"].map((name) => openVirtualNode({ ...options, nodeName: name }));
  for (const node of nodes) await node.start();
  const [first] = nodes;
  if (first === undefined) throw new Error("There are two nodes");
  await first.createDatabase("_replicator");
  return {
    ...first,
    server,
    async stop(): Promise<void> {
      for (const node of nodes) await node.stop();
    },
  };
}

/** Returns the largest number of failures in any period of `LIFETIME_MS`. */
function mostFailures(failures: readonly number[]): number {
  const counts = failures.map(
    (first) => failures.filter((time) => time >= first && time < first + LIFETIME_MS).length,
  );
  return Math.max(0, ...counts);
}

describe.each([
  ["sessions", true],
  ["passwords", false],
])("a server with %s", (_, hasSessions) => {
  test("the server receives four logins in five minutes from forty jobs with a wrong password, while a job with the right password succeeds", async () => {
    const cluster = await openCluster(hasSessions);
    const { server, world } = cluster;
    for (let number = 0; number < 40; number++) {
      const job = {
        source: sourceWith("wrong-password"),
        target: `t-${number}`,
        create_target: true,
      };
      await cluster.put("_replicator", `wrong-${number}`, job);
    }
    await world.time.run(world.time.nowMs + 20_000);
    expect(server.failures).toHaveLength(1);
    const job = { source: sourceWith(RIGHT), target: "copy", create_target: true };
    await cluster.put("_replicator", "right", job);
    await world.time.run(world.time.nowMs + 5_000);
    const { data } = await cluster.document("right", () => true);
    expect(data.state).toBe("completed");
    await world.time.run(world.time.nowMs + 3_600_000);
    expect(server.lockouts).toBe(0);
    expect(mostFailures(server.failures)).toBeLessThan(THRESHOLD);
    const pauses = server.failures.slice(1).map((time, at) => time - (server.failures[at] ?? 0));
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(75_000);
    expect(pauses[1]).toBeGreaterThanOrEqual(150_000);
    const { data: refused } = await cluster.document("wrong-7", () => true);
    expect(refused.failure).toMatchObject({
      error: "unauthorized",
      reason: expect.stringContaining('login at http://far.example as "jan" not tried before'),
    });
    await cluster.stop();
  });

  test("the nodes list the accounts whose logins the server rejected, with the waiting jobs, until the server accepts a password", async () => {
    const cluster = await openCluster(hasSessions);
    const { server, world, replicator } = cluster;
    const list = () => world.until(replicator.logins.page({ skip: 0, limit: 10 }));
    expect(await list()).toEqual({ logins: [], total: 0 });
    for (const name of ["a", "b"]) {
      const source = sourceWith("wrong-password");
      await cluster.put("_replicator", name, { source, target: name, create_target: true });
    }
    const missing = { source: "http://eve:x@far.example/films", target: "c", create_target: true };
    server.accounts.eve = "x";
    await cluster.put("_replicator", "c", { ...missing, continuous: true });
    const sinceMs = world.time.nowMs;
    await world.time.run(world.time.nowMs + 20_000);
    const { logins, total } = await list();
    expect([logins.length, total]).toEqual([1, 1]);
    const [login] = logins;
    expect(login).toMatchObject({
      ...{ origin: "http://far.example", account: "jan", status: "refused", jobCount: 2 },
      words: "401 unauthorized: Name or password is incorrect.",
    });
    expect(login?.sinceMs).toBeGreaterThanOrEqual(sinceMs);
    expect(login?.untilMs).toBe((login?.sinceMs ?? 0) + 75_000);
    const entries = await Promise.all(["a", "c"].map((id) => cluster.document(id, () => true)));
    const [gate, none] = await world.until(replicator.logins.ofJobs(entries));
    expect([gate?.account, gate?.isRefused, gate?.untilMs]).toEqual(["jan", true, login?.untilMs]);
    expect(none).toBeUndefined();
    const record = JSON.stringify(login);
    for (const secret of ["wrong-password", RIGHT]) expect(record).not.toContain(secret);

    server.password = "wrong-password";
    await world.time.run(world.time.nowMs + 3_600_000);
    expect((await cluster.document("a", () => true)).data.state).toBe("completed");
    expect(await list()).toEqual({ logins: [], total: 0 });
    await cluster.stop();
  });

  test("jobs with different wrong passwords send too few logins to lock the account", async () => {
    const cluster = await openCluster(hasSessions);
    const { server, world } = cluster;
    for (let number = 0; number < 30; number++) {
      const job = { source: sourceWith(`wrong-${number}`), target: `t-${number}` };
      await cluster.put("_replicator", `wrong-${number}`, { ...job, create_target: true });
    }
    await world.time.run(world.time.nowMs + 1_200_000);
    expect(server.lockouts).toBe(0);
    expect(mostFailures(server.failures)).toBeLessThan(THRESHOLD);
    await cluster.stop();
  });

  test("a job logs in immediately after its password was replaced", async () => {
    const cluster = await openCluster(hasSessions);
    const { server, world, kv, replicator } = cluster;
    const job = { source: sourceWith("wrong-password"), target: "copy", create_target: true };
    await cluster.put("_replicator", "job", job);
    await world.time.run(world.time.nowMs + 60_000);
    expect(server.failures).toHaveLength(1);
    const auth = { basic: { username: "jan", password: RIGHT } };
    const replacement = parseReplacement({ host: "http://far.example/", username: "jan", auth });
    const { jobId: id } = await cluster.document("job", () => true);
    const { credentials } = replicator;
    const caller = { userName: "ops" };
    const { rootPath } = replacement;
    const entitlement = { caller, owner: undefined, rootPath, validPassword: undefined };
    const replacing = kv.transact(async (tx) => {
      await credentials.openGate(tx, replacement);
      return credentials.replace(tx, [id], replacement, caller, entitlement);
    });
    expect(await world.until(replacing)).toEqual(new Map([[id, "replaced"]]));
    await world.time.run(world.time.nowMs + 5_000);
    expect((await cluster.document("job", () => true)).data.state).toBe("completed");
    await cluster.stop();
  });

  test("running jobs keep their sessions while the server rejects the wrong password of another job", async () => {
    const cluster = await openCluster(hasSessions);
    const { server, world } = cluster;
    const lasting = { source: sourceWith(RIGHT), target: "copy", create_target: true };
    await cluster.put("_replicator", "lasting", { ...lasting, continuous: true });
    await world.time.run(world.time.nowMs + 10_000);
    const wrong = { source: sourceWith("wrong-password"), target: "other", create_target: true };
    await cluster.put("_replicator", "wrong", wrong);
    await world.time.run(world.time.nowMs + 900_000);
    const { data } = await cluster.document("lasting", () => true);
    expect([data.errorCount, data.failure]).toEqual([0, undefined]);
    expect(server.lockouts).toBe(0);
    await cluster.stop();
  });

  test("the server does not lock an account whose password changes while many jobs run", async () => {
    const cluster = await openCluster(hasSessions);
    const { server, world } = cluster;
    for (let number = 0; number < 20; number++) {
      const job = { source: sourceWith(RIGHT), target: `t-${number}`, create_target: true };
      await cluster.put("_replicator", `job-${number}`, { ...job, continuous: true });
    }
    await world.time.run(world.time.nowMs + 30_000);
    server.password = "another-password";
    await world.time.run(world.time.nowMs + 1_200_000);
    expect(mostFailures(server.failures)).toBeLessThan(THRESHOLD);
    expect(server.lockouts).toBe(0);
    await cluster.stop();
  });
});
