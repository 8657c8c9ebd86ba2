/**
 * Replication from and to servers that implement a part of CouchDB's protocol: conflicts,
 * deletions, attachments, checkpoints and continuous jobs.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compare } from "../support/compare.ts";
import { type HttpProxy, openHttpProxy } from "../support/faults/http-proxy.ts";
import { ODD_IDS, writeOddDocuments } from "../support/odd-documents.ts";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { load, sampleLines } from "../support/sample-data.ts";
import {
  CLOUDANT,
  COUCHDB_1,
  COUCHDB_2,
  type Implementation,
  READ_ONLY,
  SYNC_GATEWAY_4,
} from "./implementations/implementations.ts";

const FILMS = sampleLines("films").slice(0, 60);
/** The proxy cannot send "..". */
const IDS = ODD_IDS.filter((id) => id !== "..");
/** Number of documents of `writeOddDocuments` that are not deleted. */
const ODD_COUNT = IDS.length + 3;

const processes = new Processes();
const proxies: HttpProxy[] = [];
let tandem: TandemNode;

beforeAll(async () => {
  const ini = "[couchdb]\nmax_document_size = 1000000\n[replicator]\nmin_backoff_penalty_sec = 1\n";
  tandem = await processes.openHere({ ini });
});
afterAll(async () => {
  for (const proxy of proxies) await proxy.close();
  await processes.close();
});

let databaseCount = 0;

/** Creates a database of Tandem behind a proxy that imitates the implementation. */
async function open(implementation: Implementation): Promise<{ name: string; url: string }> {
  databaseCount += 1;
  const name = `films-${databaseCount}`;
  await tandem.call("PUT", `/${name}`);
  const proxy = await openHttpProxy(tandem.url);
  proxies.push(proxy);
  proxy.intercept(implementation.open(name));
  return { name, url: `${proxy.url}/${name}` };
}

/** Fills a database of the Tandem node. */
async function fill(name: string): Promise<void> {
  const source = `${name}-source`;
  await load(tandem, source, FILMS);
  await writeOddDocuments(tandem.call, source, { ids: IDS });
  const request = { source, target: name, create_target: true };
  const { body } = await tandem.call("POST", "/_replicate", request);
  expect(body.ok).toBe(true);
}

/** Runs a one-shot replication. Returns the statistics of its session. */
async function replicate(request: object) {
  const { status, body } = await tandem.call("POST", "/_replicate", request);
  expect([status, body.error, body.reason]).toEqual([200, undefined, undefined]);
  return body.history[0];
}

/** Expects the same documents on both sides, except for `designCount` design documents. */
async function expectEqual(source: string, target: string, designCount = 0): Promise<void> {
  const compared = await compare(`${tandem.url}/${source}`, `${tandem.url}/${target}`);
  expect(compared.differences).toHaveLength(designCount);
  for (const difference of compared.differences) expect(difference).toContain("_design/films");
  expect(compared.documentCount).toBe(FILMS.length + ODD_COUNT + 1);
}

/** Resolves once the document has arrived. */
async function arrived(database: string, id: string): Promise<void> {
  const ask = () => tandem.call("GET", `/${database}/${id}`);
  await tandem.onceAnswered(ask, ({ status }) => status === 200);
}

describe.each([COUCHDB_1, COUCHDB_2, CLOUDANT, SYNC_GATEWAY_4])("$name", (implementation) => {
  test.each(["from", "to"])(
    "replication %s this server copies all documents, resumes, and copies later changes",
    async (way) => {
      const { name, url } = await open(implementation);
      const other = `${name}-copy`;
      const request =
        way === "from" ? { source: url, target: other } : { source: other, target: url };
      await fill(way === "from" ? name : other);
      if (way === "from") await tandem.call("PUT", `/${other}`);

      const first = await replicate(request);
      const [source, target] = way === "from" ? [name, other] : [other, name];
      const missing = implementation.lacksDesigns ? 1 : 0;
      expect(first).toMatchObject({ doc_write_failures: way === "to" ? missing : 0 });
      await expectEqual(source, target, missing);

      await tandem.call("PUT", `/${source}/later`, { title: "Later" });
      const resumed = await replicate(request);
      expect(resumed.docs_written).toBe(first.docs_written + 1);
      expect(String(resumed.start_last_seq)).not.toBe("0");

      const job = `/_replicator/${name}`;
      await tandem.call("PUT", job, { ...request, continuous: true });
      await tandem.call("PUT", `/${source}/last`, { title: "Last" });
      await arrived(target, "last");
      await tandem.call("DELETE", `${job}?rev=${(await tandem.call("GET", job)).body._rev}`);
    },
  );
});

test("named documents are replicated from servers whose feeds cannot be filtered by ids", async () => {
  const { name, url } = await open(SYNC_GATEWAY_4);
  await fill(name);
  const target = `${name}-copy`;
  const request = { source: url, target, create_target: true, doc_ids: ["conflict", "a b"] };
  const { docs_written: written } = await replicate(request);
  expect(written).toBe(3);
});

test("a selector is rejected by CouchDB 1 with its reason", async () => {
  const { url } = await open(COUCHDB_1);
  const request = {
    source: url,
    target: "selected",
    create_target: true,
    selector: { year: 1999 },
  };
  const { status, body } = await tandem.call("POST", "/_replicate", request);
  expect(status).toBeGreaterThanOrEqual(400);
  expect(body.reason).toContain("unknown builtin filter name");
});

test("a source whose account may not use _local documents is replicated without checkpoints on it", async () => {
  const { name, url } = await open(READ_ONLY);
  await fill(name);
  const request = { source: url, target: `${name}-copy`, create_target: true };
  expect(await replicate(request)).toMatchObject({ doc_write_failures: 0 });
  await expectEqual(name, `${name}-copy`);
});

test("a target whose _local documents the account may not read is refused before anything is copied", async () => {
  const { name, url } = await open(READ_ONLY);
  await fill(`${name}-full`);
  const request = { source: `${name}-full`, target: url };
  const { status, body } = await tandem.call("POST", "/_replicate", request);
  expect([status >= 400, body.error]).toEqual([true, "read_only"]);
  expect(body.reason).toContain("_admin access is required");
  expect((await tandem.call("GET", `/${name}`)).body.doc_count).toBe(0);
});

test("a document that exceeds Cloudant's size limit counts as a failure, and the other documents arrive", async () => {
  const { name, url } = await open(CLOUDANT);
  const source = `${name}-large`;
  const node = await processes.openHere();
  await load(node, source, FILMS);
  await node.call("PUT", `/${source}/large`, { text: "x".repeat(1_100_000) });
  const request = { source: `${node.url}/${source}`, target: url };
  const { docs_written: written, doc_write_failures: failures } = await replicate(request);
  expect([written, failures]).toEqual([FILMS.length, 1]);
});
