/**
 * Overhead of a replication without changes, beyond the time of its endpoints.
 *
 *   npm run build && node bench/replication/no-changes.mjs
 *
 * A node replicates between two others that already have the same documents. This is compared with
 * the minimal requests, sent by this process: for both databases concurrently, for both checkpoints
 * concurrently, and for the changes since the last replication. Both are measured alternately,
 * ROUNDS times (101). Prints the medians and their difference.
 */
import { call, median, withNodes } from "./nodes.mjs";
import { report } from "./table.mjs";

const ROUNDS = Number(process.env.ROUNDS ?? 101);
const DOCUMENTS = 1_000;
const AIM_MS = 30;

await withNodes(["between", "source", "target"], async (between, source, target) => {
  await call(source, "PUT", "/films");
  const docs = Array.from({ length: DOCUMENTS }, (_, at) => ({ _id: `film-${at}` }));
  await call(source, "POST", "/films/_bulk_docs", JSON.stringify({ docs }));
  const body = { source: `${source.url}/films`, target: `${target.url}/copy`, create_target: true };
  const replicate = () => call(between, "POST", "/_replicate", JSON.stringify(body));
  const { history } = await replicate();
  if (history[0].docs_written !== DOCUMENTS) throw new Error(JSON.stringify(history[0]));
  const { rows } = await call(source, "GET", "/films/_local_docs");
  const checkpoint = rows[0].id;
  const { update_seq: since } = await call(source, "GET", "/films");

  const questions = async () => {
    await Promise.all([call(source, "GET", "/films"), call(target, "GET", "/copy")]);
    await Promise.all([
      call(source, "GET", `/films/${checkpoint}`),
      call(target, "GET", `/copy/${checkpoint}`),
    ]);
    await call(source, "GET", `/films/_changes?since=${encodeURIComponent(since)}`);
  };
  const times = { replicated: [], asked: [] };
  for (let round = 0; round < ROUNDS; round++) {
    times.replicated.push(await timedMs(replicate));
    times.asked.push(await timedMs(questions));
  }
  const [replicatedMs, askedMs] = [median(times.replicated), median(times.asked)];
  const beyondMs = replicatedMs - askedMs;
  process.stdout.write(
    `without changes: ${replicatedMs.toFixed(1)} ms, the minimal requests ${askedMs.toFixed(1)} ms: ${beyondMs.toFixed(1)} ms more\n`,
  );
  report({
    what: "a run without changes, beyond the minimal requests",
    measured: `${beyondMs.toFixed(1)} ms`,
    beside: `the minimal requests ${askedMs.toFixed(1)} ms`,
    aim: `${AIM_MS} ms`,
  });
});

async function timedMs(work) {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}
