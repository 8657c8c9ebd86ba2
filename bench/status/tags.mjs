/**
 * Cost of tags: lists, groups of failing jobs and metrics of jobs with three tags, compared with
 * the same jobs without tags.
 *
 *   npm run build && node bench/status/tags.mjs [JOBS]
 *
 * Two nodes, each in its own process on LMDB in a temporary folder, have this many waiting jobs
 * (100,000), of which 1,000 fail. On one of them jobs have the tags `team` (ten values), `env`
 * (two) and `customer` (another value for each job), and `metric_tags` names all three. Requests
 * alternate between the nodes, ROUNDS (100) times: p50 and p99 with tags, p50 of the counterpart
 * without, in milliseconds, and the ratio. Then the time to store the jobs, the size of the store,
 * and the live memory of each node.
 */
import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { print, withDirectory } from "../kv/bench-store.mjs";
import { endProcess, measure, openProcess } from "../load/node-process.mjs";
import { quantile } from "../nodes/measures.mjs";
import { CONFIGURATION, prepareStore } from "./prepared-store.mjs";

const COUNT = Number(process.argv[2] ?? 100_000);
const ROUNDS = Number(process.env.ROUNDS ?? 100);
const FAILING = Math.min(1_000, COUNT / 100);
const METRICS = "/_node/_local/_prometheus";

/** Resources of the node with tags, each with its counterpart on the other node. */
const PAIRS = [
  ["/_tandem/jobs?tag=team:t3", "/_tandem/jobs"],
  ["/_tandem/jobs?tag=team", "/_tandem/jobs"],
  ["/_tandem/jobs?tag=customer:c777", "/_tandem/jobs?owner=user7"],
  ["/_tandem/jobs?tag=team:none", "/_tandem/jobs?owner=none"],
  ["/_tandem/jobs?tag=team:t3,env:e1", "/_tandem/jobs?owner=user7&source=host7.example"],
  ["/_tandem/jobs?tag=team:t3,env:e0", "/_tandem/jobs?owner=user7&source=host6.example"],
  ["/_tandem/jobs?tag=team:t3&failing=true", "/_tandem/jobs?owner=user7&failing=true"],
  ["/_tandem/jobs?tag=team:t3&state=pending", "/_tandem/jobs?owner=user7&state=pending"],
  ["/_tandem/failing?group_by=tag:team", "/_tandem/failing"],
  ["/_tandem/failing?group_by=tag:customer", "/_tandem/failing"],
  ["/_tandem/topology?tag=team:t3", "/_tandem/topology?owner=user7"],
  [METRICS, METRICS],
];

function tagsOf(number) {
  return { team: `t${number % 10}`, env: `e${number % 2}`, customer: `c${number}` };
}

async function prepare(directory, ini, options) {
  const dataDirectory = join(directory, "data");
  const beganMs = performance.now();
  await prepareStore(dataDirectory, COUNT, { ...options, failingCount: FAILING });
  const seconds = (performance.now() - beganMs) / 1_000;
  const file = join(directory, "tandem.ini");
  writeFileSync(file, CONFIGURATION + ini);
  const megabytes = statSync(join(dataDirectory, "data.mdb")).size / 2 ** 20;
  const node = await openProcess(directory, { flags: ["--config", file], isMetered: true });
  return { ...node, seconds, megabytes };
}

async function request(url, path) {
  const beganMs = performance.now();
  const answer = await fetch(url + path);
  const text = await answer.text();
  const tookMs = performance.now() - beganMs;
  if (!answer.ok) throw new Error(`GET ${path}: ${answer.status} ${text}`);
  return tookMs;
}

await withDirectory(async (tagged) => {
  await withDirectory(async (plain) => {
    const nodes = [
      await prepare(tagged, "[tandem]\nmetric_tags = team, env, customer\n", { tagsOf }),
      await prepare(plain, "", {}),
    ];
    const idle = await Promise.all(nodes.map((node) => measure(node, true)));
    for (const pair of PAIRS) {
      const times = [[], []];
      for (let round = 0; round < ROUNDS; round++) {
        for (const [index, path] of pair.entries()) {
          times[index].push(await request(nodes[index].url, path));
        }
      }
      const [with50, without50] = times.map((each) => quantile(each, 0.5));
      const figures = [with50, quantile(times[0], 0.99), without50].map((ms) => ms.toFixed(1));
      print(`${pair[0].padEnd(42)} ${figures.join(", ")} ms  x ${(with50 / without50).toFixed(2)}`);
    }
    const after = await Promise.all(nodes.map((node) => measure(node, true)));
    for (const [index, name] of ["with tags", "without tags"].entries()) {
      const { seconds, megabytes } = nodes[index];
      const live = [idle, after].map((each) => {
        const { liveHeapBytes, liveBufferBytes } = each[index];
        return ((liveHeapBytes + liveBufferBytes) / 2 ** 20).toFixed(0);
      });
      const rate = `${seconds.toFixed(0)} s, ${megabytes.toFixed(0)} MiB`;
      print(`${name}: stored in ${rate}; live memory ${live.join(", then ")} MiB`);
    }
    await Promise.all(nodes.map((node) => endProcess(node)));
  });
});
