import { expect, test } from "vitest";
import { get, openClock, openServer, type Reply } from "../fetch.fixture.ts";
import { RequestFailedError } from "../fetch.ts";
import { SessionLogin } from "../session-login.ts";
import { SharedGrant } from "../shared-grant.ts";
import { withGrant } from "./with-grant.ts";

const CREDENTIALS = { username: "Jan", password: "apple & pear" };
const ORIGIN = "http://host:5984";
const URL_OF_DATABASE = `${ORIGIN}/db/`;

/** Creates a CouchDB server with a session lifetime chosen by the test. */
function openCouch(
  attributes = "; Version=1; Path=/; HttpOnly",
  login: () => Reply | undefined = () => undefined,
) {
  let epoch = 0;
  let valid: string | undefined;
  const server = openServer(({ url, headers = {} }) => {
    if (url.endsWith("/_session")) {
      const other = login();
      if (other !== undefined) return other;
      valid = `AuthSession=c${++epoch}`;
      return { status: 200, headers: { "set-cookie": valid + attributes }, body: '{"ok":true}' };
    }
    const isIn = headers.cookie === valid || headers.authorization !== undefined;
    return { status: isIn ? 200 : 401 };
  });
  return {
    ...server,
    expire: () => {
      valid = undefined;
    },
    logins: () => server.requests.filter(({ url }) => url.endsWith("/_session")),
  };
}

function openUser(couch: ReturnType<typeof openCouch>, clock = openClock()) {
  const parts = { clock, fetch: couch.fetch, connection: {}, userAgent: "Tandem" };
  const source = new SessionLogin(parts, ORIGIN, CREDENTIALS);
  const shared = new SharedGrant({ clock }, source);
  return { clock, shared, fetch: withGrant(couch.fetch, shared) };
}

test.each([429, 503])(
  "a login answered with %i fails with the words of the response, but without the password",
  async (status) => {
    const body = "in maintenance; tried apple & pear";
    const { fetch } = openUser(openCouch("", () => ({ status, body })));
    await expect(fetch(get(URL_OF_DATABASE))).rejects.toMatchObject({
      details: { cause: `HTTP_${status}`, text: "in maintenance; tried *****" },
    });
  },
);

test("many requests of a user cause one login, with a form, at the server's root", async () => {
  const couch = openCouch();
  const { fetch } = openUser(couch);
  const answers = await Promise.all(Array.from({ length: 50 }, () => fetch(get(URL_OF_DATABASE))));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(couch.logins()).toHaveLength(1);
  expect(couch.logins()[0]).toMatchObject({
    method: "POST",
    url: "http://host:5984/_session",
    body: "name=Jan&password=apple%20%26%20pear",
    headers: { "user-agent": "Tandem" },
  });
  expect(couch.requests.at(-1)?.headers).toEqual({ cookie: "AuthSession=c1" });
});

test.each([
  ["; Max-Age=100; Path=/", 89_000, 91_000],
  ["; Max-Age=100x; Path=/", 549_000, 551_000],
  ["; Path=/, Other=1; Max-Age=10", 549_000, 551_000],
  ["; Expires=Sat, 21 Nov 2026 10:00:00 GMT; Max-Age=100", 89_000, 91_000],
])(
  "a cookie with %s is used until shortly before it expires",
  async (attributes, before, after) => {
    const couch = openCouch(attributes);
    const { fetch, clock } = openUser(couch);
    await fetch(get(URL_OF_DATABASE));
    clock.move(before);
    await fetch(get(URL_OF_DATABASE));
    expect(couch.logins()).toHaveLength(1);
    clock.move(after - before);
    await fetch(get(URL_OF_DATABASE));
    expect(couch.logins()).toHaveLength(2);
  },
);

test("if the server has forgotten a session, a new session is opened and the request is repeated", async () => {
  const couch = openCouch();
  const { fetch, clock } = openUser(couch);
  await fetch(get(URL_OF_DATABASE));
  clock.move(6000);
  couch.expire();
  const answers = await Promise.all([fetch(get(URL_OF_DATABASE)), fetch(get(URL_OF_DATABASE))]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  expect(couch.logins()).toHaveLength(2);
});

test("a user without permission does not log in repeatedly", async () => {
  const couch = openCouch();
  const { fetch } = openUser(couch);
  await fetch(get(URL_OF_DATABASE));
  couch.expire();
  expect((await fetch(get(URL_OF_DATABASE))).status).toBe(401);
  expect(couch.logins()).toHaveLength(1);
});

test("a one-time body is not sent twice; the next request uses a new session", async () => {
  const couch = openCouch();
  const { fetch, clock } = openUser(couch);
  await fetch(get(URL_OF_DATABASE));
  clock.move(6000);
  couch.expire();
  const body = { length: 0, async *stream() {} };
  expect((await fetch({ ...get(URL_OF_DATABASE), method: "PUT", body })).status).toBe(401);
  expect((await fetch(get(URL_OF_DATABASE))).status).toBe(200);
  expect(couch.logins()).toHaveLength(2);
});

test("a session cookie in a response replaces the current session", async () => {
  const server = openServer(({ url }) =>
    url.endsWith("/_session")
      ? { status: 200, headers: { "set-cookie": "AuthSession=first; Path=/" } }
      : { status: 200, headers: { "set-cookie": "X=1; Path=/, authsession=second; Path=/" } },
  );
  const { fetch } = openUser({ ...openCouch(), ...server });
  await fetch(get(URL_OF_DATABASE));
  await fetch(get(URL_OF_DATABASE));
  expect(server.requests.at(-1)?.headers).toEqual({ cookie: "AuthSession=second" });
});

test.each([[404], [405], [500], [200]])(
  "if a server answers a login with %i, each request sends the password",
  async (status) => {
    const couch = openCouch("", () => ({ status }));
    const { fetch } = openUser(couch);
    expect((await fetch(get(URL_OF_DATABASE))).status).toBe(200);
    expect((await fetch(get(URL_OF_DATABASE))).status).toBe(200);
    expect(couch.logins()).toHaveLength(1);
    const authorization = `Basic ${btoa("Jan:apple & pear")}`;
    expect(couch.requests.at(-1)?.headers).toEqual({ authorization });
  },
);

test("the login request has a User-Agent header", async () => {
  const headers = { "www-authenticate": 'Basic realm="server"' };
  const server = openServer(({ headers: sent = {} }) => {
    if (sent.cookie !== undefined) return { status: 200 };
    if (sent.authorization === undefined) return { status: 401, headers };
    return { status: 200, headers: { "set-cookie": "AuthSession=x" } };
  });
  const { fetch } = openUser({ ...openCouch(), ...server });
  expect((await fetch(get(URL_OF_DATABASE))).status).toBe(200);
});

test("with wrong credentials, the request returns the 401 of the login", async () => {
  const couch = openCouch("", () => ({ status: 401 }));
  const { fetch } = openUser(couch);
  expect((await fetch(get(URL_OF_DATABASE))).status).toBe(401);
  expect(couch.requests).toHaveLength(1);
});

test("a failed login fails the request, and reveals no secret", async () => {
  const couch = openCouch("", () => ({ status: 503 }));
  const { fetch } = openUser(couch);
  const error = await fetch(get(URL_OF_DATABASE)).catch((failure: unknown) => failure);
  expect(error).toBeInstanceOf(RequestFailedError);
  expect(JSON.stringify((error as RequestFailedError).details)).not.toContain("apple");
});

test("a session that cannot be renewed is used until it expires", async () => {
  let isDown = false;
  const couch = openCouch("; Max-Age=100", () => (isDown ? { status: 503 } : undefined));
  const { fetch, clock } = openUser(couch);
  await fetch(get(URL_OF_DATABASE));
  isDown = true;
  clock.move(95_000);
  expect((await fetch(get(URL_OF_DATABASE))).status).toBe(200);
  clock.move(10_000);
  await expect(fetch(get(URL_OF_DATABASE))).rejects.toBeInstanceOf(RequestFailedError);
});

test("t_do_refresh_without_max_age, session_min_update_interval: both times are configurable", async () => {
  const couch = openCouch();
  const clock = openClock();
  const settings = { sessionRenewalSec: 60, grantAgeSecMin: 1 };
  const parts = { clock, fetch: couch.fetch, connection: {}, userAgent: "Tandem", settings };
  const source = new SessionLogin(parts, ORIGIN, CREDENTIALS);
  const fetch = withGrant(couch.fetch, new SharedGrant({ clock }, source, settings));
  await fetch(get(URL_OF_DATABASE));
  clock.move(59_000);
  await fetch(get(URL_OF_DATABASE));
  expect(couch.logins()).toHaveLength(1);
  clock.move(1000);
  await fetch(get(URL_OF_DATABASE));
  expect(couch.logins()).toHaveLength(2);
  clock.move(1000);
  couch.expire();
  expect((await fetch(get(URL_OF_DATABASE))).status).toBe(200);
  expect(couch.logins()).toHaveLength(3);
});
