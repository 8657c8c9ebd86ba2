/**
 * Time to request and to replicate ten of many documents, by direct reads and by scanning all
 * changes.
 *
 *   npm run build && node bench/replication/few-ids.mjs [DOCUMENTS]
 *
 * DOCUMENTS (100,000) are in one database of one node. Up to 100 ids are read directly. The same
 * request with 100 additional unknown ids therefore scans all changes. Prints medians of ROUNDS
 * (9), and their ratio.
 */
import { call, median, withNodes } from "./nodes.mjs";
import { report } from "./table.mjs";

const DOCUMENTS = Number(process.argv[2] ?? 100_000);
const ROUNDS = Number(process.env.ROUNDS ?? 9);
const BATCH_ROWS = 1_000;
const ids = Array.from({ length: 10 }, (_, at) => `d${Math.floor((at * DOCUMENTS) / 10)}`);
const more = [...ids, ...Array.from({ length: 100 }, (_, at) => `unknown${at}`)];

await withNodes(["node"], async (node) => {
  await call(node, "PUT", "/films");
  for (let start = 0; start < DOCUMENTS; start += BATCH_ROWS) {
    const docs = Array.from({ length: BATCH_ROWS }, (_, at) => ({ _id: `d${start + at}` }));
    await call(node, "POST", "/films/_bulk_docs", JSON.stringify({ docs }));
  }
  let copies = 0;
  const replicate = (source) => (doc_ids) => {
    const target = `copy-${copies++}`;
    const body = JSON.stringify({ source, target, create_target: true, doc_ids });
    return call(node, "POST", "/_replicate", body);
  };
  const questions = {
    _changes: (doc_ids) =>
      call(node, "POST", "/films/_changes?filter=_doc_ids", JSON.stringify({ doc_ids })),
    "local → local": replicate("films"),
    "there → here": replicate(`${node.url}/films`),
  };
  for (const [name, ask] of Object.entries(questions)) {
    const [found, checked] = [await medianMs(ask, more), await medianMs(ask, ids)];
    const figures = `${checked.toFixed(1)} ms by direct reads, ${found.toFixed(1)} ms by scanning all changes`;
    const ratio = found / checked;
    process.stdout.write(`${name.padEnd(14)} ${figures}: ${ratio.toFixed(0)} times\n`);
    report({
      what: `ten of ${DOCUMENTS} documents, ${name}`,
      measured: `${checked.toFixed(1)} ms`,
      beside: `scan of all changes ${found.toFixed(1)} ms`,
      ratio,
      aim: "30 ms",
    });
  }
});

async function medianMs(ask, docIds) {
  const times = [];
  for (let round = 0; round < ROUNDS; round++) {
    const startMs = performance.now();
    await ask(docIds);
    times.push(performance.now() - startMs);
  }
  return median(times);
}
