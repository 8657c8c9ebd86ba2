import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { utf8Encode } from "../../base/index.ts";
import { systemCompression } from "../../host/index.ts";
import { type FetchResponse, readBytes, readText } from "../fetch.ts";
import { withDecoding } from "./with-decoding.ts";

const TEXT = '{"update_seq":"1-a"}';
const BYTES = Buffer.from(TEXT);
const signal = new AbortController().signal;
const request = { method: "GET" as const, url: "http://a/db", headers: {}, signal };

/** Returns the response of a server that sends these bytes in two pieces. */
function answering(encoding: string, bytes: Uint8Array, headers = {}): Promise<FetchResponse> {
  const response = {
    status: 200,
    headers: new Map([
      ["content-encoding", encoding],
      ["content-length", String(bytes.length)],
    ]),
    body: (async function* () {
      yield bytes.subarray(0, 1);
      yield bytes.subarray(1);
    })(),
    discard: () => {},
  };
  const fetch = withDecoding(async () => response, systemCompression);
  return fetch({ ...request, headers, inactivityTimeoutMs: 1000 });
}

test.each([
  ["gzip", gzipSync(BYTES)],
  ["X-GZIP", gzipSync(BYTES)],
  ["deflate", deflateSync(BYTES)],
  ["deflate", deflateRawSync(BYTES)],
  ["br", brotliCompressSync(BYTES)],
  ["deflate, gzip", gzipSync(deflateSync(BYTES))],
  ["identity", BYTES],
  ["utf-8", BYTES],
  ["", BYTES],
])("a response in the encoding %j is decoded", async (encoding, bytes) => {
  const response = await answering(encoding, bytes);
  expect(response.headers.has("content-length")).toBe(false);
  expect(await readText(response)).toBe(TEXT);
});

test.each(["gzip", "deflate", "br"])(
  "an empty response in the encoding %s is empty",
  async (coding) => {
    expect(await readText(await answering(coding, new Uint8Array()))).toBe("");
  },
);

test("length limits apply to decoded bytes", async () => {
  const bomb = gzipSync(Buffer.alloc(10_000_000));
  expect(bomb.length).toBeLessThan(20_000);
  expect(await readBytes(await answering("gzip", bomb), 100_000)).toBeUndefined();
});

test.each(["zstd", "compress", "gzip, gzip, gzip"])(
  "a response in the encoding %s fails with an error that names the encoding",
  async (encoding) => {
    await expect(answering(encoding, BYTES)).rejects.toMatchObject({
      code: "HTTP_ENCODING_UNSUPPORTED",
      details: { reason: expect.stringContaining(encoding) },
    });
  },
);

test.each([
  ["gzip", gzipSync(BYTES)],
  ["deflate", deflateSync(BYTES)],
  ["br", brotliCompressSync(Buffer.alloc(10_000, BYTES))],
])("a truncated response in the encoding %s is reported as interrupted", async (coding, bytes) => {
  await expect(readText(await answering(coding, bytes.subarray(0, 15)))).rejects.toMatchObject({
    code: "HTTP_REQUEST_FAILED",
    details: { cause: "BODY_BROKEN_OFF" },
  });
});

test.each(["gzip", "x-gzip"])(
  "a plain response with the declared encoding %s is read unchanged",
  async (coding) => {
    expect(await readText(await answering(coding, utf8Encode(TEXT)))).toBe(TEXT);
  },
);

test.each([
  ["gzip", Uint8Array.of(0x1f, ...utf8Encode(TEXT))],
  ["br", utf8Encode(TEXT)],
  ["deflate", utf8Encode("x is no zlib header")],
])(
  "a response that is not in its declared encoding %s is reported as misencoded",
  async (coding, bytes) => {
    await expect(readText(await answering(coding, bytes))).rejects.toMatchObject({
      code: "HTTP_REQUEST_FAILED",
      details: { cause: "BODY_MISENCODED" },
    });
  },
);

test("a request that names the encodings it accepts gets the response undecoded", async () => {
  const bytes = gzipSync(BYTES);
  const response = await answering("gzip", bytes, { "accept-encoding": "gzip" });
  expect(await readBytes(response, 1000)).toEqual(new Uint8Array(bytes));
});
