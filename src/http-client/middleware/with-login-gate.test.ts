import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import type { Digests } from "../../base/index.ts";
import { openClock, openServer, type Reply } from "../fetch.fixture.ts";
import type { Fetch, FetchRequest } from "../fetch.ts";
import { readText } from "../fetch.ts";
import { MemoryLoginGates } from "../memory-login-gates.ts";
import { withLoginGate } from "./with-login-gate.ts";

const digests = {
  sha1Hex: (bytes: Uint8Array) => createHash("sha1").update(bytes).digest("hex"),
} as Digests;
const WRONG = '{"error":"unauthorized","reason":"Name or password is incorrect."}';
const LOCKED =
  '{"error":"forbidden","reason":"Account is temporarily locked due to multiple authentication failures"}';

function request(more: Partial<FetchRequest>): FetchRequest {
  const { signal } = new AbortController();
  return { method: "GET", url: "http://a/db", inactivityTimeoutMs: 1, signal, ...more };
}
const basic = (user: string, password: string, url = "http://a/db"): FetchRequest =>
  request({ url, headers: { authorization: `Basic ${btoa(`${user}:${password}`)}` } });
const form = (body: string, url = "http://a/_session"): FetchRequest =>
  request({
    url,
    method: "POST",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body,
  });

const clientBasic = (pair: string) => ({
  "content-type": "application/x-www-form-urlencoded",
  authorization: `Basic ${btoa(pair)}`,
});

function open(answer: (request: FetchRequest) => Reply) {
  const clock = openClock();
  const server = openServer(answer);
  let count = 0;
  const random = { bytes: (length: number) => new Uint8Array(length).fill(count++) };
  const gates = new MemoryLoginGates({ clock, random: random as never });
  const fetch: Fetch = withLoginGate(server.fetch, { digests, gates });
  return { fetch, clock, requests: server.requests };
}

test.each([
  ["a password", basic("jan", "x"), basic("jan", "y"), 401, WRONG],
  ["a session", form("name=jan&password=x"), form("name=jan&password=y"), 401, WRONG],
  ["a forbidden session", form("name=jan&password=x"), form("name=jan&password=y"), 403, ""],
  ["a locked account", basic("jan", "x"), basic("jan", "y"), 403, LOCKED],
  ["a key", form("apikey=x", "http://t/token"), form("apikey=x", "http://t/token"), 400, "{}"],
  [
    "a client secret",
    form("client_id=c&client_secret=x", "http://t/token"),
    form("client_id=c&client_secret=x", "http://t/token"),
    401,
    "{}",
  ],
  [
    "a client secret in Basic",
    { ...form("grant_type=g", "http://t/token"), headers: clientBasic("a+b:x%2B") },
    form("client_id=a%20b&client_secret=y", "http://t/token"),
    400,
    "{}",
  ],
  [
    "a client assertion",
    form("client_id=c&client_assertion=x", "http://t/token"),
    form("client_id=c&client_assertion=y", "http://t/token"),
    401,
    "{}",
  ],
])("%s that is refused closes the gate of its account", async (_, first, second, status, body) => {
  const { fetch, requests, clock } = open(() => ({ status, body }));
  expect(await readText(await fetch(first))).toBe(body);
  await expect(fetch(first)).rejects.toMatchObject({ code: "HTTP_LOGIN_GATED" });
  await expect(fetch(second)).rejects.toMatchObject({ code: "HTTP_LOGIN_GATED" });
  expect(requests).toHaveLength(1);
  clock.move(75_000);
  await fetch(first);
  expect(requests).toHaveLength(2);
});

test.each([
  ["another account", basic("sue", "x")],
  ["another server", basic("jan", "x", "http://b/db")],
  ["another port", basic("jan", "x", "http://a:8080/db")],
  ["a valid session", request({ headers: { cookie: "AuthSession=x" } })],
  ["a token", request({ headers: { authorization: "Bearer x" } })],
  ["no credentials", request({})],
])("a request with %s passes a closed gate", async (_, other) => {
  const { fetch, requests } = open(() => ({ status: 401, body: WRONG }));
  await fetch(basic("jan", "x"));
  await fetch(other);
  expect(requests).toHaveLength(2);
});

test("a request without permission is not a failed login", async () => {
  const { fetch, requests } = open(() => ({ status: 403, body: '{"error":"forbidden"}' }));
  await fetch(basic("jan", "x"));
  await fetch(basic("jan", "x"));
  expect(requests).toHaveLength(2);
});

test("a session that a server rejects without checking a password is not a failed login", async () => {
  const { fetch, requests } = open(() => ({
    status: 401,
    headers: { "www-authenticate": "Basic" },
    body: '{"error":"unauthorized","reason":"Authentication required."}',
  }));
  await fetch(form("name=jan&password=x"));
  await fetch(form("name=jan&password=x"));
  expect(requests).toHaveLength(2);
});

test("concurrent requests with an unproven password count as one attempt", async () => {
  const { fetch, requests } = open(() => ({ status: 401, body: WRONG }));
  const asked = Array.from({ length: 20 }, () => fetch(basic("jan", "x")));
  const outcomes = await Promise.allSettled(asked);
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  expect(requests).toHaveLength(1);
});

test("an accepted password passes without delay until the server refuses it", async () => {
  let status = 200;
  const { fetch, requests } = open(() => ({ status, body: status === 200 ? "{}" : WRONG }));
  await fetch(basic("jan", "x"));
  await Promise.all([1, 2, 3].map(() => fetch(basic("jan", "x"))));
  status = 401;
  await fetch(basic("jan", "x"));
  await expect(fetch(basic("jan", "x"))).rejects.toMatchObject({ code: "HTTP_LOGIN_GATED" });
  expect(requests).toHaveLength(5);
});
