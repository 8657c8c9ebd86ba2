/** CORS headers, which let scripts of other origins call the API. */
import { expect, test } from "vitest";
import { Configuration } from "../../src/server/settings/configuration.ts";
import {
  CORS_ENABLED,
  CORS_SETTINGS,
  corsSettings,
} from "../../src/server/settings/cors-settings.ts";
import { parseIni } from "../../src/server/settings/ini.ts";
import type { Setting } from "../../src/server/settings/settings.ts";
import { openApi } from "./api.fixture.ts";

const ORIGIN = "https://app.example.com";

async function open(ini: string) {
  const configuration = new Configuration({
    given: [parseIni(ini)],
    localFile: undefined,
    settings: [CORS_ENABLED, ...Object.values<Setting<unknown>>(CORS_SETTINGS)],
  });
  const { ask } = await openApi({ parts: { cors: corsSettings(configuration) } });
  const headersOf = async (request: string, headers: Record<string, string> = {}) => {
    const answer = await ask(request, { headers: { Origin: ORIGIN, ...headers } });
    return { status: answer.status, ...answer.headers };
  };
  return { configuration, headersOf };
}

const ENABLED = `[chttpd]\nenable_cors = true\n[cors]\norigins = ${ORIGIN}\n`;
const PREFLIGHT = { "Access-Control-Request-Method": "PUT" };

test("responses have no CORS headers if CORS is disabled", async () => {
  const { headersOf } = await open(`[cors]\norigins = ${ORIGIN}\n`);
  const headers = await headersOf("GET /");
  expect(headers).not.toHaveProperty("Access-Control-Allow-Origin");
  expect((await headersOf("OPTIONS /", PREFLIGHT)).status).toBe(405);
});

test("a script of an accepted origin may read the response's body and headers", async () => {
  const { headersOf } = await open(ENABLED);
  expect(await headersOf("GET /")).toMatchObject({
    status: 200,
    "Access-Control-Allow-Origin": ORIGIN,
    "Access-Control-Expose-Headers":
      "content-type, accept-ranges, etag, server, x-couch-request-id, x-couch-update-newrev, x-couchdb-body-time",
    Vary: "Origin",
  });
  // Error responses also have the CORS headers, so that a script can read the reason.
  const refused = await headersOf("GET /nope");
  expect(refused).toMatchObject({ status: 404, "Access-Control-Allow-Origin": ORIGIN });
  expect(refused).not.toHaveProperty("Access-Control-Allow-Credentials");
});

test("a script of an origin that is not accepted may not read the response", async () => {
  const { headersOf } = await open(ENABLED);
  const headers = await headersOf("GET /", { Origin: "https://evil.example.com" });
  expect(headers.status).toBe(200);
  expect(headers).not.toHaveProperty("Access-Control-Allow-Origin");
});

test("the API answers the preflight request that a browser sends before a script's write", async () => {
  const { headersOf } = await open(ENABLED);
  const asked = "X-Requested-With, Content-Type";
  expect(
    await headersOf("OPTIONS /films/a", { ...PREFLIGHT, "Access-Control-Request-Headers": asked }),
  ).toMatchObject({
    status: 204,
    "Access-Control-Allow-Origin": ORIGIN,
    "Access-Control-Allow-Methods": "CONNECT, COPY, DELETE, GET, HEAD, OPTIONS, POST, PUT, TRACE",
    "Access-Control-Allow-Headers": asked,
    "Access-Control-Max-Age": "600",
  });
  for (const headers of [
    { ...PREFLIGHT, "Access-Control-Request-Headers": "x-mine" },
    { "Access-Control-Request-Method": "PATCH" },
    { ...PREFLIGHT, Origin: "https://evil.example.com" },
    {},
  ]) {
    expect((await headersOf("OPTIONS /films/a", headers)).status).not.toBe(204);
  }
});

test("a changed CORS setting takes effect immediately, and a section for the request's host takes precedence", async () => {
  const { configuration, headersOf } = await open(
    `${ENABLED}credentials = true\nmethods = GET\nheaders = X-Mine\nmax_age = 5\n[cors:127.0.0.1]\nexposed_headers = etag\n`,
  );
  expect(await headersOf("GET /")).toMatchObject({
    "Access-Control-Allow-Credentials": "true",
    "Access-Control-Expose-Headers": "content-type, etag",
  });
  const get = {
    "Access-Control-Request-Method": "GET",
    "Access-Control-Request-Headers": "x-mine",
  };
  expect(await headersOf("OPTIONS /", get)).toMatchObject({
    status: 204,
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Max-Age": "5",
  });
  expect((await headersOf("OPTIONS /", PREFLIGHT)).status).toBe(405);
  configuration.set("cors", "origins", "*");
  expect(await headersOf("GET /", { Origin: "null" })).toMatchObject({
    "Access-Control-Allow-Origin": "null",
  });
});
