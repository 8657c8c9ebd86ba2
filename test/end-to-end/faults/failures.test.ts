/** Documents refused by a target are listed and retried. None of them is silently skipped. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { compare } from "../../support/compare.ts";
import { type HttpProxy, type Intercept, openHttpProxy } from "../../support/faults/http-proxy.ts";
import { Processes, type TandemNode } from "../../support/open-process.ts";
import { load } from "../../support/sample-data.ts";

const processes = new Processes();
const proxies: HttpProxy[] = [];
let here: TandemNode;
let there: TandemNode;

beforeAll(async () => {
  [here, there] = await Promise.all([
    processes.openHere({
      ini: "[replicator]\nmin_backoff_penalty_sec = 1\nmax_backoff_penalty_sec = 2\n",
    }),
    processes.openHere(),
  ]);
});
afterAll(async () => {
  for (const proxy of proxies) await proxy.close();
  await processes.close();
});

async function proxyTo(server: TandemNode): Promise<HttpProxy> {
  const proxy = await openHttpProxy(server.url);
  proxies.push(proxy);
  return proxy;
}

const FORBIDDEN = ["doc-0100", "doc-0700", "doc-1999"];
const UNAUTHORIZED = ["doc-0042"];
const TOO_LARGE = ["doc-0500", "doc-0501"];
/** A document that is copied individually, because its attachment is too large for a bulk write. */
const UNSUPPORTED = "doc-1234";

/** Simulates a target that refuses seven documents in different ways, as real servers do. */
const refuseSeven: Intercept = async (request, forward) => {
  if (request.method === "PUT" && request.path.includes(UNSUPPORTED)) {
    const body = JSON.stringify({ error: "unsupported_media_type", reason: "no flags here" });
    return { status: 415, body };
  }
  if (!request.path.endsWith("/_bulk_docs")) return forward(request);
  const { new_edits, docs } = JSON.parse(request.body.toString("utf8"));
  if (docs.some(({ _id }: { _id: string }) => TOO_LARGE.includes(_id))) {
    const body = JSON.stringify({ error: "document_too_large", reason: "too large" });
    return { status: 413, body };
  }
  const rows: unknown[] = [];
  const taken = docs.filter(({ _id: id, _rev: rev }: { _id: string; _rev: string }) => {
    if (FORBIDDEN.includes(id)) {
      rows.push({ id, rev, error: "forbidden", reason: "not this one" });
      return false;
    }
    // CouchDB omits the revision in some rows of the response.
    if (UNAUTHORIZED.includes(id)) rows.push({ id, error: "unauthorized", reason: "who are you" });
    return !UNAUTHORIZED.includes(id);
  });
  const answer = await forward({
    ...request,
    body: Buffer.from(JSON.stringify({ new_edits, docs: taken })),
  });
  const theirs = JSON.parse(String(answer.body)) as unknown[];
  return { ...answer, body: JSON.stringify([...theirs, ...rows]) };
};

function lines(count: number): string[] {
  return Array.from({ length: count }, (_, number) => {
    const id = `doc-${String(number).padStart(4, "0")}`;
    const attachments =
      id === UNSUPPORTED
        ? { _attachments: { flag: { content_type: "image/png", data: "AAEC".repeat(50_000) } } }
        : {};
    return JSON.stringify({ _id: id, number, ...attachments });
  });
}

function pathOf(jobId: string): string {
  return `/_tandem/jobs/${encodeURIComponent(jobId)}/failures`;
}

test("the failure list names exactly the 7 of 10,000 documents that were refused, and one retry delivers them", async () => {
  await load(here, "seven", lines(10_000));
  const source = await proxyTo(here);
  const target = await proxyTo(there);
  target.intercept(refuseSeven);
  await here.call("PUT", "/_replicator/seven", {
    source: `${source.url}/seven`,
    target: `${target.url}/seven`,
    create_target: true,
  });
  const { body: job } = await here.onceAnswered(
    () => here.call("GET", "/_scheduler/docs/_replicator/seven"),
    ({ body }) => body.state === "completed",
  );
  expect(job.info).toMatchObject({ docs_written: 9993, doc_write_failures: 7 });

  const path = pathOf("_replicator/seven");
  const { body: listed } = await here.call("GET", path);
  expect(listed.total_rows).toBe(7);
  expect(
    listed.failures.map(({ id, phase, status, tries }: Record<string, unknown>) => [
      id,
      phase,
      status,
      tries,
    ]),
  ).toEqual([
    ["doc-0042", "write", 401, 1],
    ["doc-0100", "write", 403, 1],
    ["doc-0500", "write", 413, 1],
    ["doc-0501", "write", 413, 1],
    ["doc-0700", "write", 403, 1],
    ["doc-1234", "write", 415, 1],
    ["doc-1999", "write", 403, 1],
  ]);
  for (const { id, rev, reason, first, last } of listed.failures) {
    expect(rev).toBe((await here.call("GET", `/seven/${id}`)).body._rev);
    expect(reason).toMatch(/^[a-z_]+: .+/);
    expect([first, last].every((time) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(time))).toBe(
      true,
    );
  }
  expect((await here.call("GET", `${path}?skip=2&limit=1`)).body).toMatchObject({
    total_rows: 7,
    failures: [{ id: "doc-0500" }],
  });
  const { body: counted } = await here.call("GET", `${path}/_counts`);
  expect(
    counted.counts.map(({ status, count }: Record<string, unknown>) => [status, count]),
  ).toEqual([
    [401, 1],
    [403, 3],
    [413, 2],
    [415, 1],
  ]);

  // The cause persists, so each retry fails again.
  const inVain = await here.call("POST", `${path}/_retry`, {});
  expect(inVain).toEqual({ status: 200, body: { ok: true, tried: 7, total_rows: 7 } });
  const { body: again } = await here.call("GET", path);
  expect(again.failures.every(({ tries }: { tries: number }) => tries === 2)).toBe(true);

  // Retries three documents. Two of them are on the failure list.
  const ids = ["doc-0100", "doc-1999", "doc-0001"];
  const some = await here.call("POST", `${path}/_retry`, { ids });
  expect(some).toEqual({ status: 200, body: { ok: true, tried: 2, total_rows: 7 } });
  const { body: third } = await here.call("GET", path);
  expect(third.failures.map(({ tries }: { tries: number }) => tries)).toEqual([
    2, 3, 2, 2, 2, 2, 3,
  ]);
  for (const wrong of [{ ids: "doc-0100" }, { ids: [1] }, { ids: Array(101).fill("a") }]) {
    expect(await here.call("POST", `${path}/_retry`, wrong)).toMatchObject({ status: 400 });
  }

  target.intercept((request, forward) => forward(request));
  const before = source.requests.length;
  const delivered = await here.call("POST", `${path}/_retry`, {});
  expect(delivered).toEqual({ status: 200, body: { ok: true, tried: 7, total_rows: 0 } });
  expect((await here.call("GET", path)).body).toEqual({ total_rows: 0, failures: [] });
  const read = source.requests.slice(before).filter(({ method, path: read }) => {
    return method === "POST" || read.includes("open_revs");
  });
  expect(read.map((request) => request.path.replace(/\?.*/, ""))).toEqual([
    "/seven/_bulk_get",
    `/seven/${UNSUPPORTED}`,
  ]);
  expect(JSON.parse(String(read[0]?.body)).docs).toHaveLength(7);
  expect(source.requests.slice(before).some((request) => request.path.includes("_changes"))).toBe(
    false,
  );
  expect((await compare(`${here.url}/seven`, `${there.url}/seven`)).differences).toEqual([]);
  const { body: document } = await here.call("GET", "/_scheduler/docs/_replicator/seven");
  expect(document.state).toBe("completed");
});

test("a continuous job retries failed documents while it runs, and drops a failed revision when a later revision of the document arrives", async () => {
  await load(here, "stream", ['{"_id":"one"}', '{"_id":"two"}', '{"_id":"three"}']);
  const target = await proxyTo(there);
  const refuse: Intercept = async (request, forward) => {
    if (!request.path.endsWith("/_bulk_docs")) return forward(request);
    const { docs } = JSON.parse(request.body.toString("utf8"));
    const rows = docs.map(({ _id: id, _rev: rev }: { _id: string; _rev: string }) => {
      return { id, rev, error: "forbidden", reason: "closed" };
    });
    return { status: 201, body: JSON.stringify(rows) };
  };
  target.intercept(refuse);
  const { body: started } = await here.call("POST", "/_replicate", {
    source: "stream",
    target: `${target.url}/stream`,
    create_target: true,
    continuous: true,
  });
  const path = pathOf(started._local_id);
  await here.onceAnswered(
    () => here.call("GET", path),
    ({ body }) => body.total_rows === 3,
  );
  target.intercept((request, forward) => forward(request));
  const { body: one } = await here.call("GET", "/stream/one");
  await here.call("PUT", "/stream/one", { _rev: one._rev, more: 1 });
  const { body: left } = await here.onceAnswered(
    () => here.call("GET", path),
    ({ body }) => body.total_rows === 2,
  );
  expect(left.failures.map(({ id }: { id: string }) => id)).toEqual(["three", "two"]);
  // A paused job accepts a retry, and performs the retry when the job is resumed. The response is
  // sent immediately.
  const job = `/_tandem/jobs/${encodeURIComponent(started._local_id)}`;
  await here.call("POST", `${job}/_pause`, {});
  const resting = await here.call("POST", `${path}/_retry`, {});
  expect(resting).toEqual({ status: 202, body: { ok: true, tried: 2, total_rows: 2 } });
  expect((await here.call("GET", job)).body).toMatchObject({ paused: true });
  await here.call("POST", `${job}/_resume`, {});
  await here.onceAnswered(
    () => here.call("GET", path),
    ({ body }) => body.total_rows === 0,
  );
  const retried = await here.call("POST", `${path}/_retry`, {});
  expect(retried).toEqual({ status: 200, body: { ok: true, tried: 0, total_rows: 0 } });
  expect((await compare(`${here.url}/stream`, `${there.url}/stream`)).differences).toEqual([]);
  await here.call("POST", "/_replicate", { replication_id: started._local_id, cancel: true });
});

/** Opens a target. The target refuses one document while `isClosed` is true. */
async function closedTarget() {
  const target = await proxyTo(there);
  const gate = { isClosed: true, url: target.url };
  target.intercept(async (request, forward) => {
    if (!gate.isClosed || !request.path.endsWith("/_bulk_docs")) return forward(request);
    const body = JSON.parse(request.body.toString("utf8"));
    const docs = body.docs.filter(({ _id: id }: { _id: string }) => id !== "bad");
    const answer = await forward({
      ...request,
      body: Buffer.from(JSON.stringify({ ...body, docs })),
    });
    if (docs.length === body.docs.length) return answer;
    return { status: 201, body: '[{"id":"bad","error":"forbidden","reason":"closed"}]' };
  });
  return gate;
}

test.each(["hold", "crash"])("a job with the policy %s never skips a document", async (policy) => {
  const database = `policy-${policy}`;
  await load(here, database, ['{"_id":"good"}', '{"_id":"bad"}']);
  const gate = await closedTarget();
  const document = `_replicator/${database}`;
  await here.call("PUT", `/${document}`, {
    source: database,
    target: `${gate.url}/${database}`,
    create_target: true,
    failure_policy: policy,
    checkpoint_interval: 100,
  });
  const { body: failures } = await here.onceAnswered(
    () => here.call("GET", pathOf(document)),
    ({ status, body }) => status === 200 && body.total_rows === 1 && body.failures[0].tries > 1,
  );
  expect(failures.failures[0]).toMatchObject({
    id: "bad",
    reason: expect.stringContaining("closed"),
  });
  const { body: job } = await here.onceAnswered(
    () => here.call("GET", `/_scheduler/docs/${document}`),
    ({ body }) => body.state === (policy === "hold" ? "running" : "crashing"),
  );
  const { body: changes } = await here.call("GET", `/${database}/_changes`);
  expect(changes.results.map(({ id }: { id: string }) => id)).toEqual(["good", "bad"]);
  // The checkpoint can be past `good`, but must not be past `bad`.
  if (policy === "hold") expect(job.info.checkpointed_source_seq).not.toBe(changes.last_seq);
  else expect(job.info.error).toMatch(/document_failed: 1-.* of bad: forbidden: closed/);
  gate.isClosed = false;
  await here.onceAnswered(
    () => here.call("GET", `/_scheduler/docs/${document}`),
    ({ body }) => body.state === "completed",
  );
  const comparison = await compare(`${here.url}/${database}`, `${there.url}/${database}`);
  expect(comparison.differences).toEqual([]);
});

test.each([true, false])(
  "failed documents are retried on schedule (continuous: %s)",
  async (continuous) => {
    const database = `schedule-${continuous}`;
    await load(here, database, ['{"_id":"good"}', '{"_id":"bad"}']);
    const gate = await closedTarget();
    const document = `_replicator/${database}`;
    await here.call("PUT", `/${document}`, {
      source: database,
      target: `${gate.url}/${database}`,
      create_target: true,
      continuous,
      failure_retry_sec: 1,
    });
    await here.onceAnswered(
      () => here.call("GET", pathOf(document)),
      ({ body }) => body.total_rows === 1 && body.failures[0].tries > 1,
    );
    gate.isClosed = false;
    await here.onceAnswered(
      () => here.call("GET", pathOf(document)),
      ({ body }) => body.total_rows === 0,
    );
    expect((await there.call("GET", `/${database}/bad`)).status).toBe(200);
  },
);

test.each([
  ["without attachments", {}],
  ["with attachments", { _attachments: { flag: { content_type: "image/png", data: "AAEC" } } }],
])(
  "a document that cannot be written is listed, and does not delay other documents, %s",
  async (kind, attachments) => {
    const database = `strange-${kind.replace(" ", "-")}`;
    await load(there, database, [
      '{"_id":"good"}',
      JSON.stringify({ _id: "strange", known: true, ...attachments }),
    ]);
    const source = await proxyTo(there);
    source.intercept(async (request, forward) => {
      const answer = await forward(request);
      const text = Buffer.from(answer.body).toString("latin1").replace('"known":', '"_unknown":');
      return { ...answer, body: Buffer.from(text, "latin1") };
    });
    const { status, body } = await here.call("POST", "/_replicate", {
      source: `${source.url}/${database}`,
      target: database,
      create_target: true,
    });
    expect([status, body.history?.[0]]).toMatchObject([
      200,
      { docs_written: 1, doc_write_failures: 1 },
    ]);
    const { body: all } = await here.call("GET", "/_tandem/jobs?limit=1000");
    const { id } = all.jobs.find((job: { target: string }) => job.target.includes(database));
    const { body: listed } = await here.call("GET", pathOf(id));
    expect(listed).toMatchObject({
      total_rows: 1,
      failures: [{ id: "strange", reason: expect.stringContaining("_unknown") }],
    });
    expect(listed.failures[0].rev).toMatch(/^1-[0-9a-f]{32}$/);
  },
);

test("a replication does not restart at the beginning if its source accepts no checkpoint", async () => {
  await load(there, "read-only", ['{"_id":"one"}', '{"_id":"two"}']);
  const source = await proxyTo(there);
  // Requests that a proxy forbids: PUT, `_ensure_full_commit`, and at first also the request that
  // continues a checkpoint.
  let forbidden = /_ensure_full_commit|_continue/;
  source.intercept(async (request, forward) => {
    const isWrite = request.method === "PUT" || forbidden.test(request.path);
    if (!isWrite) return forward(request);
    return { status: 403, body: '{"error":"forbidden","reason":"read only"}' };
  });
  const body = { source: `${source.url}/read-only`, target: "read-only-copy", create_target: true };
  const first = await here.call("POST", "/_replicate", body);
  expect([first.status, first.body.history?.[0].docs_written]).toEqual([200, 2]);
  const again = await here.call("POST", "/_replicate", body);
  expect([again.status, again.body.no_changes]).toEqual([200, true]);
  await there.call("PUT", "/read-only/three", {});
  forbidden = /_ensure_full_commit/;
  const more = await here.call("POST", "/_replicate", body);
  expect([more.status, more.body.history?.length]).toEqual([200, 2]);
  expect(more.body.history[0].start_last_seq).toBe(first.body.source_last_seq);
  // After the target is re-created, it lacks the documents that the source's log describes as
  // copied.
  await here.call("DELETE", "/read-only-copy");
  const recreated = await here.call("POST", "/_replicate", body);
  expect([recreated.status, recreated.body.history?.[0].docs_written]).toEqual([200, 3]);
});

test("requesting the failure list of an unknown job fails", async () => {
  expect(await here.call("GET", pathOf("nosuch"))).toMatchObject({ status: 404 });
  expect(await here.call("GET", pathOf("_replicator/nosuch"))).toMatchObject({ status: 404 });
  expect(await here.call("POST", `${pathOf("nosuch")}/_retry`, {})).toMatchObject({ status: 404 });
});
