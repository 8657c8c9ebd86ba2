import { expect, test } from "vitest";
import { utf8Decode, utf8Encode } from "../../base/index.ts";
import { BATCH_TYPE, type BatchMessage, BatchReader, batchMessage } from "../../protocol/index.ts";
import { openClock, openServer, type Reply } from "../fetch.fixture.ts";
import {
  type Fetch,
  type FetchRequest,
  type FetchResponse,
  RequestFailedError,
  readText,
} from "../fetch.ts";
import { withBatches } from "./with-batches.ts";

const ROOT = "http://host/tandem/";
const TANDEM = { server: "CouchDB/3.5.0 (Tandem 0.1.0)" };
const BATCH = { status: 200, headers: { ...TANDEM, "content-type": BATCH_TYPE } };

function short(path: string, parts: Partial<FetchRequest> = {}): FetchRequest {
  const { signal } = new AbortController();
  const url = ROOT + path;
  return { method: "GET", url, batchRoot: ROOT, inactivityTimeoutMs: 1000, signal, ...parts };
}

/** Returns the requests of a batch. */
function messagesOf({ body }: FetchRequest): readonly BatchMessage[] {
  return new BatchReader().push(body as Uint8Array);
}

function messageText(head: BatchMessage["head"], body = ""): string {
  return batchMessage(head, utf8Encode(body)).map(utf8Decode).join("");
}

/** Answers a single request with its path, and the requests of a batch in reverse order. */
function answerWell(request: FetchRequest): Reply {
  if (!request.url.endsWith("/_batch")) {
    return { status: 200, headers: TANDEM, body: request.url.slice(ROOT.length - 1) };
  }
  const answers = messagesOf(request).map(({ head }, number) =>
    messageText({ request: number, status: 200, headers: { Own: "1" } }, String(head.path)),
  );
  return { ...BATCH, body: answers.reverse().join("\n") };
}

/**
 * Creates a client that has recognized the server as Tandem and has one request in progress. The
 * server answers this request when `release` is called.
 */
async function openBusy(answer: (request: FetchRequest) => Reply | Promise<Reply> = answerWell) {
  const clock = openClock();
  let release = (): void => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const server = openServer(async (request) => {
    if (request.url.endsWith("/busy")) await released;
    return request.url.endsWith("/known") ? { status: 200, headers: TANDEM } : answer(request);
  });
  const fetch = withBatches(clock, server.fetch);
  await fetch(short("known"));
  const busy = fetch(short("busy"));
  server.requests.splice(0);
  return {
    clock,
    fetch,
    release,
    busy,
    paths: () => server.requests.map(({ url }) => url.slice(ROOT.length - 1)),
    requests: server.requests,
  };
}

const texts = (answers: readonly FetchResponse[]): Promise<string[]> =>
  Promise.all(answers.map(readText));

const askAll = (fetch: Fetch, requests: readonly FetchRequest[]): Promise<FetchResponse[]> =>
  Promise.all(requests.map((request) => fetch(request)));

test("no batch is sent if all waiting requests were aborted", async () => {
  const { fetch, clock, release, busy, paths } = await openBusy();
  const leaving = new AbortController();
  const waiting = askAll(
    fetch,
    ["a", "b"].map((path) => short(path, { signal: leaving.signal })),
  );
  leaving.abort(new Error("The client has left"));
  await expect(waiting).rejects.toThrow("The client has left");
  release();
  await busy;
  await clock.sleep(0);
  expect(paths()).toEqual([]);
});

test("requests to a Tandem server are batched while a request is pending, and each gets its response", async () => {
  const { fetch, paths, requests } = await openBusy();
  const post = { method: "POST", body: '{"é":1}', headers: { "content-type": "text/x" } } as const;
  const answers = await askAll(fetch, [short("a/"), short("b/_revs_diff?x=1", post), short("c/")]);
  expect(await texts(answers)).toEqual(["/a/", "/b/_revs_diff?x=1", "/c/"]);
  expect(paths()).toEqual(["/_tandem/_batch"]);
  expect(messagesOf(requests[0] as FetchRequest)).toEqual([
    { head: { method: "GET", path: "/a/", headers: {}, bytes: 0 }, body: new Uint8Array() },
    {
      head: {
        method: "POST",
        path: "/b/_revs_diff?x=1",
        headers: { "content-type": "text/x" },
        bytes: 8,
      },
      body: utf8Encode(post.body),
    },
    { head: { method: "GET", path: "/c/", headers: {}, bytes: 0 }, body: new Uint8Array() },
  ]);
  const [first] = answers as [FetchResponse];
  expect(Object.fromEntries(first.headers)).toEqual({ ...TANDEM, own: "1" });
});

test("a request that no other request joins is sent unbatched", async () => {
  const { fetch, paths, busy, release } = await openBusy();
  await fetch(short("second"));
  release();
  await busy;
  await fetch(short("third"));
  expect(paths()).toEqual(["/second", "/third"]);
});

test.each(["CouchDB/3.5.0 (Erlang OTP/25)", undefined])(
  "requests to a server that calls itself %s are not batched",
  async (server) => {
    const headers = server === undefined ? {} : { server };
    const { fetch, requests } = openServer(() => ({ status: 200, headers }));
    const batching = withBatches(openClock(), fetch);
    await batching(short("known"));
    await askAll(batching, [short("a"), short("b"), short("c")]);
    expect(requests).toHaveLength(4);
    expect(requests.every(({ method }) => method === "GET")).toBe(true);
  },
);

test("long requests, streams and requests to other paths are not batched", async () => {
  const { fetch, paths } = await openBusy();
  const { batchRoot: _, ...long } = short("long");
  const stream = async function* () {
    yield utf8Encode("{}");
  };
  const others = [
    long,
    short("large", { method: "POST", body: "x".repeat(65_537) }),
    short("large-in-bytes", { method: "POST", body: "é".repeat(40_000) }),
    short("stream", { method: "PUT", body: { length: 2, stream } }),
    short("", { url: "http://elsewhere/db/" }),
  ];
  await askAll(fetch, [...others, short("a"), short("b")]);
  expect(paths().filter((path) => path === "/_tandem/_batch")).toHaveLength(1);
  expect(paths()).toHaveLength(others.length + 1);
});

test("batches contain only requests of one sender over the same connections", async () => {
  const { fetch, requests } = await openBusy();
  const anna = { authorization: "anna", accept: "a/b" };
  const bob = { authorization: "bob" };
  const later = { connection: { generation: 1 } };
  // The first request with each set of headers and connection is sent unbatched.
  const asked = [{ headers: anna }, { headers: bob }, { headers: anna, ...later }];
  await askAll(
    fetch,
    [...asked, ...asked, ...asked].map((parts, number) => short(String(number), parts)),
  );
  const batches = requests.filter(({ url }) => url.endsWith("/_batch"));
  expect(
    batches.map((batch) => ({
      headers: batch.headers,
      connection: batch.connection,
      paths: messagesOf(batch).map(({ head }) => head.path),
    })),
  ).toEqual([
    {
      headers: { authorization: "anna", "content-type": BATCH_TYPE },
      connection: undefined,
      paths: ["/3", "/6"],
    },
    {
      headers: { authorization: "bob", "content-type": BATCH_TYPE },
      connection: undefined,
      paths: ["/4", "/7"],
    },
    {
      headers: { authorization: "anna", "content-type": BATCH_TYPE },
      connection: { generation: 1 },
      paths: ["/5", "/8"],
    },
  ]);
});

test("a batch contains up to a hundred requests, with bodies of at most 1 MiB in total", async () => {
  const { fetch, requests } = await openBusy();
  await askAll(
    fetch,
    Array.from({ length: 201 }, (_, number) => short(`${number}`)),
  );
  const post = { method: "POST", body: "x".repeat(60_000) } as const;
  await askAll(
    fetch,
    Array.from({ length: 20 }, (_, number) => short(`${number}`, post)),
  );
  const counts = requests.map((request) =>
    request.url.endsWith("/_batch") ? messagesOf(request).length : 1,
  );
  expect(counts).toEqual([100, 100, 1, 17, 3]);
});

test.each([
  ["reports that batches do not exist", { status: 404 }],
  ["answers with something else", { status: 200, headers: { "content-type": "text/html" } }],
  ["redirects", { status: 302 }],
])("if a server %s, requests are sent individually for ten minutes", async (_, reply) => {
  const { fetch, paths, clock } = await openBusy((request) =>
    request.url.endsWith("/_batch") ? reply : answerWell(request),
  );
  expect(await texts(await askAll(fetch, [short("a"), short("b")]))).toEqual(["/a", "/b"]);
  expect(paths()).toEqual(["/_tandem/_batch", "/a", "/b"]);
  clock.move(599_000);
  await askAll(fetch, [short("c"), short("d")]);
  expect(paths().slice(3)).toEqual(["/c", "/d"]);
  clock.move(2_000);
  await askAll(fetch, [short("e"), short("f")]);
  expect(paths().slice(5)).toEqual(["/_tandem/_batch", "/e", "/f"]);
});

test.each([401, 403, 429, 500, 503])(
  "after status %i requests are sent individually for a minute",
  async (status) => {
    const { fetch, paths, clock } = await openBusy((request) =>
      request.url.endsWith("/_batch") ? { status } : answerWell(request),
    );
    await askAll(fetch, [short("a"), short("b")]);
    clock.move(59_000);
    await askAll(fetch, [short("c"), short("d")]);
    expect(paths()).toEqual(["/_tandem/_batch", "/a", "/b", "/c", "/d"]);
    clock.move(2_000);
    await askAll(fetch, [short("e"), short("f")]);
    expect(paths().slice(5)).toEqual(["/_tandem/_batch", "/e", "/f"]);
  },
);

test("a Tandem server is recognized if it responds directly, but not behind a proxy", async () => {
  let server = "nginx";
  const { fetch, requests } = openServer((request) => ({
    ...answerWell(request),
    ...(request.url.endsWith("/_batch") ? {} : { headers: { server } }),
  }));
  const batching = withBatches(openClock(), fetch);
  await askAll(batching, [short("a"), short("b"), short("c")]);
  server = TANDEM.server;
  await batching(short("d"));
  await askAll(batching, [short("e"), short("f"), short("g")]);
  expect(requests.map(({ url }) => url.slice(ROOT.length))).toEqual([
    "a",
    "b",
    "c",
    "d",
    "e",
    "_tandem/_batch",
  ]);
});

test("a request whose response is too long for a batch is repeated", async () => {
  const { fetch, paths } = await openBusy((request) =>
    request.url.endsWith("/_batch")
      ? {
          ...BATCH,
          body:
            messageText({ request: 1, alone: true }) +
            messageText({ request: 0, status: 404, headers: {} }, "none"),
        }
      : answerWell(request),
  );
  const answers = await askAll(fetch, [short("a"), short("b")]);
  expect(answers.map(({ status }) => status)).toEqual([404, 200]);
  expect(await texts(answers)).toEqual(["none", "/b"]);
  expect(paths()).toEqual(["/_tandem/_batch", "/b"]);
});

test.each([
  ["ends before all are answered", "", "BODY_BROKEN_OFF"],
  [
    "answers requests that were not sent",
    messageText({ request: 7, status: 200, headers: {} }),
    "BATCH_MALFORMED",
  ],
  ["answers twice", messageText({ request: 0, status: 200, headers: {} }), "BATCH_MALFORMED"],
  ["contains no status", messageText({ request: 1, headers: {} }), "BATCH_MALFORMED"],
  ["contains no headers", messageText({ request: 1, status: 200 }), "BATCH_MALFORMED"],
])(
  "if a batch %s, unanswered requests fail, and requests are sent individually for a minute",
  async (_, rest, cause) => {
    const { fetch, paths, clock } = await openBusy((request) =>
      request.url.endsWith("/_batch")
        ? { ...BATCH, body: messageText({ request: 0, status: 200, headers: {} }, "well") + rest }
        : answerWell(request),
    );
    const [first, second] = await Promise.allSettled([fetch(short("a")), fetch(short("b?secret"))]);
    expect(first).toMatchObject({ status: "fulfilled", value: { status: 200 } });
    expect(second).toMatchObject({
      status: "rejected",
      reason: { code: "HTTP_REQUEST_FAILED", details: { method: "GET", url: `${ROOT}b`, cause } },
    });
    clock.move(59_000);
    await askAll(fetch, [short("c"), short("d")]);
    expect(paths().slice(1)).toEqual(["/c", "/d"]);
    clock.move(2_000);
    await Promise.allSettled([fetch(short("e")), fetch(short("f"))]);
    expect(paths().slice(3)).toEqual(["/_tandem/_batch"]);
  },
);

test("a failed batch fails each of its requests", async () => {
  const { fetch } = await openBusy(() => {
    throw new RequestFailedError({
      method: "POST",
      url: `${ROOT}_tandem/_batch`,
      cause: "ECONNRESET",
    });
  });
  for (const failure of await Promise.allSettled([fetch(short("a")), fetch(short("b"))])) {
    expect(failure).toMatchObject({ reason: { details: { method: "GET", cause: "ECONNRESET" } } });
  }
});

test("an invalid response to a batch fails all of its requests", async () => {
  const { fetch } = await openBusy(() => ({ ...BATCH, body: "<html>\n" }));
  for (const failure of await Promise.allSettled([fetch(short("a")), fetch(short("b"))])) {
    expect(failure).toMatchObject({ reason: { details: { cause: "BATCH_MALFORMED" } } });
  }
});

test("requests aborted before or after their batch is sent are removed from it; the others get responses", async () => {
  const [early, late] = [new AbortController(), new AbortController()];
  const { fetch, requests } = await openBusy((request) => {
    late.abort(new Error("late"));
    return answerWell(request);
  });
  const asked = [
    fetch(short("a", { signal: early.signal })),
    fetch(short("b", { signal: late.signal })),
    fetch(short("c")),
    fetch(short("d")),
  ];
  early.abort(new Error("early"));
  const ended = await Promise.allSettled(asked.slice(0, 2));
  expect(ended).toMatchObject([{ reason: early.signal.reason }, { reason: late.signal.reason }]);
  expect(await texts(await Promise.all(asked.slice(2)))).toEqual(["/c", "/d"]);
  const paths = messagesOf(requests[0] as FetchRequest).map(({ head }) => head.path);
  expect(paths).toEqual(["/b", "/c", "/d"]);
});

/** Answers a batch of two with one response, then sends empty lines indefinitely. */
async function* endless(): AsyncGenerator<Uint8Array, void> {
  for (const number of [0, 1]) {
    yield utf8Encode(messageText({ request: number, status: 200, headers: {} }));
    if (number === 0) yield utf8Encode("\n");
  }
  for (;;) yield utf8Encode("\n");
}

test("an endless response is not read indefinitely", async () => {
  let leave = (): void => {};
  const left = new Promise<void>((resolve) => {
    leave = resolve;
  });
  const { fetch, requests } = await openBusy();
  const batching = withBatches(openClock(), async (request) => {
    if (!request.url.endsWith("/_batch")) return fetch(request);
    const body = endless();
    return {
      status: 200,
      headers: new Map(Object.entries(BATCH.headers)),
      body: {
        [Symbol.asyncIterator]: () => ({
          next: () => body.next(),
          return: async () => {
            leave();
            return { done: true as const, value: undefined };
          },
        }),
      },
      discard: () => {},
    };
  });
  await batching(short("known"));
  const busy = batching(short("busy"));
  const answers = await askAll(batching, [short("a"), short("b")]);
  expect(answers.map(({ status }) => status)).toEqual([200, 200]);
  await left;
  expect(requests.map(({ url }) => url)).not.toContain(`${ROOT}_tandem/_batch`);
  void busy;
});

test("a batch is aborted when all of its requests are aborted", async () => {
  const [one, other] = [new AbortController(), new AbortController()];
  let asked: FetchRequest | undefined;
  const { fetch } = await openBusy((request) => {
    asked = request;
    return new Promise((_, reject) => {
      request.signal.addEventListener("abort", () => reject(request.signal.reason));
      one.abort(new Error("one"));
      expect(request.signal.aborted).toBe(false);
      other.abort(new Error("other"));
    });
  });
  const failures = await Promise.allSettled([
    fetch(short("a", { signal: one.signal })),
    fetch(short("b", { signal: other.signal })),
  ]);
  expect(failures).toMatchObject([{ reason: one.signal.reason }, { reason: other.signal.reason }]);
  expect(asked?.signal.aborted).toBe(true);
});
