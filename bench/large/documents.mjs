/**
 * Throughput for a large database, compared with a small one and with `lmdb` alone.
 *
 *   npm run build && node bench/large/documents.mjs [DOCUMENTS] [SMALL]
 *
 * For 36,000 and for 1,000,000 documents of 450 bytes with random ids: load through `_bulk_docs`,
 * copy within the node, pull from another node, and push to another node, while another client
 * writes a document every 5 ms. Then the rows of the loaded database are written to an empty `lmdb`
 * in the same order and the same batches, without reads, conflict checks or HTTP. Prints documents
 * per second, their ratio to the small database and to `lmdb`, the longest wait and the 99th
 * percentile of the other client, the ratio of the store's size to that of the documents, and the
 * highest anonymous memory.
 *
 * Measured 2026-11-30 with 1,000,000 documents, two cores: load 17,497 per second (0.83 of the
 * small database, 0.56 of `lmdb` alone), local copy 18,123 (0.78), pull 15,734 (1.10), push 16,333
 * (0.87); 99th percentile of the other client 69, 72, 102 and 37 ms, in the same order; at most 259
 * MiB of memory; store 2.3 times as large as `sizes.external`, 2.0 times as large as the documents.
 */
import { mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open } from "lmdb";
import { decodeChangeRecord } from "../../dist/databases/records/change-record.js";
import { registryKeys } from "../../dist/databases/records/database-keys.js";
import { decodeDatabaseRecord } from "../../dist/databases/records/database-record.js";
import { environmentOptions } from "../../dist/host/lmdb/environment.js";
import { Subspace } from "../../dist/kv/index.js";
import { ask, endProcess, openProcess } from "../load/node-process.mjs";
import { BATCH, load } from "./load.mjs";
import { describeOther, during } from "./other-client.mjs";

const [DOCUMENTS = 1_000_000, SMALL = 36_000] = process.argv.slice(2, 4).map(Number);
/** Minimum ratios that the program aims for. */
const SIZE_RATIO_MIN = 0.7;
const LMDB_RATIO_MIN = 0.6;

async function replicate({ url }, source, target) {
  const body = { source, target, create_target: true };
  const { status, body: answer } = await ask(url, "POST", "/_replicate", body);
  if (status !== 200) throw new Error(`_replicate: ${status} ${JSON.stringify(answer)}`);
}

/** Measures `work`, with another client at `node`. Returns documents per second. */
async function measure(name, count, node, work) {
  const measured = await during(node, work);
  const rate = count / measured.seconds;
  console.log(`${name}, ${count} documents: ${rate.toFixed(0)}/s; ${describeOther(measured)}`);
  return rate;
}

/** First byte of a key with data in the store (`src/host/lmdb/layout.ts`). */
const DATA = Buffer.from([0x01]);

/**
 * Writes the rows of the loaded database to an empty `lmdb`, in the order of its changes. Returns
 * documents per second, without the time to read the rows.
 */
async function writeAlone(folder) {
  const source = open({ ...environmentOptions(join(folder, "data")), readOnly: true });
  const file = join(folder, "alone");
  mkdirSync(file);
  const target = open(environmentOptions(file));
  const registry = registryKeys(Subspace.fromTuple(["tandem", 2]));
  const stored = (key) => Buffer.concat([DATA, key]);
  const key = registry.database.key({ name: "source" });
  const keys = registry.databaseKeys(decodeDatabaseRecord(source.get(stored(key))));
  const rowsIn = ({ begin, end }) => source.getRange({ start: stored(begin), end: stored(end) });
  try {
    let [seconds, count] = [0, 0];
    let batch = [];
    const commit = () => {
      const beganMs = performance.now();
      target.transactionSync(() => {
        for (const { key, value } of batch) target.putSync(stored(key), value);
      });
      seconds += (performance.now() - beganMs) / 1_000;
      batch = [];
    };
    for (const change of rowsIn(keys.change.range({}))) {
      batch.push(change);
      const { id } = decodeChangeRecord(change.value);
      for (const row of [keys.document, keys.body]) {
        batch.push(...rowsIn(row.range({ id })));
      }
      count += 1;
      if (count % BATCH === 0) commit();
    }
    commit();
    return count / seconds;
  } finally {
    await Promise.all([source.close(), target.close()]);
  }
}

async function measureAll(count) {
  const folders = [0, 1].map(() => mkdtempSync(join(tmpdir(), "tandem-bench-")));
  const nodes = [];
  try {
    for (const folder of folders) nodes.push(await openProcess(folder));
    const [here, there] = nodes;
    for (const { url } of nodes) await ask(url, "PUT", "/other");
    const rates = {};
    rates.load = await measure("load", count, here, () => load(here, "source", count));
    const { body } = await ask(here.url, "GET", "/source");
    const bytes = statSync(join(folders[0], "data", "data.mdb")).size;
    console.log(
      `store ${(bytes / 2 ** 20).toFixed(0)} MiB, ${(bytes / body.sizes.external).toFixed(2)} times the documents (${(body.sizes.external / 2 ** 20).toFixed(0)} MiB); sizes ${JSON.stringify(body.sizes)}`,
    );
    rates.copy = await measure("local copy", count, here, () => replicate(here, "source", "copy"));
    rates.pull = await measure("pull", count, there, () =>
      replicate(there, `${here.url}/source`, "pulled"),
    );
    rates.push = await measure("push", count, here, () =>
      replicate(here, "source", `${there.url}/pushed`),
    );
    for (const node of nodes) await endProcess(node);
    const alone = await writeAlone(folders[0]);
    console.log(
      `load: ${(rates.load / alone).toFixed(2)} of lmdb alone (${alone.toFixed(0)}/s, aim ${LMDB_RATIO_MIN})`,
    );
    return rates;
  } finally {
    for (const node of nodes) await endProcess(node);
    for (const folder of folders) rmSync(folder, { recursive: true });
  }
}

const small = await measureAll(SMALL);
const large = await measureAll(DOCUMENTS);
for (const [name, rate] of Object.entries(large)) {
  const ratio = rate / small[name];
  console.log(`${name}: ${ratio.toFixed(2)} of the small one (aim ${SIZE_RATIO_MIN})`);
}
