/**
 * Cost of a replication for the node that carries it out, and for its endpoints.
 *
 *   npm run build && node bench/replication/costs.mjs [DOCUMENTS [BYTES]]
 *
 * A node copies DOCUMENTS (100,000) of BYTES (2,000) from a second one to a third, ROUNDS times
 * (3), each time into a new database. Prints the CPU seconds of each node, and for the replicating
 * one the maximum memory and the garbage that V8 collected (`--trace-gc`); then the medians.
 */
import { call, MEBIBYTE, measureUse, median, withNodes } from "./nodes.mjs";
import { report } from "./table.mjs";

const DOCUMENTS = Number(process.argv[2] ?? 100_000);
const BYTES = Number(process.argv[3] ?? 2_000);
const ROUNDS = Number(process.env.ROUNDS ?? 3);
const BATCH_ROWS = 1_000;
const MEMORY_MIB_MAX = 250;

await withNodes(
  ["between", "source", "target"],
  async (between, source, target) => {
    await load(source);
    const rounds = [];
    for (let round = 0; round < ROUNDS; round++) {
      const from = `${source.url}/films`;
      const body = { source: from, target: `${target.url}/copy-${round}`, create_target: true };
      rounds.push(await measureRound(between, source, target, body));
      print(`round ${round + 1}`, rounds.at(-1));
    }
    const medians = /** @type {any} */ (
      Object.fromEntries(
        Object.keys(rounds[0]).map((name) => [name, median(rounds.map((each) => each[name]))]),
      )
    );
    print("median", medians);
    const what = `${DOCUMENTS} × ${BYTES} B between two nodes`;
    report({
      what: `${what}: processor`,
      measured: `${medians.own.toFixed(1)} s`,
      beside: `endpoints ${(medians.source + medians.target).toFixed(1)} s`,
      ratio: (medians.source + medians.target) / medians.own,
    });
    report({
      what: `${what}: most memory`,
      measured: `${Math.round(medians.memoryMib)} MiB`,
      ratio: MEMORY_MIB_MAX / medians.memoryMib,
      beside: `${MEMORY_MIB_MAX} MiB`,
      aim: "1",
    });
    report({ what: `${what}: garbage`, measured: `${Math.round(medians.garbageMib)} MiB` });
  },
  { isTraced: true },
);

async function measureRound(between, source, target, body) {
  const garbageBefore = between.garbageMib();
  /** @type {any} */
  let atTarget;
  /** @type {any} */
  let own;
  const atSource = await measureUse([source.pid], async () => {
    atTarget = await measureUse([target.pid], async () => {
      own = await measureUse([between.pid], () => replicate(between, body));
    });
  });
  return {
    seconds: own.seconds,
    own: own.cpuSeconds,
    source: atSource.cpuSeconds,
    target: atTarget.cpuSeconds,
    memoryMib: own.peakBytes / MEBIBYTE,
    garbageMib: between.garbageMib() - garbageBefore,
  };
}

async function load(server) {
  await call(server, "PUT", "/films");
  for (let start = 0; start < DOCUMENTS; start += BATCH_ROWS) {
    const docs = Array.from({ length: Math.min(BATCH_ROWS, DOCUMENTS - start) }, (_, at) => ({
      _id: `film-${start + at}`,
      plot: "x".repeat(BYTES),
    }));
    await call(server, "POST", "/films/_bulk_docs", JSON.stringify({ docs }));
  }
}

async function replicate(server, body) {
  const { history } = await call(server, "POST", "/_replicate", JSON.stringify(body));
  if (history[0].docs_written !== DOCUMENTS) throw new Error(JSON.stringify(history[0]));
}

function print(label, { seconds, own, source, target, memoryMib, garbageMib }) {
  process.stdout.write(
    `${label.padEnd(8)} ${seconds.toFixed(1)} s  CPU: replicator ${own.toFixed(1)} s, source ${source.toFixed(1)} s, ` +
      `target ${target.toFixed(1)} s  ${Math.round(memoryMib)} MiB  ${Math.round(garbageMib)} MiB of garbage\n`,
  );
}
