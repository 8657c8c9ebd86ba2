/** Responses of servers other than Tandem: older, limited and faulty servers. */
import { describe, expect, test } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { openClock, openServer, type Reply } from "../../../src/http-client/fetch.fixture.ts";
import {
  type FetchRequest,
  Grants,
  RateLimits,
  SecretsInUse,
  type TlsSettings,
} from "../../../src/http-client/index.ts";
import { parseWireDocument } from "../../../src/protocol/index.ts";
import { classifyFailure, describeFailure } from "../../../src/replicator/failures/failure.ts";
import {
  type Endpoint,
  HttpEndpoint,
  isChange,
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
  TextDocument,
} from "../../../src/replicator/index.ts";

const { signal } = new AbortController();

function open(
  answer: (request: FetchRequest) => Reply | Promise<Reply>,
  {
    tls = REPLICATOR_CONFIG_DEFAULT.tls,
    retryCountMax = 0,
    named = "http://host/db",
    grants = new Grants(),
  }: {
    readonly tls?: TlsSettings;
    readonly retryCountMax?: number;
    readonly grants?: Grants;
    /** The source as a user would specify it. */
    readonly named?: string | object;
  } = {},
): Endpoint {
  const { client, options } = REPLICATOR_CONFIG_DEFAULT;
  const { source } = parseReplication({ source: named, target: "b" });
  if (source.kind !== "http") throw new Error("It is a URL");
  const runtime = { ...createSystemRuntime(), clock: openClock() };
  return new HttpEndpoint(
    {
      runtime,
      fetch: openServer(answer).fetch,
      retry: { retryCountMax, failingMsMax: 60_000 },
      rateLimits: new RateLimits(),
      grants,
      secrets: new SecretsInUse(),
      tls,
      client,
      userAgent: "Tandem",
      parseMultipart: async function* () {},
    },
    source,
    options,
  );
}

async function changesOf(
  endpoint: Endpoint,
  selection: object,
  continuous = false,
  since: unknown = 0,
): Promise<unknown[]> {
  const request = { since, continuous, winningRevisionsOnly: false };
  const found: unknown[] = [];
  const all = { ...request, selection } as Parameters<Endpoint["changes"]>[0];
  for await (const items of endpoint.changes(all, signal)) {
    for (const { id, revisions } of items.filter(isChange)) found.push([id, ...revisions]);
  }
  return found;
}

const ROWS = [
  { seq: 1, id: "a", changes: [{ rev: "1-a" }] },
  { seq: 2, id: "b", changes: [{ rev: "2-b" }, { rev: "2-c" }], removed: true },
  { seq: 3, id: "", changes: [{ rev: "1-a" }] },
];
const page = JSON.stringify({ results: ROWS, last_seq: 3 });

test("the changes feed skips removed revisions and rows with an empty id", async () => {
  const endpoint = open(() => ({ status: 200, body: page }));
  expect(await changesOf(endpoint, { kind: "all" })).toEqual([
    ["a", "1-a"],
    ["b", "2-c"],
  ]);
});

describe.each([false, true])("a feed (continuous: %j)", (continuous) => {
  test.each([
    '{"results":[]}',
    '{"results":[],"last_seq":null}',
    '{"results":[{"seq":1,"id":"a","changes":[{"rev":"1-a"}]}]}',
    '{"results":[null],"last_seq":1}',
    '{"results":[5],"last_seq":1}',
    '{"results":[[]],"last_seq":1}',
    '{"results":[{"seq":1}],"last_seq":1}',
    '{"results":[{"seq":1,"id":5,"changes":[{"rev":"1-a"}]}],"last_seq":1}',
    '{"results":[{"seq":1,"id":"a","changes":"x"}],"last_seq":1}',
    '{"results":[{"seq":1,"id":"a"}],"last_seq":1}',
  ])("rejects the answer %s", async (body) => {
    let requestCount = 0;
    const endpoint = open(() => {
      requestCount++;
      if (requestCount > 1) throw new Error("It was taken for an answer");
      return { status: 200, body };
    });
    const reading = changesOf(endpoint, { kind: "all" }, continuous);
    await expect(reading).rejects.toMatchObject({ error: "changes_req_failed" });
  });
});

test.each([false, true])(
  "the error states that the source does not support times (continuous: %j)",
  async (continuous) => {
    const reason = "Malformed sequence supplied in 'since' parameter.";
    const body = JSON.stringify({ error: "bad_request", reason });
    const endpoint = open(() => ({ status: 400, body }));
    const hint = "times in since_seq require a CouchDB later than 3.5";
    const reasonOf = (since: string) =>
      changesOf(endpoint, { kind: "all" }, continuous, since).catch((error) => error.reason);
    expect(await reasonOf("2026-01-31T23:59:59Z")).toContain(`${reason} (${hint})`);
    expect(await reasonOf("2026-01-31")).not.toContain(hint);
  },
);

test("short requests about one database have a batch root, so that the client can batch them", async () => {
  const asked: FetchRequest[] = [];
  const endpoint = open((request) => {
    asked.push(request);
    return { status: 200, body: '{"update_seq":7,"instance_start_time":"0","pending":3}' };
  });
  await endpoint.info(signal);
  await endpoint.pendingChangeCount("5-x", signal);
  await endpoint.missingRevisions(new Map([["a", ["1-a"]]]), signal).catch(() => {});
  expect(asked.map(({ batchRoot }) => batchRoot)).toEqual(Array(3).fill("http://host/"));
});

test("the changes feed accepts rows that contain a document or no revision", async () => {
  const rows = [
    { seq: "1-x", id: "a", changes: [{ rev: "2-a" }], deleted: true, doc: { _id: "a" } },
    { seq: null, id: "b", changes: [] },
  ];
  const body = JSON.stringify({ results: rows, last_seq: "2-x", pending: 0 });
  const endpoint = open(() => ({ status: 200, body }));
  expect(await changesOf(endpoint, { kind: "all" })).toEqual([["a", "2-a"], ["b"]]);
});

test("the client certificate is sent only to the configured host", async () => {
  const asked: FetchRequest[] = [];
  const endpoint = open(
    (request) => {
      asked.push(request);
      const location = "http://elsewhere/db/_changes";
      if (request.url.startsWith("http://host/")) return { status: 307, headers: { location } };
      return { status: 200, body: page };
    },
    {
      tls: { ...REPLICATOR_CONFIG_DEFAULT.tls, certificateFile: "our.pem", keyFile: "our-key.pem" },
    },
  );
  await changesOf(endpoint, { kind: "all" });
  const [first, second] = asked.map(({ connection }) => connection?.tls);
  expect(first).toMatchObject({ certificateFile: "our.pem", keyFile: "our-key.pem" });
  expect(second).toEqual(REPLICATOR_CONFIG_DEFAULT.tls);
});

test("jobs of one user share a session per server, even if their URLs spell the server's name differently", async () => {
  const logins: string[] = [];
  const grants = new Grants();
  const sources = ["http://u:p@host/a", "http://u:p@HOST:80/b", "http://u:p@host:81/c"];
  for (const named of sources) {
    const answer = ({ url }: FetchRequest) => {
      if (!url.endsWith("/_session")) return { status: 200, body: page };
      logins.push(url);
      return { status: 200, headers: { "set-cookie": "AuthSession=s" }, body: "{}" };
    };
    await changesOf(open(answer, { named, grants }), { kind: "all" });
  }
  expect(logins).toEqual(["http://host/_session", "http://host:81/_session"]);
});

test.each([
  ["http://elsewhere/db/_changes", false],
  ["http://host:81/db/_changes", false],
  ["https://host/db/_changes", false],
  ["http://host/moved/_changes", true],
])(
  "the server of a redirect to %s receives the user's headers and password: %s",
  async (location, isKept) => {
    const asked: FetchRequest[] = [];
    const endpoint = open(
      (request) => {
        // A server without sessions receives the password with each request.
        if (request.url.endsWith("/_session")) return { status: 404, body: "{}" };
        asked.push(request);
        if (request.url.startsWith("http://host/db/"))
          return { status: 307, headers: { location } };
        return { status: 200, body: page };
      },
      { named: { url: "http://joe:secret@host/db", headers: { "X-Api-Key": "secret" } } },
    );
    await changesOf(endpoint, { kind: "all" });
    expect(asked).toHaveLength(2);
    const secrets = asked.map(({ headers = {} }) => [headers["x-api-key"], headers.authorization]);
    const own = ["secret", `Basic ${btoa("joe:secret")}`];
    expect(secrets).toEqual([own, isKept ? own : [undefined, undefined]]);
    expect(asked[1]?.headers?.accept).toBe("application/json");
  },
);

test("the replicator filters changes by id itself if the server does not know _doc_ids", async () => {
  const endpoint = open(({ method }) =>
    method === "POST" ? { status: 405, body: "{}" } : { status: 200, body: page },
  );
  const selection = { kind: "doc-ids", ids: ["b"] };
  expect(await changesOf(endpoint, selection)).toEqual([["b", "2-c"]]);
});

test("the replicator skips rows of other documents if the server ignores doc_ids", async () => {
  const endpoint = open(() => ({ status: 200, body: page }));
  const selection = { kind: "doc-ids", ids: ["b"] };
  expect(await changesOf(endpoint, selection)).toEqual([["b", "2-c"]]);
});

test.each([400, 405, 501])(
  "a continuous job uses feed=normal if the source refuses doc_ids with another feed (%i)",
  async (status) => {
    const endpoint = open(({ url, method }) =>
      method === "POST" && url.includes("feed=longpoll")
        ? { status, body: '{"error":"bad_request","reason":"feed"}' }
        : { status: 200, body: page },
    );
    const selection = { kind: "doc-ids", ids: ["b"] } as const;
    const request = { since: 0, selection, winningRevisionsOnly: false, continuous: true };
    for await (const items of endpoint.changes(request, signal)) {
      const ids = items.filter(isChange).map(({ id }) => id);
      expect(ids).toEqual(["b"]);
      break;
    }
    expect.assertions(1);
  },
);

const row = (id: string) => {
  const ok = { _id: id, _rev: "1-a", _revisions: { start: 1, ids: ["a"] } };
  return { id, docs: [{ ok }] };
};
const asked = ["a", "b"].map((id) => ({ id, revision: "1-a", ancestors: [] }));

test("a bulk read whose results are incomplete or in another order is rejected", async () => {
  for (const [ids, isRead] of [
    [["a", "b"], true],
    [["b", "a"], false],
    [["a"], false],
  ] as const) {
    const endpoint = open(() => ({ status: 200, body: JSON.stringify({ results: ids.map(row) }) }));
    expect((await endpoint.reader.readRevisions(asked, signal)) !== undefined).toBe(isRead);
  }
});

const TOO_DEEP = "The JSON is nested more than 10000 levels deep";

test("a bulk read that contains a document nested too deeply is rejected, and parsing the document reports the reason", async () => {
  for (const [nesting, isRead] of [
    [10_000, true],
    [10_001, false],
  ] as const) {
    const deep = JSON.stringify(row("a").docs[0]?.ok).replace(
      "{",
      `{"deep":${"[".repeat(nesting - 1)}1${"]".repeat(nesting - 1)},`,
    );
    const body = `{"results":[{"id":"a","docs":[{"ok":${deep}}]},${JSON.stringify(row("b"))}]}`;
    const endpoint = open(() => ({ status: 200, body }));
    expect((await endpoint.reader.readRevisions(asked, signal)) !== undefined).toBe(isRead);
    const parse = () => parseWireDocument(deep);
    if (isRead) expect(parse().id).toBe("a");
    else expect(parse).toThrow(expect.objectContaining({ reason: TOO_DEEP }));

    const alone = open(() => ({ status: 200, body: `[{"ok":${deep}}]` }));
    const request = { id: "a", revision: "1-a", ancestors: [] };
    const reading = alone.reader.readRevision(request, async () => {}, signal);
    if (isRead) expect(await reading).toBe(true);
    else await expect(reading).rejects.toMatchObject({ error: "document_too_large" });
  }
});

test("a 202 response, as sent by a cluster, counts as a successful write", async () => {
  const endpoint = open(() => ({ status: 202, body: "[]" }));
  const documents = [new TextDocument("a", '{"_id":"a"}')];
  expect(await endpoint.writer.writeDocuments(documents, signal)).toEqual([]);
});

test.each([
  '[{"foo":1},5,null]',
  '[{"ok":true,"id":"a","rev":"1-a"},5]',
  '[{"ok":true}]',
  '[{"rev":"1-a"}]',
  '[{"ok":true,"id":"a","rev":"2-b"}]',
  '[{"ok":true,"id":"b","rev":"1-a"}]',
  '[{"id":"a","rev":"1-a"},null]',
  "[[]]",
  "[{}]",
])("the response %s to a write of documents is rejected", async (body) => {
  const endpoint = open(() => ({ status: 201, body }));
  const documents = [new TextDocument("a", '{"_id":"a","_rev":"1-a"}')];
  const writing = endpoint.writer.writeDocuments(documents, signal);
  await expect(writing).rejects.toMatchObject({ error: "bulk_docs_failed" });
});

test("a write fails unless the response confirms or refuses each document", async () => {
  const row = (id: string) => ({ ok: true, id, rev: "1-a" });
  const refused = { id: "b", error: "forbidden", reason: "no" };
  const documents = ["a", "b"].map((id) => new TextDocument(id, `{"_id":"${id}","_rev":"1-a"}`));
  const write = (rows: readonly object[]) =>
    open(() => ({ status: 201, body: JSON.stringify(rows) })).writer.writeDocuments(
      documents,
      signal,
    );
  await expect(write([row("a")])).rejects.toMatchObject({ error: "bulk_docs_failed" });
  await expect(write([row("a"), row("a")])).rejects.toMatchObject({ error: "bulk_docs_failed" });
  expect(await write([row("b"), row("a")])).toEqual([]);
  expect(await write([row("a"), refused])).toMatchObject([{ id: "b", error: "forbidden" }]);
  expect(await write([refused])).toMatchObject([{ id: "b", error: "forbidden" }]);
});

test.each(["[]", '[{"id":"a","rev":"1-a","status":201}]', '[{"ok":true,"id":"a","rev":"1-A"}]'])(
  "the response %s is accepted as confirmation that the document was written",
  async (body) => {
    const endpoint = open(() => ({ status: 201, body }));
    const documents = [new TextDocument("a", '{"_id":"a","_rev":"1-a"}')];
    expect(await endpoint.writer.writeDocuments(documents, signal)).toEqual([]);
  },
);

/** Bodies of successful responses that confirm no write. */
const UNCONFIRMING = [
  "",
  "<html>Please log in</html>",
  "[]",
  "{}",
  "null",
  '"ok"',
  '{"ok":false}',
  '{"error":"unauthorized","reason":"x"}',
] as const;

describe.each([200, 201, 202])("a response with status %i", (status) => {
  test.each([
    ...UNCONFIRMING,
    '{"ok":true}',
    '{"ok":true,"id":"a"}',
    '{"ok":true,"id":"b","rev":"1-a"}',
    '{"ok":true,"id":"a","rev":"2-a"}',
    '{"ok":true,"id":"a","rev":{"toString":"1-a"}}',
    '[{"ok":true,"id":"a","rev":"1-a"}]',
  ])("%s does not confirm the write of a document", async (body) => {
    const endpoint = open(() => ({ status, body }));
    const text = '{"_id":"a","_rev":"1-a"}';
    const attachments = (async function* () {})();
    const document = { id: "a", text, hasStubs: false, outline: [], attachments };
    const writing = endpoint.writer.writeDocument(document, signal);
    const error =
      body === ""
        ? { code: "HTTP_REQUEST_FAILED" }
        : { error: "doc_write_failed", answer: { status } };
    await expect(writing).rejects.toMatchObject(error);
  });

  test.each([...UNCONFIRMING, '{"ok":true,"id":"_local/b","rev":"0-1"}', '{"id":"_local/a"}'])(
    "%s does not confirm the write of a checkpoint",
    async (body) => {
      const writing = open(() => ({ status, body })).writeLocal("a", "{}", undefined, signal);
      await expect(writing).rejects.toBeDefined();
    },
  );

  test.each([...UNCONFIRMING, '{"_id":"_local/b","_rev":"0-1"}', '{"_rev":"0-1"}'])(
    "%s is not accepted as a checkpoint",
    async (body) => {
      await expect(open(() => ({ status, body })).readLocal("a", signal)).rejects.toBeDefined();
    },
  );

  test.each([
    ...UNCONFIRMING,
    '{"ok":false,"instance_start_time":"0"}',
    '{"error":"x","instance_start_time":"0"}',
  ])("%s does not confirm a commit", async (body) => {
    await expect(open(() => ({ status, body })).commit(signal)).rejects.toBeDefined();
  });

  test.each([200, 201, 202])('{"ok":true} with status %d confirms a commit', async (status) => {
    const info = { db_name: "db", update_seq: 1, instance_start_time: "7" };
    const endpoint = open(({ method }) =>
      method === "POST"
        ? { status, body: '{"ok":true}' }
        : { status: 200, body: JSON.stringify(info) },
    );
    expect(await endpoint.commit(signal)).toBe("7");
  });

  test.each(UNCONFIRMING)("%s does not confirm the write of a security object", async (body) => {
    await expect(open(() => ({ status, body })).setSecurity("{}", signal)).rejects.toBeDefined();
  });

  test.each(UNCONFIRMING)("%s does not confirm the creation of a database", async (body) => {
    const endpoint = open(({ method }) =>
      method === "PUT" ? { status, body } : { status: 404, body: '{"error":"not_found"}' },
    );
    expect(await endpoint.create({}, signal).catch(() => false)).toBe(false);
    await expect(endpoint.info(signal)).rejects.toBeDefined();
  });

  test.each(UNCONFIRMING.filter((body) => body !== "{}"))(
    "%s is not accepted as a response to _revs_diff",
    async (body) => {
      const asked = new Map([["a", ["1-a"]]]);
      const endpoint = open(() => ({ status, body }));
      await expect(endpoint.missingRevisions(asked, signal)).rejects.toBeDefined();
    },
  );

  test.each([...UNCONFIRMING, '{"_id":"b","_rev":"1-a"}'])(
    "%s is not accepted as a document",
    async (body) => {
      await expect(open(() => ({ status, body })).readDocument("a", signal)).rejects.toBeDefined();
    },
  );
});

test("a batch that the server refuses as a whole is split until only the refused documents are left", async () => {
  const answers: Readonly<Record<string, Reply>> = {
    long: { status: 413, body: '{"error":"document_too_large","reason":"long"}' },
    odd: { status: 400, body: "" },
  };
  const written: string[] = [];
  let requestCount = 0;
  const endpoint = open(({ body }) => {
    requestCount++;
    const ids = JSON.parse(textOf(body)).docs.map(({ _id }: { _id: string }) => _id) as string[];
    const refusing = ids.find((id) => answers[id] !== undefined);
    if (refusing !== undefined) return answers[refusing] as Reply;
    written.push(...ids);
    return { status: 201, body: "[]" };
  });
  const ids = ["a", "b", "long", "d", "e", "f", "odd", "h"];
  const documents = ids.map((id) => new TextDocument(id, `{"_id":"${id}","_rev":"1-${id}"}`));
  const failures = await endpoint.writer.writeDocuments(documents, signal);
  expect(failures).toEqual([
    {
      id: "long",
      revision: "1-long",
      status: 413,
      error: "document_too_large",
      reason: "long",
    },
    { id: "odd", revision: "1-odd", status: 400, error: "bad_request", reason: "" },
  ]);
  expect(written).toEqual(["a", "b", "d", "e", "f", "h"]);
  // The requests: the batch, its two halves, two quarters of each half, and the two documents of
  // one quarter in each half.
  expect(requestCount).toBe(11);
});

test("a request with the option `once` is not retried, and its error contains the server's response", async () => {
  const answer = { status: 503, error: "timeout", reason: "The request could not be processed" };
  const { status, ...body } = answer;
  let count = 0;
  const endpoint = open(
    () => {
      count++;
      return { status, body: JSON.stringify(body) };
    },
    { retryCountMax: 3 },
  );
  const documents = [new TextDocument("a", '{"_id":"a"}')];
  for (const [once, requestCount] of [
    [false, 4],
    [true, 1],
  ] as const) {
    count = 0;
    const writing = endpoint.writer.writeDocuments(documents, signal, { once });
    await expect(writing).rejects.toMatchObject({ error: "bulk_docs_failed", answer });
    expect(count).toBe(requestCount);
    count = 0;
    const revisions = new Map([["a", ["1-a"]]]);
    const asking = endpoint.missingRevisions(revisions, signal, { once });
    await expect(asking).rejects.toMatchObject({ error: "revs_diff_failed", answer });
    expect(count).toBe(requestCount);
    count = 0;
    expect(await endpoint.reader.readRevisions(asked, signal, { once })).toBeUndefined();
    expect(count).toBe(requestCount);
  }
});

test("the number of pending changes is computed from the update sequence if the server's sequences are numbers", async () => {
  const endpoint = open(({ url }) => {
    expect(url).not.toContain("_changes");
    return { status: 200, body: '{"update_seq":12}' };
  });
  expect(await endpoint.pendingChangeCount(5, signal)).toBe(7);
});

test.each([
  [200, '{"results":[],"last_seq":"5-x","pending":2}', 2],
  [200, '{"results":[],"last_seq":"5-x"}', undefined],
  [400, "{}", undefined],
  [501, "{}", undefined],
  [401, "{}", "unauthorized"],
  [403, "{}", "forbidden"],
  [404, "{}", "changes_req_failed"],
  [409, "{}", "changes_req_failed"],
])(
  "the number of pending changes is unknown, or the request fails: %i %s",
  async (status, body, expected) => {
    const endpoint = open(() => ({ status, body }));
    const asking = endpoint.pendingChangeCount("3-x", signal);
    if (typeof expected === "string") {
      await expect(asking).rejects.toMatchObject({ error: expected });
    } else expect(await asking).toBe(expected);
  },
);

test("an error contains the reason for which the server refused to create a missing database", async () => {
  const why = { error: "illegal_database_name", reason: "Name: 'B'." };
  let exists = false;
  const endpoint = open(({ method }) => {
    if (method === "PUT") return { status: 400, body: JSON.stringify(why) };
    return exists ? { status: 200, body: '{"update_seq":1}' } : { status: 404, body: "{}" };
  });
  await expect(endpoint.info(signal)).rejects.toMatchObject({ error: "db_not_found" });
  await endpoint.create({}, signal);
  await expect(endpoint.info(signal)).rejects.toMatchObject({
    error: "db_create_failed",
    reason: "400 from http://host/db/ illegal_database_name: Name: 'B'.",
    answer: { status: 400, ...why },
  });
  exists = true;
  expect(await endpoint.info(signal)).toMatchObject({ updateSequence: 1 });
});

const COULD_NOT_OPEN = "could not open http://host/db/";
const UNAUTHORIZED = "unauthorized to access or create database http://host/db/";
const LONG_PAGE = `<html>\n<body>Bad   gateway ${"x".repeat(300)}`;

test.each([
  [404, '{"error":"not_found","reason":"Database does not exist."}', "not_found", COULD_NOT_OPEN],
  [404, "<h1>No such site</h1>", "not_found", `${COULD_NOT_OPEN} (404: <h1>No such site</h1>)`],
  [500, '{"error":"oops","reason":"bad"}', "server_error", `${COULD_NOT_OPEN} (500 oops: bad)`],
  [501, "", "server_error", `${COULD_NOT_OPEN} (501)`],
  [502, LONG_PAGE, "server_error", /\(502: <html> <body>Bad gateway x{150,180}…?\)$/],
  [200, "<html>Log in</html>", "other", `${COULD_NOT_OPEN} (200: <html>Log in</html>)`],
  [
    401,
    '{"error":"unauthorized","reason":"Name or password is incorrect."}',
    "unauthorized",
    `${UNAUTHORIZED} (401 unauthorized: Name or password is incorrect.)`,
  ],
  [
    403,
    '{"error":"forbidden","reason":"Account is temporarily locked."}',
    "forbidden",
    `${UNAUTHORIZED} (403 forbidden: Account is temporarily locked.)`,
  ],
])("a response %i %s to opening a database causes a failure of the class %s", async (...row) => {
  const [status, body, failureClass, reason] = row;
  const endpoint = open(() => ({ status, body }));
  const error = await endpoint.info(signal).catch((failure: unknown) => failure);
  expect(describeFailure(error).reason).toEqual(
    typeof reason === "string" ? reason : expect.stringMatching(reason),
  );
  expect(classifyFailure(error)).toBe(failureClass);
});

test.each([
  [404, "not_found", "missing json key: filters", "filter"],
  [404, "not_found", "missing", "filter"],
  [500, "TypeError", "doc.type is undefined", "filter"],
  [404, "not_found", "Database does not exist.", "not_found"],
  [503, "service_unavailable", "overloaded", "server_error"],
  [403, "forbidden", "members only", "forbidden"],
])("a response %i %s: %s to a filtered feed causes a failure of the class %s", async (...row) => {
  const [status, error, reason, failureClass] = row;
  for (const continuous of [false, true]) {
    const endpoint = open(() => ({ status, body: JSON.stringify({ error, reason }) }));
    const selection = { kind: "filter", name: "app/mine", queryParameters: "{}" };
    const failure = await changesOf(endpoint, selection, continuous).catch((thrown) => thrown);
    expect(describeFailure(failure).reason).toContain(reason);
    expect(classifyFailure(failure)).toBe(failureClass);
  }
});

test("a database is reported as not found if its creation returns 412, as if it existed, but later requests return 404", async () => {
  const endpoint = open(({ method }) => ({ status: method === "PUT" ? 412 : 404, body: "{}" }));
  await endpoint.create({}, signal);
  await expect(endpoint.info(signal)).rejects.toMatchObject({ error: "db_not_found" });
});

test.each(["doc_count", "doc_del_count", "instance_start_time", "update_seq"])(
  "an object that cannot be converted to a number in place of %s causes no internal error",
  async (member) => {
    const body = `{"update_seq":1,"doc_count":1,"${member}":{"toString":1,"valueOf":1}}`;
    const endpoint = open(() => ({ status: 200, body }));
    expect(await endpoint.info(signal)).toMatchObject({ isEmpty: false });
  },
);

test("a server that answers 429 repeatedly is reported as rate-limited", async () => {
  const endpoint = open(() => ({ status: 429, body: "{}" }));
  await expect(endpoint.info(signal)).rejects.toMatchObject({ error: "max_backoff" });
});

test.each(["", '[{"ok":{"_id":"a","_rev"', "{}"])(
  "a response %j to a request for a document's revisions causes an error that allows a retry",
  async (body) => {
    const endpoint = open(() => ({ status: 200, body }));
    const request = { id: "a", revision: "1-a", ancestors: [] };
    const reading = endpoint.reader.readRevision(request, async () => {}, signal);
    await expect(reading).rejects.toMatchObject({ code: "PROTOCOL_BAD_INPUT" });
  },
);

const LONG = " ".repeat(65 * 1024 * 1024);

test("a response over the size limit ends the request without retries, and disables bulk reads", async () => {
  let count = 0;
  const endpoint = open(
    () => {
      count++;
      return { status: 200, body: LONG };
    },
    { retryCountMax: 3 },
  );
  await expect(endpoint.info(signal)).rejects.toMatchObject({ error: "answer_too_long" });
  expect(await endpoint.reader.readRevisions(asked, signal)).toBeUndefined();
  const request = { id: "a", revision: "1-a", ancestors: [] };
  const reading = endpoint.reader.readRevision(request, async () => {}, signal);
  await expect(reading).rejects.toMatchObject({ error: "document_too_large" });
  expect(count).toBe(3);
});

test.each([
  '{"b":{"missing":["1-a"]}}',
  '{"a":{"missing":["1-b"]}}',
  '{"a":{"missing":5}}',
  '{"a":null}',
  '{"a":{"missing":["1-a"],"possible_ancestors":5}}',
])("the _revs_diff response %s is rejected", async (body) => {
  const endpoint = open(() => ({ status: 200, body }));
  const asking = endpoint.missingRevisions(new Map([["a", ["1-a"]]]), signal);
  await expect(asking).rejects.toMatchObject({ error: "revs_diff_failed" });
});

test("missing revisions are reported as they were requested, even if the server spells them differently", async () => {
  const body = '{"a":{"missing":["1-ab","1-ab"],"possible_ancestors":["1-c",5,"x"]}}';
  const endpoint = open(() => ({ status: 200, body }));
  const missing = await endpoint.missingRevisions(new Map([["a", ["1-AB", "1-b"]]]), signal);
  expect([...missing]).toEqual([["a", { missing: ["1-AB"], possibleAncestors: ["1-c"] }]]);
});

test("revisions that differ only in case are distinguished if the response names one of them exactly", async () => {
  const asked = new Map([["a", ["1-aB", "1-Ab", "1-c"]]]);
  const missingBy = async (named: readonly string[]) => {
    const body = JSON.stringify({ a: { missing: named } });
    const missing = await open(() => ({ status: 200, body })).missingRevisions(asked, signal);
    return missing.get("a")?.missing;
  };
  expect(await missingBy(["1-aB", "1-Ab"])).toEqual(["1-aB", "1-Ab"]);
  expect(await missingBy(["1-Ab"])).toEqual(["1-Ab"]);
  expect(await missingBy(["1-AB"])).toEqual(["1-aB", "1-Ab"]);
});

test("errors that are not strings are converted, and long reasons are shortened", async () => {
  const row = { id: "a", status: 1e300, error: { toString: 1 }, reason: "x".repeat(100_000) };
  const endpoint = open(() => ({ status: 201, body: JSON.stringify([row]) }));
  const documents = [new TextDocument("a", '{"_id":"a","_rev":"1-a"}')];
  const [failure] = await endpoint.writer.writeDocuments(documents, signal);
  expect(failure).toMatchObject({ status: undefined, error: '{"toString":1}' });
  expect(failure?.reason.length).toBeLessThan(2_000);
  const broken = open(() => ({ status: 400, body: '{"error":{"toString":1},"reason":[1]}' }));
  const asking = broken.missingRevisions(new Map([["a", ["1-a"]]]), signal);
  const reason = '400 from http://host/db/_revs_diff {"toString":1}: [1]';
  await expect(asking).rejects.toMatchObject({ reason });
});

test.each([
  ["deeply nested", `${"[".repeat(2_000)}${"]".repeat(2_000)}`],
  ["long", `"${"s".repeat(40_000)}"`],
])("a sequence that is %s is rejected", async (_, sequence) => {
  for (const body of [
    `{"results":[{"seq":${sequence},"id":"a","changes":[{"rev":"1-a"}]}],"last_seq":1}`,
    `{"results":[],"last_seq":${sequence}}`,
  ]) {
    const endpoint = open(() => ({ status: 200, body }));
    await expect(changesOf(endpoint, { kind: "all" })).rejects.toMatchObject({
      code: expect.stringMatching(/^(REPLICATOR_ENDPOINT_FAILED|HTTP_REQUEST_FAILED)$/),
    });
  }
});

test("a document whose id is not the requested one is rejected", async () => {
  const body = '[{"ok":{"_id":"b","_rev":"1-a","_revisions":{"start":1,"ids":["a"]}}}]';
  const endpoint = open(() => ({ status: 200, body }));
  const request = { id: "a", revision: "1-a", ancestors: [] };
  const reading = endpoint.reader.readRevision(request, async () => {}, signal);
  await expect(reading).rejects.toMatchObject({ code: "REPLICATOR_DOCUMENT_INVALID" });
});

test("a line break in an attachment's content type does not end the header", async () => {
  let sent = "";
  const endpoint = open(async ({ body }) => {
    const { stream } = body as { stream(): AsyncIterable<Uint8Array> };
    for await (const piece of stream()) sent += Buffer.from(piece).toString();
    return { status: 201, body: '{"ok":true,"id":"a","rev":"1-a"}' };
  });
  const item = { name: "n", length: 1, contentType: "a/b\r\nx-more: 1", encoding: "g\r\n\r\nz" };
  const attachments = async function* () {
    yield { ...item, body: pieces() };
  };
  const text = '{"_id":"a","_rev":"1-a"}';
  const document = { id: "a", text, hasStubs: false, outline: [item], attachments: attachments() };
  await endpoint.writer.writeDocument(document, signal);
  expect(sent).toContain("Content-Type: a/b  x-more: 1\r\nContent-Length: 1\r\n");
  expect(sent).toContain("Content-Encoding: g    z\r\n\r\n1");
});

async function* pieces(): AsyncIterable<Uint8Array> {
  yield Buffer.from("1");
}

function textOf(body: FetchRequest["body"]): string {
  return Buffer.from(body as Uint8Array).toString();
}

test("possible ancestors that are not revisions are ignored", async () => {
  const ancestors = '["1-a",["1-b"],5,null,"x",{"a":1},"2-c"]';
  const body = `{"a":{"missing":["3-a"],"possible_ancestors":${ancestors}}}`;
  const endpoint = open(() => ({ status: 200, body }));
  const missing = await endpoint.missingRevisions(new Map([["a", ["3-a"]]]), signal);
  expect(missing.get("a")?.possibleAncestors).toEqual(["1-a", "2-c"]);
});

test.each([
  ['"error":"forbidden","reason":7', { error: "forbidden", reason: "7" }],
  ['"error":"forbidden","reason":null', { error: "forbidden" }],
  ['"error":"forbidden"', { error: "forbidden" }],
  ['"error":7,"reason":"no","status":403', { error: "7", reason: "no" }],
])(
  "a row that refuses a document may lack members or have members of other types: %s",
  async (members, expected) => {
    const body = `[{"id":"a","rev":"1-a",${members}}]`;
    const endpoint = open(() => ({ status: 201, body }));
    const documents = [new TextDocument("a", '{"_id":"a","_rev":"1-a"}')];
    const failures = await endpoint.writer.writeDocuments(documents, signal);
    expect(failures).toMatchObject([{ id: "a", ...expected }]);
  },
);

test.each([
  ['{"error":"too_large","reason":7}', { error: "too_large", reason: "" }],
  ['{"error":7,"reason":null}', { error: "too_large", reason: "" }],
  ['{"error":"big","reason":"no"}', { error: "big", reason: "no" }],
  ["<html>", { error: "too_large", reason: "" }],
])(
  "a response that refuses all documents may lack members or have members of other types: %s",
  async (body, expected) => {
    const endpoint = open(() => ({ status: 413, body }));
    const documents = [new TextDocument("a", '{"_id":"a","_rev":"1-a"}')];
    const failures = await endpoint.writer.writeDocuments(documents, signal);
    expect(failures).toMatchObject([{ id: "a", status: 413, ...expected }]);
  },
);

test.each([
  ["http://host/db", "http://host/_users", false],
  ["http://host/db", "http://host/other", true],
  ["http://host/_users", "http://host/other/_users", true],
  ["http://host/_users", "http://host/db", true],
])("the endpoint follows a redirect from %s to %s: %s", async (named, place, isFollowed) => {
  const endpoint = open(
    ({ url }) =>
      url.startsWith(`${named}/`) || url === named
        ? { status: 302, headers: { location: `${place}/` } }
        : { status: 200, body: '{"db_name":"x","update_seq":3,"instance_start_time":"1"}' },
    { named },
  );
  const asking = endpoint.info(signal);
  if (isFollowed) expect(await asking).toMatchObject({ updateSequence: 3 });
  else await expect(asking).rejects.toThrow();
});
