/**
 * Replication with PouchDB's HTTP server, in both directions and over a network with faults: plain
 * documents, conflicts, deletions, and pulled attachments. The server does not send multipart and
 * crashes when it receives multipart, so no attachments are pushed to it.
 * `end-to-end/faults/faults.test.ts` tests truncated multipart.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compare } from "../support/compare.ts";
import { type HttpProxy, openHttpProxy } from "../support/faults/http-proxy.ts";
import {
  FAULT_NAMES,
  truncatedMultipart,
  unreliable,
  withSessions,
} from "../support/faults/unreliable.ts";
import { call, Processes, type TandemProcess } from "../support/open-process.ts";
import { load, sampleLines } from "../support/sample-data.ts";

const SERVER = fileURLToPath(new URL("../support/pouchdb-server.cjs", import.meta.url));
const ROUNDS = 3;
/** Number of requests after which the first session expires. Later sessions do not expire. */
const SESSION_REQUEST_COUNT = 40;

const processes = new Processes();
const proxies: HttpProxy[] = [];
let tandem: TandemProcess;
let pouch: ChildProcess;
let pouchUrl: string;

beforeAll(async () => {
  const ini = "[replicator]\nmin_backoff_penalty_sec = 1\nmax_backoff_penalty_sec = 2\n";
  tandem = await processes.open({ ini });
  pouch = spawn(process.execPath, [SERVER], { stdio: ["ignore", "pipe", "inherit"] });
  if (pouch.stdout === null) throw new Error("The server's output is piped");
  const [line] = await once(createInterface({ input: pouch.stdout }), "line");
  pouchUrl = String(line).replace("listening on ", "");
});
afterAll(async () => {
  for (const proxy of proxies) await proxy.close();
  const ended = once(pouch, "exit");
  pouch.kill();
  await ended;
  await processes.close();
});

const films = sampleLines("films").slice(0, 600);
const branch = (letter: string) => letter.repeat(32);

/** Writes films, among them a conflict and a deletion. */
async function write(server: { readonly url: string }, database: string): Promise<void> {
  const post = (method: string, path: string, body?: unknown) =>
    call(`${server.url}${path}`, method, body);
  await load({ call: post }, database, films);
  const revision = (id: string, letter: string, more: object = {}) => ({
    _id: id,
    _rev: `2-${branch(letter)}`,
    _revisions: { start: 2, ids: [branch(letter), branch("a")] },
    ...more,
  });
  const docs = [
    revision("conflict", "b", { side: "left" }),
    revision("conflict", "c", { side: "right" }),
    revision("gone", "b", { _deleted: true }),
  ];
  await post("POST", `/${database}/_bulk_docs`, { new_edits: false, docs });
}

describe.each(["pulled", "pushed"])("a database %s despite faults", (way) => {
  test("films, conflicts and deletions are copied completely, and the counters are correct", async () => {
    const isPull = way === "pulled";
    const database = `films-${way}`;
    await write(isPull ? { url: pouchUrl } : tandem, database);
    const proxy = await openHttpProxy(pouchUrl);
    proxies.push(proxy);
    const faultCount = FAULT_NAMES.length * ROUNDS;
    const faults = unreliable(7, faultCount);
    const sessions = withSessions(faults.intercept, SESSION_REQUEST_COUNT);
    proxy.intercept(sessions.intercept);
    const remote = `${proxy.url.replace("://", "://joe:word@")}/${database}`;
    const document = `/_replicator/${database}`;
    await tandem.call("PUT", document, {
      ...(isPull ? { source: remote, target: database } : { source: database, target: remote }),
      create_target: true,
      connection_timeout: 1000,
      worker_batch_size: 10,
    });
    const { body: ended } = await tandem.onceAnswered(
      () => tandem.call("GET", `/_scheduler/docs${document}`),
      ({ body }) => body.state === "completed" || body.state === "failed",
    );
    expect([ended.state, ended.info.doc_write_failures]).toEqual(["completed", 0]);
    const struck = [...faults.counts.values()].reduce((sum, count) => sum + count, 0);
    expect([struck, sessions.expiredCount() > 0]).toEqual([faultCount, true]);
    // After an aborted run, the next run reads and counts documents again, but each document is
    // written once.
    const { docs_read: read, docs_written: written } = ended.info;
    expect([read >= written, written <= films.length + 3]).toEqual([true, true]);
    const id = encodeURIComponent(`_replicator/${database}`);
    const { body: failures } = await tandem.call("GET", `/_tandem/jobs/${id}/failures`);
    expect(failures).toEqual({ total_rows: 0, failures: [] });
    const comparison = await compare(`${tandem.url}/${database}`, `${pouchUrl}/${database}`);
    expect(comparison.differences).toEqual([]);
    expect(comparison).toMatchObject({
      documentCount: films.length + 2,
      leafCount: films.length + 3,
    });
  });
});

test("attachments are pulled completely despite faults, one per request because the server does not send multipart", async () => {
  const database = "countries";
  const post = (method: string, path: string, body?: unknown) =>
    call(`${pouchUrl}${path}`, method, body);
  await load({ call: post }, database, sampleLines("countries").slice(0, 30));
  const proxy = await openHttpProxy(pouchUrl);
  proxies.push(proxy);
  const faultCount = FAULT_NAMES.length * ROUNDS;
  const { intercept, counts } = unreliable(11, faultCount);
  const multipart = truncatedMultipart();
  proxy.intercept((request, forward) =>
    multipart.intercept(request, (asked) => intercept(asked, forward)),
  );
  await tandem.call("PUT", `/_replicator/${database}`, {
    source: `${proxy.url}/${database}`,
    target: database,
    create_target: true,
    connection_timeout: 1000,
    worker_batch_size: 5,
    use_bulk_get: false,
  });
  const { body: ended } = await tandem.onceAnswered(
    () => tandem.call("GET", `/_scheduler/docs/_replicator/${database}`),
    ({ body }) => body.state === "completed" || body.state === "failed",
  );
  expect([ended.state, ended.info.doc_write_failures]).toEqual(["completed", 0]);
  expect([...counts.values()].reduce((sum, count) => sum + count, 0)).toBe(faultCount);
  expect(multipart.counts.size).toBe(0);
  const comparison = await compare(`${tandem.url}/${database}`, `${pouchUrl}/${database}`);
  expect(comparison).toMatchObject({ documentCount: 30, attachmentCount: 30, differences: [] });
  const flag = await fetch(`${tandem.url}/${database}/ABW/flag.svg`);
  const original = await fetch(`${pouchUrl}/${database}/ABW/flag.svg`);
  expect(await flag.text()).toBe(await original.text());
});
