import { expect, test } from "vitest";
import { VirtualTime } from "../../test/simulation/kernel/virtual-time.ts";
import type { Clock } from "../base/index.ts";
import { get, openServer, type Reply } from "./fetch.fixture.ts";
import type { Fetch, FetchRequest } from "./fetch.ts";
import { withGrant } from "./middleware/with-grant.ts";
import { SharedGrant } from "./shared-grant.ts";
import {
  IAM_TOKEN_URL,
  iamRequest,
  type OAuthClient,
  oauthRequest,
  TokenLogin,
  type TokenRequest,
} from "./token-login.ts";

const TOKEN_URL = "https://idp.example/token?tenant=t";
const CLIENT: OAuthClient = { tokenUrl: TOKEN_URL, clientId: "c 1", clientSecret: "s+&é" };
const DATABASE = "https://couch.example/db/";

/** Creates a token endpoint and a database in virtual time. Tokens are `t1`, `t2`, … */
function open(
  answer: (count: number, request: FetchRequest) => Reply | undefined,
  request: () => TokenRequest = () => oauthRequest(CLIENT),
  ratio = 0,
) {
  const time = new VirtualTime();
  let count = 0;
  let validFrom = 1;
  const server = openServer((asked) => {
    if (asked.url !== DATABASE) {
      count++;
      const body = JSON.stringify({ access_token: `t${count}`, expires_in: 100 });
      return answer(count, asked) ?? { status: 200, body };
    }
    const token = Number(/^Bearer t(\d+)$/.exec(asked.headers?.authorization ?? "")?.[1]);
    return { status: token >= validFrom ? 200 : 401 };
  });
  const clock = clockOf(time);
  const random = { ratio: () => ratio } as never;
  const parts = { clock, random, fetch: server.fetch, connection: {}, userAgent: "Tandem" };
  const source = new TokenLogin(parts, TOKEN_URL, request);
  const fetch = withGrant(server.fetch, new SharedGrant({ clock }, source));
  return {
    time,
    server,
    source,
    ask: () => fetch(get(DATABASE)),
    revoke: () => {
      validFrom = count + 1;
    },
    tokenRequests: () => server.requests.filter(({ url }) => url !== DATABASE),
    lastToken: () => server.requests.at(-1)?.headers?.authorization,
  };
}

test.each([
  [
    "Basic, form-encoded before",
    CLIENT,
    undefined,
    `Basic ${btoa("c+1:s%2B%26%C3%A9")}`,
    "grant_type=client_credentials",
  ],
  [
    "in the form",
    { ...CLIENT, authMethod: "client_secret_post" as const, scope: "read write", audience: "a" },
    undefined,
    undefined,
    "grant_type=client_credentials&scope=read+write&audience=a&client_id=c+1&client_secret=s%2B%26%C3%A9",
  ],
  [
    "as an assertion",
    { tokenUrl: TOKEN_URL, clientId: "c", clientAssertion: "identity:a", resource: "r" },
    "e.y.J",
    undefined,
    "grant_type=client_credentials&resource=r&client_id=c&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=e.y.J",
  ],
])("a client proves its identity %s", async (_, client, assertion, authorization, body) => {
  const { ask, tokenRequests } = open(
    () => undefined,
    () => oauthRequest(client, assertion),
  );
  expect((await ask()).status).toBe(200);
  expect(tokenRequests()).toMatchObject([{ method: "POST", url: TOKEN_URL, body }]);
  expect(tokenRequests()[0]?.headers?.authorization).toBe(authorization);
});

test("an API key of IBM Cloud is exchanged for a token", async () => {
  const { ask, tokenRequests, lastToken } = open(
    () => undefined,
    () => iamRequest({ apiKey: "k/1", tokenUrl: IAM_TOKEN_URL }),
  );
  await ask();
  expect(tokenRequests()[0]?.body).toBe(
    "grant_type=urn%3Aibm%3Aparams%3Aoauth%3Agrant-type%3Aapikey&apikey=k%2F1",
  );
  expect(lastToken()).toBe("Bearer t1");
});

test.each([
  [0, 70],
  [0.999, 79.9],
])("a token is renewed before it expires, at a random time (%d)", async (ratio, renewSec) => {
  const { ask, time, lastToken } = open(() => undefined, undefined, ratio);
  await Promise.all(Array.from({ length: 50 }, ask));
  await time.run((renewSec - 0.1) * 1000);
  await ask();
  expect(lastToken()).toBe("Bearer t1");
  await time.run((renewSec + 0.1) * 1000);
  await Promise.all(Array.from({ length: 50 }, ask));
  expect(lastToken()).toBe("Bearer t2");
});

test("many requests obtain one token", async () => {
  const { ask, tokenRequests } = open(() => undefined);
  const answers = await Promise.all(Array.from({ length: 50 }, ask));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(tokenRequests()).toHaveLength(1);
});

test("a revoked token is replaced once, and the request is repeated", async () => {
  const { ask, time, revoke, tokenRequests } = open(() => undefined);
  await ask();
  await time.run(6000);
  revoke();
  expect((await Promise.all([ask(), ask()])).map(({ status }) => status)).toEqual([200, 200]);
  expect(tokenRequests()).toHaveLength(2);
  revoke();
  expect((await ask()).status).toBe(401);
  expect(tokenRequests()).toHaveLength(2);
});

test("a failing token endpoint is asked again after growing pauses, and its error is reported", async () => {
  const { ask, time, tokenRequests } = open(
    () => ({ status: 503, body: "down s+&é" }),
    undefined,
    1,
  );
  const failure = {
    details: {
      method: "POST",
      url: "https://idp.example/token",
      cause: "HTTP_503",
      text: "down *****",
    },
  };
  for (let at = 0; at < 600_000; at += 250) {
    await time.run(at);
    await expect(ask()).rejects.toMatchObject(failure);
  }
  // Within the ten minutes, the pauses are 5 s (the minimum), 8 s and 16 s, and then always 30 s.
  expect(tokenRequests().length).toBeGreaterThan(20);
  expect(tokenRequests().length).toBeLessThan(25);
});

test("a valid token is used until it expires while its token endpoint fails or refuses", async () => {
  const { ask, time, tokenRequests, lastToken } = open((count) => {
    if (count === 1) return undefined;
    return count % 2 === 0 ? { status: 500 } : { status: 400, body: '{"error":"invalid_client"}' };
  });
  await ask();
  await time.run(72_000);
  for (let at = 72_000; at < 100_000; at += 1000) {
    await time.run(at);
    expect((await ask()).status).toBe(200);
    expect(lastToken()).toBe("Bearer t1");
  }
  expect(tokenRequests().length).toBeGreaterThan(3);
  expect(tokenRequests().length).toBeLessThan(8);
});

test("a refused client is reported as a 401 with the endpoint's message but without the secret", async () => {
  const body = '{"error":"invalid_client","error_description":"unknown secret s+&é"}';
  const { source } = open(() => ({ status: 400, body }));
  const reason =
    "the token endpoint https://idp.example/token responded with 400: unknown secret *****";
  expect(await source.obtain()).toEqual({
    kind: "refused",
    status: 401,
    text: JSON.stringify({ error: "invalid_client", reason }),
  });
});

const ok = (members: object | string): Reply => ({
  status: 200,
  body: typeof members === "string" ? members : JSON.stringify({ access_token: "tok", ...members }),
});

test.each([
  [ok(`{"access_token":"${"x".repeat(70_000)}"}`), "it is longer than 65536 bytes"],
  [ok("<html>"), "it is not a JSON object"],
  [ok("[]"), "it is not a JSON object"],
  [ok(`${"[".repeat(60_000)}`), "it is not a JSON object"],
  [ok({ access_token: 7 }), "`access_token` is not a string"],
  [ok({ access_token: undefined }), "`access_token` is not a string"],
  [ok({ access_token: "" }), "`access_token` is empty or has characters outside printable ASCII"],
  [
    ok({ access_token: "a\r\nx-admin: 1" }),
    "`access_token` is empty or has characters outside printable ASCII",
  ],
  [ok({ access_token: "x".repeat(20_000) }), "`access_token` has more than 16384 characters"],
  [ok({ token_type: "mac" }), '`token_type` is "mac"; expected Bearer'],
  [ok({ token_type: null }), "`token_type` is null; expected Bearer"],
  [ok({ expires_in: 0 }), "`expires_in` is 0; expected a number of seconds above 0"],
  [ok({ expires_in: -5 }), "`expires_in` is -5; expected a number of seconds above 0"],
  [ok({ expires_in: "0" }), '`expires_in` is "0"; expected a number of seconds above 0'],
  [ok({ expires_in: "1e9" }), '`expires_in` is "1e9"; expected a number of seconds above 0'],
  [ok({ expires_in: {} }), "`expires_in` is {}; expected a number of seconds above 0"],
])(
  "a response without a usable token fails the login, naming the fault (%#)",
  async (reply, text) => {
    const { source } = open(() => reply);
    await expect(source.obtain()).rejects.toMatchObject({
      details: { url: "https://idp.example/token", cause: "TOKEN_UNUSABLE", text },
    });
  },
);

test.each([
  ["", 300],
  [',"expires_in":"3599","token_type":"bearer"', 3599],
  [',"expires_in":1e999,"token_type":"BEARER"', 86_400],
  [',"expires_in":1e300', 86_400],
  [',"expires_in":0.001', 1],
])("the lifetime of %j is bounded", async (members, lifeSec) => {
  const { source } = open(() => ok(`{"access_token":"tok"${members}}`));
  expect(await source.obtain()).toMatchObject({
    kind: "granted",
    grant: { renewAtMs: expect.closeTo(lifeSec * 700), endsAtMs: lifeSec * 1000 },
  });
});

test("a redirect of the token endpoint is not followed", async () => {
  const { source, tokenRequests } = open(() => ({
    status: 307,
    headers: { location: "https://evil.example/" },
  }));
  await expect(source.obtain()).rejects.toMatchObject({ details: { cause: "HTTP_307" } });
  expect(tokenRequests()).toHaveLength(1);
});

test("a token request whose response never ends fails after 30 s", async () => {
  const time = new VirtualTime();
  const clock = clockOf(time);
  const fetch: Fetch = async ({ signal }) => ({
    status: 200,
    headers: new Map(),
    body: (async function* () {
      for (;;) {
        await clock.sleep(1000, signal);
        yield new Uint8Array(1);
      }
    })(),
    discard: () => {},
  });
  const parts = { clock, random: {} as never, fetch, connection: {}, userAgent: "Tandem" };
  const login = new TokenLogin(parts, TOKEN_URL, () => oauthRequest(CLIENT));
  const failed = login.obtain().catch((error: unknown) => error);
  await time.run(31_000);
  expect(await failed).toMatchObject({ details: { cause: "REQUEST_TIMEOUT" } });
});

test("the token endpoint never sees the client certificate of the endpoint", async () => {
  const server = openServer(() => ok({}));
  const tls = {
    verify: true,
    trustedCertificatesFile: "/ca",
    certificateFile: "/c",
    keyFile: "/k",
  };
  const parts = { clock: clockOf(new VirtualTime()), random: { ratio: () => 0 } as never };
  const source = new TokenLogin(
    { ...parts, fetch: server.fetch, connection: { tls }, userAgent: "Tandem" },
    TOKEN_URL,
    () => oauthRequest(CLIENT),
  );
  await source.obtain();
  expect(server.requests[0]?.connection).toEqual({
    tls: { verify: true, trustedCertificatesFile: "/ca" },
  });
});

function clockOf(time: VirtualTime): Clock {
  return {
    nowMs: () => time.nowMs,
    monotonicMs: () => time.nowMs,
    sleep: (durationMs, signal) => time.sleep(durationMs, signal),
  };
}
