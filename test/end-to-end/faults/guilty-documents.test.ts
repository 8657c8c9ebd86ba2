/**
 * A server that fails for one document does not delay other documents. A server that fails for all
 * documents is itself at fault.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  ATTACHED,
  documentJob,
  documents,
  openPair,
  type Pair,
  write,
} from "../../couchdb-replicator/pair.fixture.ts";
import type { Intercept, ProxiedAnswer, ProxiedRequest } from "../../support/faults/http-proxy.ts";

let pair: Pair;
beforeAll(async () => {
  pair = await openPair(
    "[replicator]\nretries_per_request = 1\nmin_backoff_penalty_sec = 1\nmax_backoff_penalty_sec = 2\n",
  );
  for (const side of ["source", "target"] as const) {
    pair[side].intercept((request, forward) => {
      const fault = faults[side].get(request.path.split("/")[1] ?? "");
      return fault === undefined ? forward(request) : fault(request, forward);
    });
  }
});
afterAll(() => pair.close());

/**
 * Handlers of the requests for a database, on each side. Requests without a handler are forwarded.
 * Tests run concurrently, each with its own database.
 */
const faults = { source: new Map<string, Intercept>(), target: new Map<string, Intercept>() };

function heal(database: string): void {
  for (const side of [faults.source, faults.target]) side.delete(database);
}

const BROKEN: ProxiedAnswer = {
  status: 500,
  body: JSON.stringify({ error: "internal_server_error", reason: "badmatch" }),
};

interface Row {
  readonly id: string;
}

function docsOf({ body }: ProxiedRequest): readonly (Row & { readonly _id: string })[] {
  return JSON.parse(body.toString("utf8")).docs;
}

const isBulkGet = ({ path }: ProxiedRequest): boolean => path.includes("/_bulk_get");
const isBulkWrite = ({ path }: ProxiedRequest): boolean => path.endsWith("/_bulk_docs");
const isReadOf = (id: string, { path }: ProxiedRequest): boolean =>
  path.includes(`/${id}?`) && path.includes("open_revs");
const isPutOf = (id: string, { method, path }: ProxiedRequest): boolean =>
  method === "PUT" && path.includes(`/${id}?new_edits=false`);

/** Answers matching requests instead of forwarding them to the server. */
function answering(matches: (request: ProxiedRequest) => boolean, answer = BROKEN): Intercept {
  return async (request, forward) => (matches(request) ? answer : forward(request));
}

async function start(name: string, more: object = {}): Promise<void> {
  await pair.here.call("PUT", `/_replicator/${name}`, { ...pair.body(name), ...more });
}

function pathOf(name: string): string {
  return `/_tandem/jobs/${encodeURIComponent(`_replicator/${name}`)}/failures`;
}

/** Returns the entries of the failure list, as `id phase status reason`. */
async function listed(name: string): Promise<string[]> {
  const { body } = await pair.here.call("GET", pathOf(name));
  return body.failures.map(
    ({ id, phase, status, reason }: Record<string, unknown>) =>
      `${id} ${phase} ${status} ${reason}`,
  );
}

/** Waits until the job has crashed at least `count` times. */
async function crashes(name: string, count: number): Promise<void> {
  await pair.here.onceAnswered(
    () => pair.here.call("GET", `/_scheduler/docs/_replicator/${name}`),
    ({ body }) => body.error_count >= count,
  );
}

test.concurrent("a failed bulk write does not lose documents, even if they are then read individually", async () => {
  // The documents total seven megabytes, so that the first write is sent before the last document
  // is read.
  await pair.fill("large", documents(7, { text: "x".repeat(1_000_000) }));
  let failureCount = 2;
  faults.target.set("large", async (request, forward) => {
    if (!isBulkWrite(request) || failureCount === 0) return forward(request);
    failureCount--;
    return { status: 503, body: '{"error":"service_unavailable","reason":"not now"}' };
  });
  await start("large", { use_bulk_get: false, http_connections: 1 });
  await documentJob(pair.here, "large", "completed");
  expect(failureCount).toBe(0);
  expect(await pair.ids("large")).toHaveLength(7);
});

/**
 * An attachment that is sent individually, because it is too large for bulk requests. It is an
 * image, so that servers store it uncompressed and send its digest.
 */
const NOTED = {
  _attachments: { note: { content_type: "image/png", data: btoa("note".repeat(50_000)) } },
};

/** Ways in which one document makes its server fail, while other requests succeed. */
const WAYS: Readonly<
  Record<
    string,
    {
      readonly side: "source" | "target";
      readonly intercept: (id: string) => Intercept;
      readonly shown: string;
      readonly more?: object;
    }
  >
> = {
  "whose individual and bulk reads fail": {
    side: "source",
    intercept: (id) =>
      answering(
        (request) =>
          isReadOf(id, request) ||
          (isBulkGet(request) && docsOf(request).some((row) => row.id === id)),
      ),
    shown: "read 500 internal_server_error: badmatch",
  },
  "whose row in a bulk read is an error": {
    side: "source",
    intercept: (id) => async (request, forward) => {
      if (isReadOf(id, request)) return BROKEN;
      const answer = await forward(request);
      if (!isBulkGet(request)) return answer;
      const { results } = JSON.parse(String(answer.body));
      const error = { id, rev: "undefined", error: "internal_server_error", reason: "badmatch" };
      const rows = results.map((row: Row) => (row.id === id ? { id, docs: [{ error }] } : row));
      return { ...answer, body: JSON.stringify({ results: rows }) };
    },
    shown: "read 500 internal_server_error: badmatch",
  },
  "whose read fails without a JSON error": {
    side: "source",
    intercept: (id) =>
      answering((request) => isReadOf(id, request), { status: 500, body: "<html>Oh!</html>" }),
    shown: "read 500 http_500",
    more: { use_bulk_get: false },
  },
  "whose read is forbidden": {
    side: "source",
    intercept: (id) =>
      answering((request) => isReadOf(id, request), {
        status: 403,
        body: '{"error":"forbidden","reason":"not yours"}',
      }),
    shown: "read 403 forbidden: not yours",
    more: { use_bulk_get: false },
  },
  "whose read never gets a response": {
    side: "source",
    intercept: (id) => (request, forward) =>
      isReadOf(id, request) ? new Promise(() => {}) : forward(request),
    shown: "read null http_request_failed: ",
    more: { use_bulk_get: false, connection_timeout: 2000 },
  },
  "whose reads break the connection": {
    side: "source",
    intercept: (id) => async (request, forward) => {
      const isGuilty =
        isReadOf(id, request) ||
        (isBulkGet(request) && docsOf(request).some((row) => row.id === id));
      return isGuilty ? CUT : forward(request);
    },
    shown: "read null http_request_failed: ",
  },
  "whose bulk write breaks the connection": {
    side: "target",
    intercept: (id) =>
      answering(
        (request) => isBulkWrite(request) && docsOf(request).some((doc) => doc._id === id),
        CUT,
      ),
    shown: "write null http_request_failed: ",
  },
  "whose bulk write fails": {
    side: "target",
    intercept: (id) =>
      answering((request) => isBulkWrite(request) && docsOf(request).some((doc) => doc._id === id)),
    shown: "write 500 internal_server_error: badmatch",
  },
  "whose row in a bulk write is an error": {
    side: "target",
    intercept: (id) => async (request, forward) => {
      if (!isBulkWrite(request)) return forward(request);
      const docs = docsOf(request).filter((doc) => doc._id !== id);
      const body = Buffer.from(JSON.stringify({ new_edits: false, docs }));
      const answer = await forward({ ...request, body });
      if (docs.length === docsOf(request).length) return answer;
      const row = { id, error: "internal_server_error", reason: "badmatch" };
      return { ...answer, status: 417, body: JSON.stringify([row]) };
    },
    shown: "write 500 internal_server_error: badmatch",
  },
};

/** A response during which the connection breaks. */
const CUT: ProxiedAnswer = {
  status: 200,
  body: "x".repeat(100),
  cut: { afterBytes: 10, how: "reset" },
};

/**
 * Ways in which a document with large attachments fails. Such a document is copied individually.
 */
const INDIVIDUAL_WAYS: typeof WAYS = {
  "whose response from the source is truncated": {
    side: "source",
    intercept: (id) => async (request, forward) => {
      const answer = await forward(request);
      if (!isReadOf(id, request)) return answer;
      return { ...answer, cut: { afterBytes: answer.body.length - 50, how: "end" } };
    },
    shown: "read null bad_request: Malformed multipart body",
  },
  "whose upload breaks the connection": {
    side: "target",
    intercept: (id) => answering((request) => isPutOf(id, request), CUT),
    shown: "write null http_request_failed: ",
  },
  "whose write is answered with a login page": {
    side: "target",
    intercept: (id) =>
      answering((request) => isPutOf(id, request), { status: 200, body: "<html>Please log in" }),
    shown: "write 200 doc_write_failed: 200 from ",
  },
  "whose write is confirmed under another id": {
    side: "target",
    intercept: (id) =>
      answering((request) => isPutOf(id, request), {
        status: 201,
        body: JSON.stringify({ ok: true, id: "other", rev: `1-${"0".repeat(32)}` }),
      }),
    shown: "write 201 doc_write_failed: 201 from ",
  },
  "whose write fails because of a missing attachment": {
    side: "target",
    intercept: (id) =>
      answering((request) => isPutOf(id, request), {
        status: 412,
        body: '{"error":"missing_stub","reason":"Invalid attachment stub"}',
      }),
    shown:
      "write 412 missing_stub: the source did not send an attachment that the target does not have",
  },
  "whose multipart read fails": {
    side: "source",
    intercept: (id) => answering((request) => isReadOf(id, request)),
    shown: "read 500 internal_server_error: badmatch",
  },
  "whose multipart write fails": {
    side: "target",
    intercept: (id) => answering((request) => isPutOf(id, request)),
    shown: "write 500 internal_server_error: badmatch",
  },
  "whose attachment cannot be read separately": {
    side: "source",
    intercept: (id) => async (request, forward) => {
      if (request.path.includes(`/${id}/note`)) return BROKEN;
      // This Accept header makes the server respond like one that does not support multipart.
      if (!request.path.includes("open_revs")) return forward(request);
      return forward({ ...request, headers: { ...request.headers, accept: "application/json" } });
    },
    shown: "read 500 internal_server_error: badmatch",
  },
};

/** All ways to fail. `attached` contains the attachments of the documents. */
const CASES = [
  ...Object.entries(WAYS).map(([name, way]) => ({ name, ...way, attached: {} })),
  ...Object.entries(INDIVIDUAL_WAYS).map(([name, way]) => ({ name, ...way, attached: NOTED })),
];

function databaseOf(...names: readonly string[]): string {
  return names.join("-").replace(/[^a-z]+/g, "-");
}

test.concurrent.each(CASES)(
  "a document $name is listed, the other documents arrive, and a retry delivers the listed document once the cause is gone",
  async ({ name, side, intercept, shown, more, attached }) => {
    const database = databaseOf("skip", name);
    await pair.fill(database, documents(40, attached));
    faults[side].set(database, intercept("doc-23"));
    await start(database, more);
    const job = await documentJob(pair.here, database, "completed");
    expect(job).toMatchObject({
      error_count: 0,
      info: { docs_written: 39, doc_write_failures: 1 },
    });
    expect(await listed(database)).toEqual([expect.stringContaining(`doc-23 ${shown}`)]);
    expect(await pair.ids(database)).not.toContain("doc-23");
    const path = `${pathOf(database)}/_retry`;
    const inVain = await pair.here.call("POST", path, {});
    expect(inVain).toEqual({ status: 200, body: { ok: true, tried: 1, total_rows: 1 } });
    heal(database);
    const delivered = await pair.here.call("POST", path, {});
    expect(delivered).toEqual({ status: 200, body: { ok: true, tried: 1, total_rows: 0 } });
    expect(await pair.ids(database)).toHaveLength(40);
  },
);

test.concurrent.each([
  { place: "over there", target: {} },
  { place: "of the node itself", target: { target: "named-wrongly-copy", create_target: true } },
])(
  "an invalid revision in a changes row is listed, and the other documents arrive at a target $place",
  async ({ place, target }) => {
    const database = databaseOf("named wrongly", place);
    await pair.fill(database, documents(40));
    const wrong = [7, "", "x".repeat(5000), { rev: 1 }];
    faults.source.set(database, async (request, forward) => {
      const answer = await forward(request);
      if (!request.path.includes("/_changes")) return answer;
      const page = JSON.parse(String(answer.body));
      const guilty = page.results.find(({ id }: Row) => id === "doc-23");
      if (guilty !== undefined) guilty.changes = wrong.map((rev) => ({ rev }));
      return { ...answer, body: JSON.stringify(page) };
    });
    await start(database, target);
    const job = await documentJob(pair.here, database, "completed");
    expect(job).toMatchObject({
      error_count: 0,
      info: { docs_written: 39, doc_write_failures: 1 },
    });
    const { body } = await pair.here.call("GET", pathOf(database));
    const reason =
      "revision_invalid: the source's changes name a revision that is not of the form N-hash";
    const shown = new Map(body.failures.map((row: { rev: string }) => [row.rev, row]));
    expect([...shown.keys()].sort()).toEqual(["", "7", "x".repeat(100), '{"rev":1}'].sort());
    for (const row of shown.values()) {
      expect(row).toMatchObject({ id: "doc-23", phase: "read", status: null, reason });
    }
  },
);

/** Names of cases that fail at different steps of copying a document. */
const HELD_UP: ReadonlySet<string> = new Set([
  "whose individual and bulk reads fail",
  "whose bulk write fails",
  "whose response from the source is truncated",
  "whose multipart write fails",
]);

test.concurrent.each(
  CASES.filter(({ name }) => HELD_UP.has(name)).flatMap((way) => [
    { ...way, policy: "crash", state: "crashing" },
    { ...way, policy: "hold", state: "running" },
  ]),
)(
  "$policy: a document $name is not skipped by a checkpoint",
  async ({ name, side, intercept, shown, more, attached, policy, state }) => {
    const database = databaseOf(policy, name);
    await pair.fill(database, documents(20, attached));
    faults[side].set(database, intercept("doc-7"));
    await start(database, { ...more, failure_policy: policy, checkpoint_interval: 100 });
    const { body } = await pair.here.onceAnswered(
      () => pair.here.call("GET", pathOf(database)),
      (answer) => answer.status === 200 && answer.body.failures[0]?.tries > 1,
    );
    expect(body.total_rows).toBe(1);
    expect(await listed(database)).toEqual([expect.stringContaining(`doc-7 ${shown}`)]);
    await documentJob(pair.here, database, state);
    expect(await pair.ids(database)).toHaveLength(19);
    heal(database);
    await documentJob(pair.here, database, "completed");
    expect(await pair.ids(database)).toHaveLength(20);
    expect(await listed(database)).toEqual([]);
  },
);

const isWrite = (request: ProxiedRequest): boolean =>
  request.method === "PUT" || isBulkWrite(request);
const isRead = (request: ProxiedRequest): boolean =>
  isBulkGet(request) || request.path.includes("open_revs");

/** Servers that answer `GET /db`, but fail all requests of one kind. */
const TROUBLES = [
  ["a source that resets the connection during each response", "source", isRead, CUT],
  ["a target that resets the connection during each write", "target", isWrite, CUT],
  ["a target whose disk is full", "target", isWrite, BROKEN],
  ["a source that fails all reads", "source", isRead, BROKEN],
  ["a source that rejects all further reads", "source", isRead, { ...BROKEN, status: 401 }],
] as const;

test.concurrent.each(
  TROUBLES.flatMap(([name, side, isTroubled, answer]) =>
    [3, 60].flatMap((count) =>
      [{}, ATTACHED].map((more) => ({
        name,
        side,
        isTroubled,
        answer,
        count,
        more,
        kind: more === ATTACHED ? "attached" : "plain",
      })),
    ),
  ),
)(
  "$name, $count $kind documents: the job crashes, lists no document, and copies everything once the server recovers",
  async ({ name, side, isTroubled, answer, count, more, kind }) => {
    const database = databaseOf(name, kind, count < 10 ? "few" : "many");
    await pair.fill(database, documents(count, more));
    faults[side].set(database, answering(isTroubled, answer));
    await start(database);
    await crashes(database, 2);
    expect(await listed(database)).toEqual([]);
    heal(database);
    await documentJob(pair.here, database, "completed");
    expect(await pair.ids(database)).toHaveLength(count);
    expect(await listed(database)).toEqual([]);
  },
);

const ILLEGAL_ID = { status: 400, body: '{"error":"illegal_docid","reason":"No partition."}' };

test.concurrent.each([
  // Both `_revs_diff` requests for the first batch fail. The run copies the other batches without
  // sending `_revs_diff`.
  ["fails", undefined, 2],
  ["refuses (because one id is invalid)", ILLEGAL_ID, 1],
] as const)(
  "a target that %s the request for missing revisions still gets the documents",
  async (name, answer, times) => {
    const database = databaseOf("unasked", name);
    await pair.fill(database, documents(40));
    // The replicator sends `_revs_diff` only to a target that is not empty.
    await write(pair.there, database, [{ _id: "other" }]);
    let askedCount = 0;
    const isAsked = (request: ProxiedRequest): boolean => {
      if (!request.path.endsWith("/_revs_diff")) return false;
      askedCount++;
      return true;
    };
    faults.target.set(database, answering(isAsked, answer));
    await start(database, { worker_batch_size: 10, worker_processes: 1 });
    const job = await documentJob(pair.here, database, "completed");
    expect(job).toMatchObject({ error_count: 0, info: { docs_written: 40 } });
    expect(askedCount).toBe(times);
    expect(await listed(database)).toEqual([]);
  },
);

const GONE = { status: 404, body: '{"error":"not_found","reason":"Database does not exist."}' };
const LOCKED = { status: 401, body: '{"error":"unauthorized","reason":"Who are you?"}' };

test.concurrent.each([
  ["a source that is deleted", "source", isRead, GONE, {}],
  ["a source that denies access", "source", isRead, LOCKED, ATTACHED],
  ["a target that denies access", "target", isWrite, LOCKED, ATTACHED],
] as const)(
  "%s during a run crashes the job; no document is listed as failed",
  async (name, side, isFirst, answer, more) => {
    const database = databaseOf("during", name);
    await pair.fill(database, documents(40, more));
    let hasBegun = false;
    faults[side].set(database, async (request, forward) => {
      hasBegun ||= isFirst(request);
      return hasBegun ? answer : forward(request);
    });
    await start(database);
    await crashes(database, 1);
    expect(await listed(database)).toEqual([]);
    heal(database);
    await documentJob(pair.here, database, "completed");
    expect(await pair.ids(database)).toHaveLength(40);
    expect(await listed(database)).toEqual([]);
  },
);

test.concurrent.each([
  ["in bulk", {}],
  ["alone", ATTACHED],
])(
  "a run ends with an error if its target accepts checkpoints but refuses all documents %s",
  async (how, more) => {
    const database = databaseOf("no-document", how);
    await pair.fill(database, documents(40, more));
    faults.target.set(
      database,
      answering((request) => isBulkWrite(request) || request.path.includes("new_edits=false")),
    );
    await start(database);
    await crashes(database, 1);
    expect(await listed(database)).toEqual([]);
    heal(database);
    await documentJob(pair.here, database, "completed");
    expect(await pair.ids(database)).toHaveLength(40);
  },
);

test.concurrent("if several documents make a bulk write fail, all of them are listed, and an unsuccessful retry does not end the run", async () => {
  await pair.fill("together", documents(60));
  const isGuilty = (id: string): boolean => /^doc-1\d$/.test(id);
  faults.target.set(
    "together",
    answering(
      (request) => isBulkWrite(request) && docsOf(request).some((doc) => isGuilty(doc._id)),
    ),
  );
  await start("together", { continuous: true });
  await pair.here.onceAnswered(
    () => listed("together"),
    (rows) => rows.length === 10,
  );
  expect(await pair.ids("together")).toHaveLength(50);
  const path = pathOf("together");
  const inVain = await pair.here.call("POST", `${path}/_retry`, {});
  expect(inVain).toEqual({ status: 200, body: { ok: true, tried: 10, total_rows: 10 } });
  const { body: job } = await pair.here.call("GET", "/_scheduler/docs/_replicator/together");
  expect(job).toMatchObject({ state: "running", error_count: 0 });
  heal("together");
  const delivered = await pair.here.call("POST", `${path}/_retry`, {});
  expect(delivered).toEqual({ status: 200, body: { ok: true, tried: 10, total_rows: 0 } });
  expect(await pair.ids("together")).toHaveLength(60);
});
