/** Replication with PouchDB 9 on LevelDB. PouchDB is the client, which pulls and pushes. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { compare } from "../support/compare.ts";
import { ODD_IDS, writeOddDocuments } from "../support/odd-documents.ts";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { load, sampleLines } from "../support/sample-data.ts";

interface ReplicationResult {
  readonly ok: boolean;
  readonly docs_written: number;
  readonly doc_write_failures: number;
}

interface PouchDatabase {
  info(): Promise<{ doc_count: number }>;
  get(id: string, options?: object): Promise<Record<string, unknown>>;
  close(): Promise<void>;
  put(document: object): Promise<{ rev: string }>;
}

/** PouchDB is a CommonJS package without types. */
const PouchDB: {
  new (name: string): PouchDatabase;
  replicate(
    source: string | PouchDatabase,
    target: string | PouchDatabase,
    options?: object,
  ): Promise<ReplicationResult>;
} = createRequire(import.meta.url)("pouchdb");

const processes = new Processes();
let tandem: TandemNode;

beforeAll(async () => {
  tandem = await processes.openHere();
});
afterAll(() => processes.close());

/**
 * Pulls a database into a local PouchDB database, and pushes the local database into a new database
 * on the server.
 */
async function pullAndPush(database: string): Promise<ReplicationResult[]> {
  const local = new PouchDB(join(processes.directory(), "pouch"));
  try {
    const ours = `${tandem.url}/${database}`;
    const pulled = await PouchDB.replicate(ours, local, { batch_size: 500 });
    await tandem.call("PUT", `/${database}-pushed`);
    const pushed = await PouchDB.replicate(local, `${ours}-pushed`, { batch_size: 500 });
    const again = await PouchDB.replicate(local, `${ours}-pushed`, { batch_size: 500 });
    return [pulled, pushed, again];
  } finally {
    await local.close();
  }
}

test.each([
  ["films", 3023],
  ["countries", 250],
] as const)("PouchDB pulls %s from Tandem and pushes them back", async (name, count) => {
  await load(tandem, name, sampleLines(name));
  const results = await pullAndPush(name);
  expect(results).toMatchObject([
    { ok: true, docs_written: count, doc_write_failures: 0 },
    { ok: true, docs_written: count, doc_write_failures: 0 },
    { ok: true, docs_written: 0, doc_write_failures: 0 },
  ]);
  const comparison = await compare(`${tandem.url}/${name}`, `${tandem.url}/${name}-pushed`);
  expect(comparison.differences).toEqual([]);
});

test("PouchDB copies conflicts, deletions, design documents and unusual ids in both directions", async () => {
  await tandem.call("PUT", "/odd");
  // PouchDB requests attachments by URL objects, which would resolve the id `..` to the parent
  // path.
  const ids = ODD_IDS.filter((id) => id !== "..");
  // PouchDB stores attachments uncompressed, so it would push back a compressed attachment with
  // another digest.
  await writeOddDocuments(tandem.call, "odd", { ids, textType: "application/octet-stream" });
  const [pulled, pushed] = await pullAndPush("odd");
  expect([pulled?.doc_write_failures, pushed?.doc_write_failures]).toEqual([0, 0]);
  const comparison = await compare(`${tandem.url}/odd`, `${tandem.url}/odd-pushed`);
  expect(comparison.differences).toEqual([]);
});
