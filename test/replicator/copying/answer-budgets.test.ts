/**
 * Hostile responses of every kind. Each request fails after it has read a bounded number of bytes.
 */
import { describe, expect, test } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import type { FetchRequest } from "../../../src/http-client/index.ts";
import { Grants, RateLimits, SecretsInUse } from "../../../src/http-client/index.ts";
import {
  type Endpoint,
  HttpEndpoint,
  HttpServer,
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
  TextDocument,
} from "../../../src/replicator/index.ts";

const { signal } = new AbortController();
const KIB = 1024;
const MIB = 1024 * KIB;
const PIECE_BYTES = 64 * KIB;

/**
 * Returns a body of `before` and 70 MiB of `filler`, or of only `before` if `filler` is empty.
 * `read` counts the bytes of filler that were read.
 */
function bomb(before: string, filler: string) {
  const piece = Buffer.from(filler.repeat(PIECE_BYTES / Math.max(1, filler.length)));
  const read = { byteCount: 0 };
  async function* body(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(before);
    if (filler === "") return;
    for (; read.byteCount < 70 * MIB; read.byteCount += piece.length) yield piece;
  }
  return { read, body };
}

function openSides(before: string, filler: string, status = 200) {
  const { client, options, tls } = REPLICATOR_CONFIG_DEFAULT;
  const { source } = parseReplication({ source: "http://host/db", target: "b" });
  if (source.kind !== "http") throw new Error("The source is a URL");
  const { read, body } = bomb(before, filler);
  const parts = {
    runtime: createSystemRuntime(),
    fetch: async (_: FetchRequest) => {
      const headers = new Map([["server", "CouchDB/3.5.0 (Tandem 0.1.0)"]]);
      return { status, headers, body: body(), discard: () => {} };
    },
    retry: { retryCountMax: 0, failingMsMax: 60_000 },
    rateLimits: new RateLimits(),
    grants: new Grants(),
    secrets: new SecretsInUse(),
    tls,
    client,
    userAgent: "Tandem",
    parseMultipart: async function* () {},
  };
  const endpoint = new HttpEndpoint(parts, source, options);
  const server = new HttpServer(parts, { ...source, url: "http://host/" }, options);
  return { read, endpoint, server };
}

type Sides = ReturnType<typeof openSides>;

async function readChanges(endpoint: Endpoint, continuous: boolean): Promise<void> {
  const request = { since: 0, continuous, winningRevisionsOnly: false };
  const selection = { kind: "all" } as const;
  for await (const _ of endpoint.changes({ ...request, selection }, signal)) {
    // Reads and discards all pages.
  }
}

const document = new TextDocument("a", '{"_id":"a","_rev":"1-a"}');

/** Requests, each with the size limit of its response. */
const REQUESTS: readonly (readonly [
  name: string,
  bytesMax: number,
  ask: (sides: Sides) => Promise<unknown>,
])[] = [
  ["information about a database", 64 * KIB, ({ endpoint }) => endpoint.info(signal)],
  ["the creation of a database", 64 * KIB, ({ endpoint }) => endpoint.create({}, signal)],
  ["a replication log", 8 * MIB, ({ endpoint }) => endpoint.readLocal("x", signal)],
  [
    "the write of a replication log",
    64 * KIB,
    ({ endpoint }) => endpoint.writeLocal("x", "{}", undefined, signal),
  ],
  ["a commit", 64 * KIB, ({ endpoint }) => endpoint.commit(signal)],
  ["a security object", 8 * MIB, ({ endpoint }) => endpoint.security(signal)],
  [
    "the write of a security object",
    64 * KIB,
    ({ endpoint }) => endpoint.setSecurity("{}", signal),
  ],
  [
    "the write of documents",
    128 * KIB,
    ({ endpoint }) => endpoint.writer.writeDocuments([document], signal),
  ],
  [
    "the missing revisions",
    64 * MIB,
    ({ endpoint }) => endpoint.missingRevisions(new Map([["a", ["1-a"]]]), signal),
  ],
  ["a page of changes", 64 * MIB, ({ endpoint }) => readChanges(endpoint, true)],
  ["updates of databases", 32 * MIB, ({ server }) => server.updates("1", signal)],
  ["names of databases", 32 * MIB, ({ server }) => server.names("", 100, signal)],
  ["the sequence of a database", 64 * KIB, ({ server }) => server.sequence("a", signal)],
  ["sequences of databases", 128 * KIB, ({ server }) => server.sequences(["a"], signal)],
  ["the security of a listed database", 8 * MIB, ({ server }) => server.security("a", signal)],
];

describe.each([
  ["an array of objects", "[", "{},"],
  ["an array of rows", '{"results":[', "[],"],
  ["members of an object", "{", '"a":0,'],
  ["one string", '{"a":"', "x"],
  ["deeply nested numbers", '{"a":{"b":{"c":{"d":[', "0,"],
])("%s without an end", (_, before, filler) => {
  test.each(REQUESTS)(
    "fails the request for %s before it has read more than the size limit",
    async (_, bytesMax, ask) => {
      const sides = openSides(before, filler);
      await expect(ask(sides)).rejects.toMatchObject({
        error: expect.stringMatching(/^(answer_too_long|changes_req_failed)$/),
      });
      expect(sides.read.byteCount).toBeLessThanOrEqual(bytesMax + PIECE_BYTES);
    },
  );

  test("makes a bulk read fall back to requesting each document individually", async () => {
    const { endpoint } = openSides(before, filler);
    const requests = [{ id: "a", revision: "1-a", ancestors: [] }];
    expect(await endpoint.reader.readRevisions(requests, signal)).toBeUndefined();
  });
});

test.each([
  ["values in one row", '{"results":[{"seq":1,"id":"a","changes":[', "{},"],
  ["text around the rows", '{"results":[],"last_seq":[', "0,"],
])(
  "a feed with endless %s fails before it has read more than the size limit",
  async (_, before, filler) => {
    const { endpoint, read } = openSides(before, filler.padEnd(32));
    await expect(readChanges(endpoint, false)).rejects.toBeDefined();
    expect(read.byteCount).toBeLessThanOrEqual(64 * MIB);
  },
);

test.each([
  ["members", '"a":0'],
  ["revisions", '"_revisions":{"start":1,"ids":["a"', '"b"', "]}"],
  ["attachments", '"_attachments":{"a":{"stub":true}', '"b":{}', "}"],
])(
  "a document with millions of %s is recorded as failed",
  async (_, begin, filler = begin, end = "") => {
    const text = `[{"ok":{"_id":"a","_rev":"1-a",${begin}${`,${filler}`.repeat(1_200_000)}${end}}}]`;
    const { endpoint } = openSides(text, "", 200);
    const request = { id: "a", revision: "1-a", ancestors: [] };
    await expect(
      endpoint.reader.readRevision(request, async () => {}, signal),
    ).rejects.toMatchObject({
      code: "REPLICATOR_DOCUMENT_INVALID",
    });
  },
);

test("a refusal with a long body is still reported with its status", async () => {
  const { endpoint, read } = openSides("<html>", "x", 502);
  await expect(endpoint.setSecurity("{}", signal)).rejects.toMatchObject({
    answer: { status: 502 },
  });
  expect(read.byteCount).toBeLessThanOrEqual(128 * KIB);
});
