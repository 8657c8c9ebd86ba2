/**
 * Cost of updates when the bodies of earlier revisions are kept.
 *
 *   npm run build && node bench/databases/old-bodies.mjs [UPDATES] [ROUNDS]
 *
 * Two nodes, one with `[couchdb] keep_old_bodies_sec = 0` and one with the default, get the same
 * updates in turn: ten documents are updated sequentially, and a thousand in batches of 100. Bodies
 * have 500 bytes. Prints the CPU time per update on each node, the ratio per round, and the growth
 * of the stores.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ask, endProcess, openProcess } from "../load/node-process.mjs";
import { print, processorSec, quantile } from "../nodes/measures.mjs";

const [UPDATES = 5_000, ROUNDS = 5] = process.argv.slice(2, 4).map(Number);
const BODY = { text: "x".repeat(480) };

const KINDS = [
  { name: "ten documents, one by one", documentCount: 10, batch: 1 },
  { name: "a thousand documents, 100 a batch", documentCount: 1_000, batch: 100 },
];

async function openNode(keepSec) {
  const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
  const node = await openProcess(directory);
  await ask(node.url, "PUT", "/_node/_local/_config/couchdb/keep_old_bodies_sec", String(keepSec));
  return { ...node, directory, revisions: new Map() };
}

async function update(node, { name, documentCount, batch }) {
  const database = `/${encodeURIComponent(name.replaceAll(/[ ,]/g, "-"))}`;
  await ask(node.url, "PUT", database);
  const beganSec = processorSec(node);
  for (let done = 0; done < UPDATES; done += batch) {
    const docs = Array.from({ length: batch }, (_, index) => {
      const _id = `document-${(done + index) % documentCount}`;
      return { _id, _rev: node.revisions.get(`${database}/${_id}`), ...BODY, done };
    });
    const { body } = await ask(node.url, "POST", `${database}/_bulk_docs`, { docs });
    for (const { id, rev, error } of body) {
      if (error !== undefined) throw new Error(`${id}: ${error}`);
      node.revisions.set(`${database}/${id}`, rev);
    }
  }
  return ((processorSec(node) - beganSec) * 1e6) / UPDATES;
}

const nodes = [];
try {
  nodes.push(await openNode(0), await openNode(3_600));
  for (const kind of KINDS) {
    const rows = [];
    for (let round = 0; round <= ROUNDS; round++) {
      const [without, kept] = [await update(nodes[0], kind), await update(nodes[1], kind)];
      if (round > 0) rows.push({ without, kept, ratio: kept / without });
    }
    const middle = (name) =>
      quantile(
        rows.map((row) => row[name]),
        0.5,
      );
    const ratios = rows.map(({ ratio }) => ratio.toFixed(2)).join(" ");
    print(
      `${kind.name}: ${middle("without").toFixed(0)} µs an update without, ` +
        `${middle("kept").toFixed(0)} µs with old bodies; ratios ${ratios}`,
    );
  }
  const [without, kept] = nodes.map(({ directory }) => {
    const folder = join(directory, "data");
    const sizes = readdirSync(folder).map((name) => statSync(join(folder, name)).size);
    return sizes.reduce((sum, size) => sum + size, 0) / 1024 / 1024;
  });
  print(`store: ${without.toFixed(0)} MiB without old bodies, ${kept.toFixed(0)} MiB with them`);
} finally {
  for (const node of nodes) {
    await endProcess(node);
    rmSync(node.directory, { recursive: true });
  }
}
