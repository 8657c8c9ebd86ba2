import { expect, test } from "vitest";
import type { Fetch, FetchRequest, FetchResponse } from "../fetch.ts";
import { withRedirects } from "./with-redirects.ts";

const SECRETS = { authorization: "Basic eA==", cookie: "AuthSession=y", "x-token": "z" };

/** Creates a server with these redirects by URL. It responds to all other requests with 200. */
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

test.each([301, 302, 307, 308])(
  "%i repeats method and body at the new location",
  async (status) => {
    const { seen, fetch } = server({ "http://a/db/": [status, "http://a/moved/"] });
    const post = request("http://a/db/", { method: "POST", body: "{}" });
    expect((await fetch(post)).status).toBe(200);
    expect(seen[1]).toEqual({ ...post, url: "http://a/moved/" });
  },
);

test("a 303 causes a GET without the body", async () => {
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
])("no credential is sent to %s", async (location) => {
  const { seen, fetch } = server({ "http://a/db/": [302, location] });
  await fetch(request("http://a/db/"));
  expect(seen[1]?.headers).toEqual({ accept: "application/json" });
  expect(seen[1]?.url).not.toContain("word");
});

test("dropped credentials are not restored by a redirect back", async () => {
  const { seen, fetch } = server({
    "http://a/db/": [302, "http://b/db/"],
    "http://b/db/": [302, "http://a/secret"],
  });
  await fetch(request("http://a/db/"));
  expect(seen[2]?.url).toBe("http://a/secret");
  expect(seen[2]?.headers).toEqual({ accept: "application/json" });
});

test("a redirect loop ends with an error that shows no password", async () => {
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

test("a one-time body is not sent twice, and the next request goes to the new URL without credentials", async () => {
  const { seen, fetch } = server({
    "http://a/db/one?x=1": [307, "http://b/other/db/one?x=1"],
    "http://b/other/db/three": [307, "http://b/back/db/three"],
  });
  const put = (url: string) =>
    fetch(request(url, { method: "PUT", body: { length: 0, stream: nothing } }));
  await expect(put("http://a/db/one?x=1")).rejects.toMatchObject({ details: { cause: "MOVED" } });
  expect((await put("http://a/db/one?x=1")).status).toBe(200);
  expect((await put("http://a/db/two")).status).toBe(200);
  expect(seen.map(({ url }) => url).slice(1)).toEqual([
    "http://b/other/db/one?x=1",
    "http://b/other/db/two",
  ]);
  expect(seen[2]?.headers).toEqual({ accept: "application/json" });
  await expect(put("http://a/db/three")).rejects.toMatchObject({ details: { cause: "MOVED" } });
  expect((await put("http://a/db/four")).status).toBe(200);
  expect(seen.at(-1)?.url).toBe("http://a/db/four");
});

test("an invalid location is an error", async () => {
  const { fetch } = server({ "http://a/odd": [301, "gopher://a/"] });
  await expect(fetch(request("http://a/odd"))).rejects.toMatchObject({
    details: { cause: "BAD_REDIRECT" },
  });
});
