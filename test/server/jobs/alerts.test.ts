/** `[alerts]` notifies a receiver of job events over HTTP. */
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";
import { call } from "../../support/open-process.ts";

const SECRET = "the secret of the receiver";

interface Message {
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: JSON of the server
  readonly body: any;
  readonly headers: IncomingHttpHeaders;
}

let server: RunningServer;
let receiver: Server;
let url: string;
/** Error statuses that the receiver returns before its first success. */
let refusals: number[] = [];
let messages: Message[] = [];
const wake: (() => void)[] = [];
const announced: { readonly name: string; readonly fields: object }[] = [];

const ask = (method: string, path: string, body?: unknown) =>
  call(`${server.url}${path}`, method, body);
const set = (section: string, key: string, text: string) =>
  ask("PUT", `/_node/_local/_config/${section}/${key}`, JSON.stringify(text));

function changed(): void {
  for (const go of wake.splice(0)) go();
}

/** Waits for a matching message or announced event. */
async function until<T>(find: () => T | undefined): Promise<T> {
  for (;;) {
    const found = find();
    if (found !== undefined) return found;
    await new Promise<void>((resolve) => wake.push(resolve));
  }
}

const message = (event: string, status: string): Promise<Message> =>
  until(() => messages.find(({ body }) => body.event === event && body.status === status));

beforeAll(async () => {
  receiver = createServer(async (request, response) => {
    let text = "";
    for await (const piece of request) text += piece;
    messages.push({ text, body: JSON.parse(text), headers: request.headers });
    response.writeHead(refusals.shift() ?? 204).end();
    changed();
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
  server = await openServer(readConfig({ port: 0, store: "memory" }, {}), {
    event: (name, fields) => {
      announced.push({ name, fields });
      changed();
    },
  });
  await set("alerts", "secret", SECRET);
  await set("alerts", "events", "failing, rule_failing, finished");
  await set("alerts", "url", url);
  await ask("PUT", "/_replicator");
});
afterAll(async () => {
  await server.stop();
  receiver.closeAllConnections();
  receiver.close();
});
beforeEach(() => {
  messages = [];
  refusals = [];
});

test("a failing job is reported in one signed message without secrets, and the message is resent until the receiver accepts it", async () => {
  refusals = [500, 302];
  const source = "http://jan:hunter2@127.0.0.1:9/nowhere?token=hunter2";
  await ask("PUT", "/_replicator/bad", { source, target: "b", continuous: true });
  const third = await until(() => messages[2]);
  expect(new Set(messages.map(({ body }) => body.id)).size).toBe(1);
  const { text, body, headers } = third;
  expect(body).toMatchObject({
    event: "failing",
    status: "firing",
    breach: body.id,
    job: { doc_id: "bad", failing: true, last_failure: { class: "unreachable" } },
  });
  expect(headers["x-tandem-alert"]).toBe(body.id);
  const expected = createHmac("sha256", SECRET).update(text).digest("hex");
  expect(headers["x-tandem-signature"]).toBe(`sha256=${expected}`);
  expect(Math.abs(Date.parse(body.sent) - Date.now())).toBeLessThan(600_000);
  expect(text).not.toContain("hunter2");
  // The job crashes again. No message reports this crash: the next message is about another job.
  const tries = () => announced.filter(({ name }) => name === "replication.crashed").length;
  const before = tries();
  await until(() => (tries() > before ? true : undefined));
  await ask("PUT", "/_replicator/gone", { source: "nowhere", target: "c" });
  await until(() => messages.find(({ body: { job } }) => job?.doc_id === "gone"));
  expect(messages.filter(({ body: { job } }) => job?.doc_id === "bad")).toHaveLength(3);
  await ask("POST", "/_tandem/jobs/_cancel?all=true");
  const resolved = await until(() =>
    messages.find((each) => each.body.breach === body.id && each.body.status === "resolved"),
  );
  expect(resolved.body).toMatchObject({ event: "failing", job: null });
});

test("the end of a job is reported", async () => {
  await ask("PUT", "/from");
  await ask("PUT", "/_replicator/once", { source: "from", target: "to", create_target: true });
  const { body } = await message("finished", "completed");
  expect(body.job).toMatchObject({ doc_id: "once", state: "completed" });
});

test("a rejected message is dropped, and the next message is sent", async () => {
  refusals = [400];
  await ask("PUT", "/_replicator/rejected", { source: "nowhere", target: "d" });
  const { fields } = await until(() => announced.find(({ name }) => name === "alerts.rejected"));
  expect(fields).toMatchObject({ kind: "failing", count: 1, error: "HTTP status 400" });
  expect((await ask("GET", "/_tandem/alerts")).body).toMatchObject({
    waiting: 0,
    rejected: 1,
    failure: { error: "HTTP status 400", dropped: true },
  });
  expect(await ask("POST", "/_tandem/alerts/_test")).toEqual({ status: 200, body: { ok: true } });
  const { body } = await message("test", "firing");
  expect(body).toMatchObject({ job: null, count: 1 });
  expect((await ask("GET", "/_tandem/alerts")).body).toMatchObject({ failure: null });
  refusals = [404];
  const refused = await ask("POST", "/_tandem/alerts/_test");
  expect(refused).toEqual({
    status: 502,
    body: {
      error: "alert_refused",
      reason: "The receiver has not accepted the test alert: HTTP status 404",
    },
  });
  await ask("POST", "/_tandem/jobs/_cancel?all=true");
});

test("jobs that fail for the same cause are reported in one message", async () => {
  await set("alerts", "group_sec", "0");
  await set("replicator.egress", "deny", "127.0.0.0/8");
  const docs = Array.from({ length: 5 }, (_, index) => ({
    _id: `group-${index}`,
    source: `http://127.0.0.1:9/${index}`,
    target: "e",
    continuous: true,
  }));
  await ask("POST", "/_replicator/_bulk_docs", { docs });
  const before = announced.length;
  const failed = () =>
    announced
      .slice(before)
      .flatMap(({ name, fields }) =>
        name === "replication.crashed" && "jobId" in fields ? [fields.jobId] : [],
      );
  await until(() => (new Set(failed()).size >= docs.length ? true : undefined));
  await set("replicator.egress", "deny", "");
  const counted = () => messages.filter(({ body }) => body.status === "firing");
  const sum = () => counted().reduce((total, { body }) => total + body.count, 0);
  await until(() => (sum() === 5 ? true : undefined));
  const [first] = counted();
  expect(counted().length).toBeLessThan(5);
  expect(first?.body).toMatchObject({ class: "egress", side: "source", host: "127.0.0.1:9" });
  expect(first?.body.alerts[0]).toMatchObject({ id: first?.body.id, name: expect.any(String) });
  await ask("POST", "/_tandem/jobs/_cancel?all=true");
});

test("a rule that cannot list its source is reported until the rule is removed", async () => {
  const body = {
    source: { url: "http://jan:hunter2@127.0.0.1:9/" },
    target: { url: `${server.url}/copy-{db}` },
    databases: ["*"],
  };
  expect((await ask("PUT", "/_tandem/rules/lost", body)).status).toBe(201);
  const firing = await message("rule_failing", "firing");
  expect(firing.body).toMatchObject({
    ...{ class: "unreachable", side: "source", host: "127.0.0.1:9", rule: "lost" },
    ...{ job_id: null, job: null, count: 1, alerts: [{ name: "lost" }] },
  });
  expect(firing.text).not.toContain("hunter2");
  await ask("DELETE", "/_tandem/rules/lost");
  const { body: resolved } = await message("rule_failing", "resolved");
  expect(resolved).toMatchObject({ breach: firing.body.id, rule: "lost" });
});

test("egress rules also apply to connections to the receiver", async () => {
  await set("replicator.egress", "deny", "127.0.0.0/8");
  await ask("PUT", "/_replicator/denied", { source: "from", target: "too", create_target: true });
  const { fields } = await until(() =>
    announced.find(
      ({ fields }) => "error" in fields && String(fields.error).includes("127.0.0.0/8"),
    ),
  );
  expect(fields).toMatchObject({ failureCount: 1 });
  expect(messages).toEqual([]);
  await set("replicator.egress", "deny", "");
  expect((await message("finished", "completed")).body.job.doc_id).toBe("denied");
});

test("settings of alerts are validated, and the secret is not shown", async () => {
  expect((await ask("GET", "/_node/_local/_config/alerts/secret")).body).toBe("****");
  for (const [key, text] of [
    ["url", "ftp://host/"],
    ["url", "http://jan:hunter2@host/"],
    ["url", "http://hunter2@host/"],
    ["events", "failing, nonsense"],
    ["timeout_sec", "0"],
    ["lag_sec", "soon"],
  ] as const) {
    const { status, body } = await set("alerts", key, text);
    expect([key, status]).toEqual([key, 400]);
    expect(JSON.stringify(body)).not.toContain("hunter2");
  }
  const metrics = await (await fetch(`${server.url}/_node/_local/_prometheus`)).text();
  expect(Number(/^tandem_alerts_sent_total (\d+)$/m.exec(metrics)?.[1])).toBeGreaterThan(2);
  expect(Number(/^tandem_alerts_failures_total (\d+)$/m.exec(metrics)?.[1])).toBeGreaterThan(2);
});
