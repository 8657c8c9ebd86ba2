/** gzip compression of responses for clients that accept it. */
import { createGunzip, gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { openFilms, SETTINGS } from "./api.fixture.ts";

const headers = { "Accept-Encoding": "gzip, deflate" };
const docs = Array.from({ length: 200 }, (_, index) => ({ _id: `film-${index}`, n: index }));

async function openFull(...options: Parameters<typeof openFilms>) {
  const films = await openFilms(...options);
  await films.ask("POST /films/_bulk_docs", { body: { docs } });
  return films;
}

test.each([
  "GET /films/_all_docs?include_docs=true",
  "GET /films/_changes",
  "GET /films/_changes?feed=longpoll&since=0",
  "GET /films/big",
])("%s is compressed", async (request) => {
  const { ask } = await openFull();
  await ask("PUT /films/big", { body: { text: "ä".repeat(10_000) } });
  const plain = await ask(request);
  const packed = await ask(request, { headers });
  expect(packed.headers).toMatchObject({ "Content-Encoding": "gzip", Vary: "Accept-Encoding" });
  expect(packed.headers).not.toHaveProperty("Content-Length");
  expect(gunzipSync(packed.bytes).equals(plain.bytes)).toBe(true);
  expect(packed.bytes.length).toBeLessThan(plain.bytes.length / 2);
  expect(packed.headers.ETag).toBe(plain.headers.ETag);
});

test.each([
  ["a small response", "GET /films/film-1", "gzip"],
  ["a response without accepted encodings", "GET /films/_all_docs", "gzip;q=0"],
  ["a HEAD response", "HEAD /films/_all_docs", "gzip"],
  ["a continuous feed", "GET /films/_changes?feed=continuous&timeout=1", "gzip"],
  ["an event feed", "GET /films/_changes?feed=eventsource&timeout=1", "gzip"],
])("%s is not compressed", async (_, request, coding) => {
  const { ask } = await openFull();
  const answer = await ask(request, { headers: { "Accept-Encoding": coding } });
  expect(answer.status).toBe(200);
  expect(answer.headers).not.toHaveProperty("Content-Encoding");
});

test("the API compresses no response if the configuration disables compression", async () => {
  const settings = { ...SETTINGS, compressesResponses: false };
  const { ask } = await openFull({ parts: { settings } });
  const answer = await ask("GET /films/_all_docs", { headers });
  expect(answer.headers).not.toHaveProperty("Content-Encoding");
});

test("a client can decompress a waiting feed up to its last heartbeat", async () => {
  const { api } = await openFilms();
  const gone = new AbortController();
  const { body } = await api({
    method: "GET",
    path: "/films/_changes",
    query: new Map([
      ["feed", "longpoll"],
      ["since", "now"],
      ["heartbeat", "5"],
    ]),
    headers: new Map([["accept-encoding", "gzip"]]),
    body: (async function* () {})(),
    peer: "127.0.0.1",
    isSecure: false,
    signal: gone.signal,
  });
  const gunzip = createGunzip();
  const unpacked = gunzip[Symbol.asyncIterator]();
  const feed = (body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
  let text = "";
  while (!text.endsWith("\n\n")) {
    gunzip.write((await feed.next()).value);
    text += String((await unpacked.next()).value);
  }
  expect(text).toBe('{"results":[\n\n');
  gone.abort();
  await feed.return?.();
  gunzip.destroy();
});
