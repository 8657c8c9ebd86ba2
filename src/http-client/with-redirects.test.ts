import { expect, test } from "vitest";
import type { Fetch, FetchRequest, FetchResponse } from "./fetch.ts";
import { withRedirects } from "./with-redirects.ts";

const SECRETS = { authorization: "Basic eA==", cookie: "AuthSession=y", "x-token": "z" };

/** Answers by URL; a URL is a redirect to another one. */
function server(redirects: Readonly<Record<string, [status: number, location: string]>>) {
  const seen: FetchRequest[] = [];
  const fetch: Fetch = async (request) => {
    seen.push(request);
    const [status, location] = redirects[request.url] ?? [200, undefined];
    const headers = new Map(location === undefined ? [] : [["location", location]]);
    return { status, headers, body: nothing(), discard: () => {} } satisfies FetchResponse;
  };
  return { seen, fetch: withRedirects(fetch, { secretHeaders: ["x-token"] }) };
}

async function* nothing(): AsyncIterable<Uint8Array> {}

function request(url: string, more: Partial<FetchRequest> = {}): FetchRequest {
  const headers = { accept: "application/json", ...SECRETS };
  const { signal } = new AbortController();
  return { method: "GET", url, headers, inactivityTimeoutMs: 1000, signal, ...more };
}

test.each([301, 302, 307, 308])("%i repeats method and body at the new place", async (status) => {
  const { seen, fetch } = server({ "http://a/db/": [status, "http://a/moved/"] });
  const post = request("http://a/db/", { method: "POST", body: "{}" });
  expect((await fetch(post)).status).toBe(200);
  expect(seen[1]).toEqual({ ...post, url: "http://a/moved/" });
});

test("303 asks for the other place, without the body", async () => {
  const { seen, fetch } = server({ "http://a/db/": [303, "/other?x=1"] });
  const headers = { accept: "application/json", "content-type": "application/json" };
  await fetch(request("http://a/db/", { method: "POST", body: "{}", headers }));
  expect(seen[1]).toMatchObject({ method: "GET", url: "http://a/other?x=1" });
  expect(seen[1]?.body).toBeUndefined();
  expect(seen[1]?.headers).toEqual({ accept: "application/json" });
});

test.each([
  "http://b/db/",
  "http://a:81/db/",
  "https://a/db/",
  "http://user:word@b/db/",
  "//b/db/",
])("no credential goes to %s", async (location) => {
  const { seen, fetch } = server({ "http://a/db/": [302, location] });
  await fetch(request("http://a/db/"));
  expect(seen[1]?.headers).toEqual({ accept: "application/json" });
  expect(seen[1]?.url).not.toContain("word");
});

test("credentials that were dropped do not come back on the way home", async () => {
  const { seen, fetch } = server({
    "http://a/db/": [302, "http://b/db/"],
    "http://b/db/": [302, "http://a/secret"],
  });
  await fetch(request("http://a/db/"));
  expect(seen[2]?.url).toBe("http://a/secret");
  expect(seen[2]?.headers).toEqual({ accept: "application/json" });
});

test("a circle ends with an error that shows no password", async () => {
  const { seen, fetch } = server({
    "http://x:y@a/db/": [301, "/db/"],
    "http://a/db/": [301, "/db/"],
  });
  const failure = await fetch(request("http://x:y@a/db/")).catch((error) => error);
  expect(failure).toMatchObject({
    code: "HTTP_REQUEST_FAILED",
    details: { url: "http://a/db/", cause: "TOO_MANY_REDIRECTS" },
  });
  expect(seen).toHaveLength(11);
});

test("a body that can be read once is not sent twice, and a place that is none is an error", async () => {
  const { seen, fetch } = server({
    "http://a/doc": [307, "http://a/moved"],
    "http://a/odd": [301, "gopher://a/"],
  });
  const body = { length: 0, stream: nothing };
  expect((await fetch(request("http://a/doc", { method: "PUT", body }))).status).toBe(307);
  expect(seen).toHaveLength(1);
  await expect(fetch(request("http://a/odd"))).rejects.toMatchObject({
    details: { cause: "BAD_REDIRECT" },
  });
});
