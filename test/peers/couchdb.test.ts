/**
 * Replication with a real CouchDB, by Tandem's replicator and by CouchDB's. The tests run if
 * `COUCHDB_URL` is set and contains an administrator's credentials:
 * `COUCHDB_URL=http://user:password@127.0.0.1:5984 npx vitest run test/peers`.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { onceThere } from "../support/changes-feed.ts";
import { compare } from "../support/compare.ts";
import { type HttpProxy, openHttpProxy } from "../support/faults/http-proxy.ts";
import {
  CUT_WAYS,
  FAULT_NAMES,
  truncatedMultipart,
  unreliable,
} from "../support/faults/unreliable.ts";
import { writeOddDocuments } from "../support/odd-documents.ts";
import { type Answer, Processes, type TandemProcess } from "../support/open-process.ts";
import { load, sampleLines } from "../support/sample-data.ts";

const COUCHDB_URL = process.env.COUCHDB_URL;

describe.skipIf(COUCHDB_URL === undefined)("with a CouchDB", () => {
  const { origin, username, password } = new URL(COUCHDB_URL ?? "http://127.0.0.1");
  const withUser = origin.replace("://", `://${username}:${password}@`);
  const processes = new Processes();
  const proxies: HttpProxy[] = [];
  let tandem: TandemProcess;

  const couchdb = {
    call: async (method: string, path: string, body?: unknown): Promise<Answer> => {
      const response = await fetch(origin + path, {
        method,
        headers: {
          "content-type": "application/json",
          authorization: `Basic ${btoa(`${username}:${password}`)}`,
        },
        ...(body === undefined
          ? {}
          : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      });
      return { status: response.status, body: await response.json() };
    },
  };

  beforeAll(async () => {
    const ini = "[replicator]\nmin_backoff_penalty_sec = 1\nmax_backoff_penalty_sec = 2\n";
    tandem = await processes.open({ ini });
    const { body } = await couchdb.call("GET", "/_all_dbs");
    for (const name of body as string[]) {
      if (name.startsWith("tandem-test-")) await couchdb.call("DELETE", `/${name}`);
    }
  });
  afterAll(async () => {
    for (const proxy of proxies) await proxy.close();
    await processes.close();
  });

  const films = sampleLines("films");
  const countries = sampleLines("countries");

  test.each([
    ["films", films],
    ["countries with their flags", countries],
  ])("Tandem's replicator copies %s to CouchDB and back", async (name, lines) => {
    const database = `tandem-test-ours-${name.slice(0, 5)}`;
    await load(tandem, database, lines);
    const there = `${withUser}/${database}`;
    const back = `${database}-back`;
    for (const [source, target] of [
      [database, there],
      [there, back],
    ]) {
      const { status, body } = await tandem.call("POST", "/_replicate", {
        source,
        target,
        create_target: true,
      });
      expect([status, body.history?.[0].docs_written]).toEqual([200, lines.length]);
      const again = await tandem.call("POST", "/_replicate", {
        source,
        target,
        create_target: true,
      });
      expect(again.body.no_changes).toBe(true);
    }
    expect(await compare(`${tandem.url}/${database}`, there)).toMatchObject({
      documentCount: lines.length,
      differenceCount: 0,
    });
    expect(
      (await compare(`${tandem.url}/${database}`, `${tandem.url}/${back}`)).differenceCount,
    ).toBe(0);
  });

  test.each([
    ["films", films],
    ["countries with their flags", countries],
  ])("CouchDB's replicator copies %s to CouchDB and back", async (name, lines) => {
    const database = `tandem-test-its-${name.slice(0, 5)}`;
    await load(tandem, database, lines);
    const ours = `${tandem.url}/${database}`;
    const there = `${withUser}/${database}`;
    const back = `${ours}-back`;
    for (const [source, target] of [
      [ours, there],
      [there, back],
    ]) {
      const { status, body } = await couchdb.call("POST", "/_replicate", {
        source,
        target,
        create_target: true,
      });
      expect([status, body.history?.[0].docs_written, body.reason]).toEqual([
        200,
        lines.length,
        undefined,
      ]);
    }
    expect((await compare(ours, there)).differenceCount).toBe(0);
    expect((await compare(ours, back)).differenceCount).toBe(0);
  });

  test("both replicators copy unusual documents in both directions", async () => {
    const database = "tandem-test-odd";
    await couchdb.call("PUT", `/${database}`);
    await writeOddDocuments(couchdb.call, database);
    const there = `${withUser}/${database}`;
    const pulled = await tandem.call("POST", "/_replicate", {
      source: there,
      target: "odd",
      create_target: true,
    });
    expect(pulled.status).toBe(200);
    expect((await compare(there, `${tandem.url}/odd`)).differences).toEqual([]);
    const pushed = await tandem.call("POST", "/_replicate", {
      source: "odd",
      target: `${there}-back`,
      create_target: true,
    });
    expect(pushed.status).toBe(200);
    expect((await compare(there, `${there}-back`)).differences).toEqual([]);
    const byCouch = await couchdb.call("POST", "/_replicate", {
      source: `${tandem.url}/odd`,
      target: `${there}-pulled`,
      create_target: true,
    });
    expect(byCouch.status).toBe(200);
    expect((await compare(there, `${there}-pulled`)).differences).toEqual([]);
    const byCouchBack = await couchdb.call("POST", "/_replicate", {
      source: there,
      target: `${tandem.url}/odd-pushed`,
      create_target: true,
    });
    expect(byCouchBack.status).toBe(200);
    expect((await compare(there, `${tandem.url}/odd-pushed`)).differences).toEqual([]);
  });

  /** Runs the job of a replication document, and returns the job when it has ended. */
  const ended = async (database: string, body: object): Promise<Answer["body"]> => {
    const document = `/_replicator/${database}`;
    expect((await tandem.call("PUT", document, body)).status).toBe(201);
    const { body: job } = await tandem.onceAnswered(
      () => tandem.call("GET", `/_scheduler/docs${document}`),
      ({ body: { state } }) => state === "completed" || state === "failed",
    );
    return job;
  };

  test.each([
    ["pulled", "faults", () => unreliable(5, FAULT_NAMES.length * 3), FAULT_NAMES.length],
    ["pushed", "faults", () => unreliable(5, FAULT_NAMES.length * 3), FAULT_NAMES.length],
    ["pulled", "multipart bodies that are cut short", truncatedMultipart, CUT_WAYS.length],
  ] as const)(
    "countries with their flags are %s completely despite %s",
    async (way, fault, openFaults, faultCount) => {
      const isPull = way === "pulled";
      const database = `tandem-test-${way}-${fault.slice(0, 5)}`;
      await load(isPull ? couchdb : tandem, database, countries);
      const proxy = await openHttpProxy(origin);
      proxies.push(proxy);
      const { intercept, counts } = openFaults();
      proxy.intercept(intercept);
      const remote = `${proxy.url.replace("://", `://${username}:${password}@`)}/${database}`;
      const job = await ended(database, {
        ...(isPull ? { source: remote, target: database } : { source: database, target: remote }),
        create_target: true,
        connection_timeout: 1000,
        worker_batch_size: 10,
      });
      expect([job.state, job.info.doc_write_failures, counts.size]).toEqual([
        "completed",
        0,
        faultCount,
      ]);
      const comparison = await compare(`${tandem.url}/${database}`, `${withUser}/${database}`);
      expect(comparison).toMatchObject({
        documentCount: countries.length,
        attachmentCount: countries.length,
        differences: [],
      });
    },
  );

  test("a continuous job copies changes from a CouchDB, and ends when its document is deleted", async () => {
    const database = "tandem-test-follow";
    await couchdb.call("PUT", `/${database}`);
    const { status } = await tandem.call("PUT", "/_replicator/follow", {
      source: `${withUser}/${database}`,
      target: "followed",
      create_target: true,
      continuous: true,
    });
    expect(status).toBe(201);
    await couchdb.call("PUT", `/${database}/one`, {});
    await onceThere(tandem.url, "followed", (ids) => ids.has("one"));
    await tandem.call(
      "DELETE",
      `/_replicator/follow?rev=${(await tandem.call("GET", "/_replicator/follow")).body._rev}`,
    );
    await tandem.onceAnswered(
      () => tandem.call("GET", "/_active_tasks"),
      ({ body }) => body.length === 0,
    );
  });
});
