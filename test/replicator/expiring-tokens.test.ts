/**
 * Continuous jobs in virtual time, whose tokens expire or are revoked at random, and whose token
 * endpoint fails at random. No document is lost, and the endpoint is never flooded.
 */
import { expect, test } from "vitest";
import {
  type FetchRequest,
  type FetchResponse,
  RequestFailedError,
} from "../../src/http-client/index.ts";
import { World } from "../simulation/kernel/world.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const TOKEN_URL = "https://idp.example/token";
const JOBS = 4;
const MINUTE_MS = 60_000;
/** Pause after a failed request: `session_min_update_interval`. */
const PAUSE_MS_MIN = 5000;

/** A server with one database per job. Each database gets a document per minute. */
function openWorld(seed: string) {
  const world = new World(seed);
  const random = world.random.fork("servers");
  const tokens = new Map<string, number>();
  const locals = new Map<string, unknown>();
  let failedMs: number | undefined;
  const state = {
    world,
    /** Whether the token endpoint fails at random. */
    isFailing: true,
    documentCount: 1,
    tokenCount: 0,
    /** Times between a failed token request and the next one. */
    pausesMs: [] as number[],
    concurrency: 0,
    concurrencyMax: 0,
    rejectedCount: 0,
    revoke: () => tokens.clear(),
    fetch,
  };

  async function fetch(request: FetchRequest): Promise<FetchResponse> {
    await world.time.sleep(random.between(1, 50), request.signal);
    return request.url === TOKEN_URL ? token(request) : database(request);
  }

  async function token({ method, url, signal }: FetchRequest): Promise<FetchResponse> {
    state.tokenCount++;
    if (failedMs !== undefined) state.pausesMs.push(world.time.nowMs - failedMs);
    failedMs = undefined;
    state.concurrencyMax = Math.max(state.concurrencyMax, ++state.concurrency);
    let isGranted = false;
    try {
      const lot = state.isFailing ? random.ratio() : 1;
      if (lot < 0.15) return answer(503, { error: "temporarily_unavailable" });
      if (lot < 0.2) throw new RequestFailedError({ method, url, cause: "ECONNREFUSED" });
      if (lot < 0.25) await world.time.sleep(600_000, signal);
      if (lot < 0.3) return answer(200, { access_token: "a\nb", expires_in: 600 });
      if (lot < 0.35) return answer(200, { access_token: "t", expires_in: 0 });
      if (lot < 0.4) return answer(429, { error: "slow_down" });
      const lifeSec = random.between(5, 300);
      isGranted = true;
      const name = `t${state.tokenCount}`;
      // Some tokens expire earlier than the response states.
      const isShort = state.isFailing && random.chance(0.2);
      tokens.set(name, world.time.nowMs + lifeSec * (isShort ? 300 : 1000));
      return answer(200, { access_token: name, token_type: "Bearer", expires_in: lifeSec });
    } finally {
      state.concurrency--;
      if (!isGranted) failedMs = world.time.nowMs;
    }
  }

  async function database(request: FetchRequest): Promise<FetchResponse> {
    const { url, method, headers = {}, body, signal } = request;
    const { pathname, searchParams } = new URL(url);
    if ((tokens.get(headers.authorization?.slice(7) ?? "") ?? 0) <= world.time.nowMs) {
      state.rejectedCount++;
      return answer(401, { error: "unauthorized", reason: "token expired" });
    }
    const [, name = "", place = ""] = /^\/([^/]+)\/(.*)$/.exec(pathname) ?? [];
    if (place === "_changes") return changes(searchParams, signal);
    if (place === "_bulk_get") return answer(200, { results: rows(String(body)) });
    if (place.startsWith("_local/")) {
      if (method === "PUT") locals.set(pathname, JSON.parse(textOf(body)));
      const stored = locals.get(pathname);
      if (stored === undefined) return answer(404, { error: "not_found", reason: "missing" });
      return method === "PUT"
        ? answer(201, { ok: true, id: place, rev: "0-1" })
        : answer(200, { ...stored, _rev: "0-1" });
    }
    if (place !== "") return answer(404, { error: "not_found", reason: "missing" });
    return answer(200, { db_name: name, update_seq: state.documentCount, doc_count: 0 });
  }

  async function changes(query: URLSearchParams, signal: AbortSignal): Promise<FetchResponse> {
    const since = Number(JSON.parse(query.get("since") ?? "0"));
    if (query.get("feed") === "longpoll") {
      for (let count = 0; count < 4 && since >= state.documentCount; count++) {
        await world.time.sleep(5000, signal);
      }
    }
    const numbers = Array.from({ length: state.documentCount }, (_, at) => at + 1);
    const results = numbers
      .filter((number) => number > since)
      .map((seq) => ({ seq, id: `film-${seq}`, changes: [{ rev: REVISION }] }));
    return answer(200, { results, last_seq: Math.max(since, state.documentCount), pending: 0 });
  }
  return state;
}

const REVISION = `1-${"a".repeat(32)}`;

function rows(body: string): object[] {
  const { docs } = JSON.parse(body) as { docs: { id: string }[] };
  return docs.map(({ id }) => {
    const ok = { _id: id, _rev: REVISION, _revisions: { start: 1, ids: ["a".repeat(32)] } };
    return { id, docs: [{ ok }] };
  });
}

function textOf(body: FetchRequest["body"]): string {
  return body instanceof Uint8Array ? new TextDecoder().decode(body) : String(body);
}

function answer(status: number, json: object): FetchResponse {
  const body = (async function* () {
    yield new TextEncoder().encode(JSON.stringify(json));
  })();
  const headers = new Map([["content-type", "application/json"]]);
  return { status, headers, body, discard: () => {} };
}

test.each(["tokens-1", "tokens-2"])(
  "all documents arrive although tokens expire and their endpoint fails at random: %s",
  async (seed) => {
    const servers = openWorld(seed);
    const { world } = servers;
    const node = openVirtualNode({ world, fetch: servers.fetch, config: { penaltySecMax: 60 } });
    await node.start();
    await node.createDatabase("_replicator");
    const oauth2 = { token_url: TOKEN_URL, client_id: "c", client_secret: "s" };
    for (let number = 0; number < JOBS; number++) {
      const source = { url: `https://far.example/db-${number}`, auth: { oauth2 } };
      const job = { source, target: `copy-${number}`, create_target: true, continuous: true };
      await node.put("_replicator", `job-${number}`, job);
    }
    for (let minute = 0; minute < 40; minute++) {
      servers.documentCount++;
      if (minute % 7 === 6) servers.revoke();
      await world.time.run(world.time.nowMs + MINUTE_MS);
    }
    servers.isFailing = false;
    servers.revoke();
    await world.time.run(world.time.nowMs + 10 * MINUTE_MS);
    servers.rejectedCount = 0;
    const before = servers.tokenCount;
    await world.time.run(world.time.nowMs + 15 * MINUTE_MS);

    const counts = await world.until(
      node.kv.read((tx) =>
        Promise.all(
          Array.from({ length: JOBS }, async (_, number) => {
            const database = await node.databases.open(tx, `copy-${number}`);
            return (await database.info(tx)).documentCount;
          }),
        ),
      ),
    );
    expect(counts).toEqual(counts.map(() => servers.documentCount));
    expect(servers.concurrencyMax).toBe(1);
    // Tokens are renewed in time: none is rejected while the endpoint works.
    expect(servers.rejectedCount).toBe(0);
    expect(servers.tokenCount).toBeGreaterThan(before);
    for (let number = 0; number < JOBS; number++) {
      const { state, data } = await node.document(`job-${number}`, () => true);
      expect([state, data.errorCount]).toEqual(["running", 0]);
    }
    expect(servers.pausesMs.length).toBeGreaterThan(5);
    expect(Math.min(...servers.pausesMs)).toBeGreaterThanOrEqual(PAUSE_MS_MIN);
    await node.stop();
  },
);
