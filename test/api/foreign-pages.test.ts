/** Cross-site requests sent by browsers. */
import { expect, test } from "vitest";
import type { CorsSettings, SessionAuthority, User } from "../../src/api/index.ts";
import { sessionRoutes } from "../../src/api/index.ts";
import { ADMIN, openApi, openFilms } from "./api.fixture.ts";

const SITE = "https://app.example";
const FOREIGN = { Origin: "https://evil.example" };
const CORS: CorsSettings = {
  origins: [SITE],
  credentials: true,
  methods: ["GET", "POST", "PUT"],
  headers: [],
  exposedHeaders: [],
  maxAgeSec: 600,
};

type Sent = Readonly<Record<string, string>>;

const SENDERS: readonly User[] = [
  { ...ADMIN, name: "root", handler: "cookie" },
  { ...ADMIN, name: "root", handler: "default" },
  { ...ADMIN, name: "root", handler: "proxy", vouchedBy: "proxy" },
  { ...ADMIN, name: "root", handler: "jwt", vouchedBy: "jwt" },
  { name: null, roles: ["_admin"], isAdmin: true },
];

test.each<[string, Sent, boolean]>([
  ["another site", FOREIGN, false],
  ["a sandbox without an origin", { Origin: "null" }, false],
  ["another port", { Origin: "http://127.0.0.1:8080" }, false],
  ["a host in the user part of its URL", { Origin: "http://127.0.0.1:5984@evil.example" }, false],
  [
    "another site, from a browser that sends only the referrer",
    { Referer: "https://evil.example/" },
    false,
  ],
  ["another site, from a browser with fetch metadata", { "Sec-Fetch-Site": "cross-site" }, false],
  ["a sibling host", { "Sec-Fetch-Site": "same-site", Origin: "http://127.0.0.1:5984" }, false],
  ["this site", { Origin: "http://127.0.0.1:5984" }, true],
  ["this site, by its referrer", { Referer: "http://127.0.0.1:5984/_dashboard/" }, true],
  ["this site behind a proxy", { Origin: SITE, "Sec-Fetch-Site": "same-origin" }, true],
  [
    "this site behind a proxy that forwards the host",
    { Origin: SITE, "X-Forwarded-Host": "app.example:443" },
    true,
  ],
  ["a client that is not a browser", {}, true],
])(
  "accepts a write unless a browser sent it from another site: %s, %o, %s",
  async (_, headers, isAccepted) => {
    for (const user of SENDERS) {
      const { ask } = await openFilms({ user });
      const status = isAccepted ? 201 : 403;
      expect(await ask("PUT /films/a", { headers, body: {} })).toMatchObject({ status });
      expect((await ask("GET /films", { headers })).status).toBe(200);
    }
  },
);

test.each<[string, Partial<CorsSettings>, Sent, number]>([
  ["with credentials", {}, { Origin: SITE }, 201],
  ["without credentials", { credentials: false }, { Origin: SITE }, 403],
  ["with other methods", { methods: ["GET"] }, { Origin: SITE }, 403],
  ["with every origin and no credentials", { origins: ["*"], credentials: false }, FOREIGN, 403],
  ["with credentials for another origin", {}, FOREIGN, 403],
  [
    "with credentials, for a request without an origin",
    {},
    { "Sec-Fetch-Site": "cross-site" },
    403,
  ],
])(
  "accepts a cross-site write only if CORS allows it: %s",
  async (_, settings, headers, status) => {
    const { ask } = await openFilms({ parts: { cors: () => ({ ...CORS, ...settings }) } });
    expect(await ask("POST /films", { headers, body: {} })).toMatchObject({ status });
  },
);

test("a method override requires that CORS allows the overriding method", async () => {
  const { ask } = await openFilms({ parts: { cors: () => CORS } });
  const headers = { Origin: SITE, "X-HTTP-Method-Override": "DELETE" };
  expect(await ask("POST /films", { headers })).toMatchObject({ status: 403 });
});

test("a page of another site can neither log in nor log out", async () => {
  const asked: string[] = [];
  const authority: SessionAuthority = {
    handlers: ["cookie"],
    logIn: async (name) => {
      asked.push(name);
      return { roles: [], cookie: "AuthSession=a" };
    },
    clearedCookie: () => "AuthSession=",
  };
  const { ask } = await openApi({ parts: { routes: sessionRoutes(authority) } });
  const form = { "Content-Type": "application/x-www-form-urlencoded" };
  const body = "name=mallory&password=x";
  for (const request of ["POST /_session", "DELETE /_session"]) {
    const answer = await ask(request, { headers: { ...form, ...FOREIGN }, body });
    expect(answer).toMatchObject({ status: 403 });
    expect(answer.headers).not.toHaveProperty("Set-Cookie");
  }
  expect(asked).toEqual([]);
  expect((await ask("POST /_session", { headers: form, body })).status).toBe(200);
});

test.each(["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a"])(
  "JSON in a request of type %s is refused, as in CouchDB",
  async (type) => {
    const { ask } = await openFilms();
    const headers = { "Content-Type": type };
    for (const path of ["/films", "/films/_bulk_docs", "/films/_find", "/films/_index"]) {
      expect(await ask(`POST ${path}`, { headers, body: {} })).toMatchObject({ status: 415 });
    }
  },
);
