/**
 * Runs the simulations from many seeds in parallel processes. Prints each seed that found a
 * problem, with the command that repeats its run.
 *
 *   npm run simulate -- [--seeds 1000] [--hours 1] [--workers 2] [--first 0]
 *                       [--of jobs|replication|watching]
 */
import { fork } from "node:child_process";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { runnerImport } from "vite";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PROGRESS_MS = 30_000;

if (process.send === undefined) await direct();
else await serve();

/** Gives out one seed at a time, to each simulation in turn. */
async function direct() {
  const { values } = parseArgs({
    options: {
      seeds: { type: "string", default: "1000" },
      first: { type: "string", default: "0" },
      hours: { type: "string", default: "24" },
      workers: { type: "string", default: String(availableParallelism()) },
      of: { type: "string" },
    },
  });
  const kinds = values.of === undefined ? ["jobs", "replication", "watching"] : [values.of];
  const first = Number(values.first);
  const seedCount = Number(values.seeds);
  const startedAtMs = performance.now();
  const endsAtMs = startedAtMs + Number(values.hours) * 3_600_000;
  let handedCount = 0;
  let runCount = 0;
  let foundCount = 0;
  let failedCount = 0;

  const next = () => {
    const isOver = handedCount >= seedCount * kinds.length || performance.now() > endsAtMs;
    if (isOver) return undefined;
    const kind = kinds[handedCount % kinds.length];
    return { kind, seed: first + Math.floor(handedCount++ / kinds.length) };
  };
  const say = (text) => process.stdout.write(`${text}\n`);
  const tell = () => {
    const minutes = (performance.now() - startedAtMs) / 60_000;
    const perMinute = Math.round(runCount / minutes);
    say(`${runCount} runs, ${foundCount} with problems, ${perMinute} a minute`);
  };
  const note = ({ kind, seed, problems }) => {
    runCount++;
    if (problems.length === 0) return;
    foundCount++;
    say(`${kind} ${seed}:`);
    for (const problem of problems.slice(0, 10)) say(`  ${problem.slice(0, 600)}`);
    say(`  again: SEEDS=${seed}-${seed} npx vitest run test/simulation/${kind}.test.ts`);
  };

  /** Gives a process one seed after another. If the process dies, another process replaces it. */
  const work = () =>
    new Promise((resolve) => {
      const worker = fork(fileURLToPath(import.meta.url), [], { cwd: ROOT });
      let task;
      const hand = () => {
        task = next();
        if (task === undefined) worker.disconnect();
        else worker.send(task);
      };
      worker.on("message", (outcome) => {
        if (outcome !== "ready") note(outcome);
        hand();
      });
      worker.on("exit", (code) => {
        if (task !== undefined) {
          note({ ...task, problems: [`the process ended with ${code}`] });
          return resolve(work());
        }
        if (code !== 0) {
          failedCount++;
          say(`A process could not load the simulations: it ended with ${code}`);
        }
        return resolve();
      });
    });

  const progress = setInterval(tell, PROGRESS_MS);
  await Promise.all(Array.from({ length: Number(values.workers) }, work));
  clearInterval(progress);
  tell();
  process.exitCode = foundCount + failedCount === 0 ? 0 : 1;
}

/** Runs the simulations for the seeds that it receives. */
async function serve() {
  const load = async (path) =>
    (await runnerImport(path, { root: ROOT, configFile: false, logLevel: "error" })).module;
  const { runJobsCluster } = await load(`${ROOT}/test/simulation/jobs/cluster.ts`);
  const { runReplicationCluster } = await load(`${ROOT}/test/simulation/replication/cluster.ts`);
  const { runWatchingCluster } = await load(`${ROOT}/test/simulation/watching/cluster.ts`);
  const simulations = {
    jobs: runJobsCluster,
    replication: runReplicationCluster,
    watching: runWatchingCluster,
  };
  process.on("message", async ({ kind, seed }) => {
    const problems = await simulations[kind](seed).then(
      (outcome) => outcome.problems,
      (error) => [error.stack ?? String(error)],
    );
    process.send({ kind, seed, problems });
  });
  process.send("ready");
}
