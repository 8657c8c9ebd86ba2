/** A node that receives more concurrent requests than it accepts. */
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { json } from "../../src/api/http/responses.ts";
import { defineRoute, MEMBER, sessionRoutes, type User } from "../../src/api/index.ts";
import { type Deferred, deferred } from "../support/deferred.ts";
import { ADMIN, type Answer, openFilms, SETTINGS } from "./api.fixture.ts";

const refused = { error: "service_unavailable", reason: "Too many requests in progress" };

/** Opens an API with a resource `/films/_held/N`, whose responses the test releases. */
async function openHeld(limits: { requestsMax: number; waitingRequestsMax: number }) {
  const answers: Deferred<void>[] = [];
  const held = defineRoute("GET", "/{database}/_held/{number}", MEMBER, async () => {
    const answer = deferred<void>();
    answers.push(answer);
    await answer.promise;
    return json(200, {});
  });
  const api = await openFilms({ parts: { settings: { ...SETTINGS, ...limits }, routes: [held] } });
  return {
    ...api,
    /** Responses to the held requests, in order of the requests' arrival. */
    answers,
    hold: (signal?: AbortSignal): Promise<Answer> =>
      api.ask("GET /films/_held/1", signal === undefined ? {} : { signal }),
  };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("an overloaded node", () => {
  test("queues a limited number of requests, and refuses further requests with 503 and Retry-After", async () => {
    const { ask, hold, answers } = await openHeld({ requestsMax: 1, waitingRequestsMax: 1 });
    const first = hold();
    const second = hold();
    const third = await ask("GET /films");
    expect(third).toMatchObject({ status: 503, json: refused, headers: { "Retry-After": "1" } });
    await settled();
    expect(answers).toHaveLength(1);
    answers[0]?.resolve();
    expect((await first).status).toBe(200);
    await settled();
    expect(answers).toHaveLength(2);
    answers[1]?.resolve();
    expect((await second).status).toBe(200);
    expect((await ask("GET /films")).status).toBe(200);
  });

  test("still answers /_up and serves live feeds", async () => {
    const { ask, hold, answers, stream } = await openHeld({
      requestsMax: 1,
      waitingRequestsMax: 0,
    });
    const first = hold();
    await settled();
    expect((await ask("GET /_up")).status).toBe(200);
    expect((await ask("GET /_all_dbs")).status).toBe(503);
    expect((await ask("GET /films/_changes")).status).toBe(503);
    const feed = await stream("GET /films/_changes?feed=continuous&timeout=1");
    expect((await feed.next()).done).toBe(false);
    await feed.return?.();
    answers[0]?.resolve();
    expect((await first).status).toBe(200);
  });

  test("gives a disconnected client's place in the queue to the next request", async () => {
    const { hold, answers } = await openHeld({ requestsMax: 1, waitingRequestsMax: 1 });
    const first = hold();
    const leaving = new AbortController();
    const second = hold(leaving.signal);
    await settled();
    expect(answers).toHaveLength(1);
    leaving.abort(new Error("The client has disconnected"));
    await second;
    const third = hold();
    await settled();
    answers[0]?.resolve();
    expect((await first).status).toBe(200);
    await settled();
    expect(answers).toHaveLength(2);
    answers[1]?.resolve();
    expect((await third).status).toBe(200);
  });

  test("accepts other requests while a client does not read its response", async () => {
    const { ask, stream } = await openHeld({ requestsMax: 1, waitingRequestsMax: 0 });
    const docs = Array.from({ length: 3_000 }, (_, number) => ({ _id: `film-${number}` }));
    expect((await ask("POST /films/_bulk_docs", { body: { docs } })).status).toBe(201);
    const unread = await stream("GET /films/_all_docs");
    await unread.next();
    expect((await ask("GET /films")).status).toBe(200);
    await unread.return?.();
    expect((await ask("GET /films")).status).toBe(200);
  });

  test("counts a body's decompressed size against the memory limit until the response is sent", async () => {
    const MIB = 1_048_576;
    const limits = { bodyMemoryBytesMax: MIB };
    const { ask } = await openFilms({ parts: { settings: { ...SETTINGS, ...limits } } });
    const text = `{"docs":[{"text":"${"x".repeat(2 * MIB)}"}]}`;
    const headers = { "Content-Type": "application/json", "Content-Encoding": "gzip" };
    const asks = [1, 2, 3].map(() =>
      ask("POST /films/_bulk_docs", { body: gzipSync(text), headers }),
    );
    expect((await Promise.all(asks)).map(({ status }) => status)).toEqual([201, 201, 201]);
    expect((await ask("POST /films/_bulk_docs", { body: gzipSync(text), headers })).status).toBe(
      201,
    );
  });

  test("reserves connections for server administrators", async () => {
    const crowded = { method: "GET", path: "/films", query: new Map(), headers: new Map() };
    const rest = { peer: "", isSecure: false, isReserved: true, body: (async function* () {})() };
    const signal = new AbortController().signal;
    const statusFor = async (user: User): Promise<number> => {
      const { api } = await openFilms({ user });
      return (await api({ ...crowded, ...rest, signal })).status;
    };
    expect(await statusFor(ADMIN)).toBe(200);
    expect(await statusFor({ name: "joe", roles: [], isAdmin: false })).toBe(503);
  });

  test("lets an administrator log in on a reserved connection, but limits the number of concurrent logins", async () => {
    const logins: Deferred<void>[] = [];
    const authority = {
      handlers: ["cookie"],
      logIn: async () => {
        const login = deferred<void>();
        logins.push(login);
        await login.promise;
        return { roles: ["_admin"], cookie: "AuthSession=x" };
      },
      clearedCookie: () => "AuthSession=",
    };
    // The node processes one request at a time, and refuses others instead of queueing them.
    const limits = { requestsMax: 1, waitingRequestsMax: 0 };
    const stranger: User = { name: null, roles: [], isAdmin: false };
    let user = stranger;
    const { api } = await openFilms({
      parts: {
        settings: { ...SETTINGS, ...limits },
        routes: sessionRoutes(authority),
        authenticate: async () => user,
      },
    });
    const send = async (method: string, path: string, isReserved = true): Promise<number> => {
      const headers = new Map([["content-type", "application/json"]]);
      const credentials = Buffer.from('{"name":"anna","password":"secret"}');
      const body = (async function* () {
        yield credentials;
      })();
      const signal = new AbortController().signal;
      const rest = { query: new Map(), headers, peer: "", isSecure: false, isReserved, signal };
      return (await api({ method, path, body, ...rest })).status;
    };
    user = ADMIN;
    expect(await send("PUT", "/films")).toBe(201);
    user = stranger;
    const others = send("POST", "/_session", false);
    const first = Array.from({ length: 8 }, () => send("POST", "/_session"));
    while (logins.length < 9) await settled();
    for (const path of ["/_session", "/films", "/_session/"]) {
      expect(await send("POST", path)).toBe(503);
    }
    expect(await send("GET", "/_session")).toBe(503);
    user = ADMIN;
    expect(await send("GET", "/films")).toBe(200);
    user = stranger;
    for (const login of logins) login.resolve();
    expect(await Promise.all([others, ...first])).toEqual(Array(9).fill(200));
    const next = send("POST", "/_session");
    while (logins.length < 10) await settled();
    logins.at(-1)?.resolve();
    expect(await next).toBe(200);
  });
});
