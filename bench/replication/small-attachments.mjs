/**
 * Speed of copying documents with a small attachment each between nodes, in bulk and individually.
 *
 *   npm run build && node bench/replication/small-attachments.mjs [DOCUMENTS [KIBIBYTES]]
 *
 * DOCUMENTS (1,000) have an attachment of KIBIBYTES (50) random bytes each. They are pushed,
 * pulled, and copied by the source's node between two URLs (as between two other servers), each
 * time into a new database. Each copy is made with default options, and with `use_bulk_get` false,
 * which reads each document individually. All rows run ROUNDS times (3), alternately. Prints for
 * each row the seconds, CPU milliseconds of both nodes per document, and the peak of their memory
 * together; then the ratios of the medians.
 *
 * COUCHDB_URL is the URL of a CouchDB server with an administrator's name and password. If it is
 * set, the same documents are also copied between two databases of that server: by CouchDB's own
 * replicator, and by the first node.
 */
import { randomBytes } from "node:crypto";
import { openCouch } from "./couchdb.mjs";
import { call, MEBIBYTE, measureUse, median, withNodes } from "./nodes.mjs";
import { report } from "./table.mjs";

const DOCUMENTS = Number(process.argv[2] ?? 1_000);
const BYTES = Number(process.argv[3] ?? 50) * 1_024;
const ROUNDS = Number(process.env.ROUNDS ?? 3);
const COUCH = "CouchDB, by itself";
const BETWEEN_COUCHES = "CouchDB, by Tandem";
const BATCH_BYTES = 2 * MEBIBYTE;
const WHAT = `${DOCUMENTS} × ${BYTES / 1_024} KiB`;
/** Aim between two nodes, as a multiple of the speed of CouchDB's own replicator. */
const AIM_NODES = "4";
/** Aim between two databases of the CouchDB server, as a multiple of the same speed. */
const AIM_COUCHDB = "1.6";

const uses = new Map();

await withNodes(["here", "there"], async (here, there) => {
  await load(here, "films");
  const { COUCHDB_URL } = process.env;
  const couch = COUCHDB_URL && (await openCouch(COUCHDB_URL, load));
  const source = `${here.url}/films`;
  const ways = {
    push: (target) => [here, { source: "films", target: `${there.url}/${target}` }],
    pull: (target) => [there, { source, target }],
    "between URLs": (target) => [here, { source, target: `${there.url}/${target}` }],
    "local → local": (target) => [here, { source: "films", target }],
  };
  const measure = async (label, pids, run) => {
    const use = await measureUse(pids, run);
    uses.set(label, [...(uses.get(label) ?? []), use]);
    print(label, use);
  };
  for (let round = 1; round <= ROUNDS; round++) {
    for (const [name, wayOf] of Object.entries(ways)) {
      for (const use_bulk_get of [true, false]) {
        const label = use_bulk_get ? name : `${name}, alone`;
        const [node, body] = wayOf(
          `copy-${round}-${use_bulk_get}-${name.replace(/\W/g, "")}`.toLowerCase(),
        );
        await measure(label, [here.pid, there.pid], () =>
          replicate(node, { ...body, use_bulk_get }),
        );
      }
    }
    if (couch) {
      const body = () => ({ source: couch.source, target: couch.newTarget() });
      await measure(COUCH, [], () => replicate(couch.server, body()));
      await measure(BETWEEN_COUCHES, [here.pid], () => replicate(here, body()));
    }
  }
  if (couch) await couch.close();
  for (const name of Object.keys(ways)) {
    const ratio = (member) => medianOf(`${name}, alone`, member) / medianOf(name, member);
    const [speed, processor] = [ratio("seconds"), ratio("cpuSeconds")];
    process.stdout.write(
      `${name}: in bulk ${speed.toFixed(2)} times the speed; individually ${processor.toFixed(2)} times the CPU time\n`,
    );
    report({
      what: `${WHAT}, ${name}`,
      measured: `${rateOf(name)} documents/s`,
      beside: `one by one ${rateOf(`${name}, alone`)}`,
      ratio: speed,
    });
  }
  if (couch) {
    for (const name of ["push", "pull", "between URLs"]) {
      report({
        what: `${WHAT}, ${name}`,
        measured: `${rateOf(name)} documents/s`,
        beside: `CouchDB ${rateOf(COUCH)}`,
        ratio: medianOf(COUCH, "seconds") / medianOf(name, "seconds"),
        aim: AIM_NODES,
      });
    }
    const ratio = medianOf(COUCH, "seconds") / medianOf(BETWEEN_COUCHES, "seconds");
    process.stdout.write(
      `Between two databases of CouchDB: ${ratio.toFixed(2)} times its own speed\n`,
    );
    report({
      what: `${WHAT}, between two databases of CouchDB`,
      measured: `${rateOf(BETWEEN_COUCHES)} documents/s`,
      beside: `CouchDB ${rateOf(COUCH)}`,
      ratio,
      aim: AIM_COUCHDB,
    });
  }
});

async function load(server, database) {
  await call(server, "PUT", `/${database}`);
  const rows = Math.max(1, Math.floor(BATCH_BYTES / BYTES));
  for (let start = 0; start < DOCUMENTS; start += rows) {
    const docs = Array.from({ length: Math.min(rows, DOCUMENTS - start) }, (_, at) => ({
      _id: `film-${start + at}`,
      _attachments: {
        poster: { content_type: "image/jpeg", data: randomBytes(BYTES).toString("base64") },
      },
    }));
    await call(server, "POST", `/${database}/_bulk_docs`, JSON.stringify({ docs }));
  }
}

async function replicate(server, body) {
  const { history } = await call(
    server,
    "POST",
    "/_replicate",
    JSON.stringify({ ...body, create_target: true }),
  );
  if (history[0].docs_written !== DOCUMENTS) throw new Error(JSON.stringify(history[0]));
}

function medianOf(label, member) {
  return median(uses.get(label).map((use) => use[member]));
}

function rateOf(label) {
  return Math.round(DOCUMENTS / medianOf(label, "seconds"));
}

function print(label, { seconds, cpuSeconds, peakBytes }) {
  const cpuMs = (cpuSeconds * 1_000) / DOCUMENTS;
  process.stdout.write(
    `${label.padEnd(24)} ${seconds.toFixed(2)} s  ${Math.round(DOCUMENTS / seconds)} documents/s  ` +
      `${cpuMs.toFixed(2)} ms CPU a document  ${Math.round(peakBytes / MEBIBYTE)} MiB\n`,
  );
}
