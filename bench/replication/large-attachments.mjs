/**
 * Speed of copying large attachments between two nodes, compared with `curl` piped into `curl`.
 *
 *   npm run build && node bench/replication/large-attachments.mjs [DOCUMENTS MEBIBYTES]…
 *
 * A third node copies DOCUMENTS documents, each with an attachment of MEBIBYTES MiB of random
 * bytes. Default: 100 documents of 5 MiB, and one of 1,024 MiB. `curl` copies the attachments
 * sequentially. The node and `curl` run ROUNDS times (3), alternately, each time into a new
 * database. Prints the seconds of both, and the CPU seconds and maximum memory of the replicating
 * node; then the ratios of the medians. Another program, `large-attachment.mjs`, measures documents
 * that overtake a large attachment.
 */
import { execFile } from "node:child_process";
import { randomFillSync } from "node:crypto";
import { once } from "node:events";
import { request } from "node:http";
import { promisify } from "node:util";
import { call, MEBIBYTE, measureUse, median, withNodes } from "./nodes.mjs";
import { report } from "./table.mjs";

const ROUNDS = Number(process.env.ROUNDS ?? 3);
const given = process.argv.slice(2).map(Number);
const [first = 100, firstMib = 5, second = given.length > 0 ? 0 : 1, secondMib = 1024] = given;
const SIZES = [
  [first, firstMib],
  [second, secondMib],
].filter(([count]) => count > 0);
const AIM = 0.8;
const run = promisify(execFile);
let copyCount = 0;

await withNodes(["between", "source", "target"], async (between, source, target) => {
  for (const [count, mebibytes] of SIZES) await compare(between, source, target, count, mebibytes);
});

async function compare(between, source, target, count, mebibytes) {
  const from = `${source.url}/films-${mebibytes}`;
  await call(source, "PUT", `/films-${mebibytes}`);
  const ids = Array.from({ length: count }, (_, at) => `film-${at}`);
  for (const id of ids) await upload(`${from}/${id}/film`, mebibytes);
  const title = `${count} of ${mebibytes} MiB`;
  const seconds = { replicated: [], piped: [] };
  for (let round = 0; round < ROUNDS; round++) {
    const body = { source: from, target: newTarget(target), create_target: true };
    const use = await measureUse([between.pid], () => replicate(between, body, count));
    seconds.replicated.push(use.seconds);
    print(
      `${title} replicated: ${use.seconds.toFixed(2)} s, ${use.cpuSeconds.toFixed(2)} s CPU, ` +
        `${Math.round(use.peakBytes / MEBIBYTE)} MiB`,
    );
    const to = newTarget(target);
    await call(target, "PUT", new URL(to).pathname);
    const piped = await measureUse([], () => pipe(from, to, ids));
    seconds.piped.push(piped.seconds);
    print(`${title} by curl: ${piped.seconds.toFixed(2)} s`);
  }
  const rate = (of) => (count * mebibytes) / median(of);
  const ratio = rate(seconds.replicated) / rate(seconds.piped);
  print(`${title}: ${ratio.toFixed(2)} times the speed of curl (aim: ${AIM})`);
  report({
    what: `attachments, ${title}`,
    measured: `${Math.round(rate(seconds.replicated))} MiB/s`,
    beside: `curl | curl ${Math.round(rate(seconds.piped))} MiB/s`,
    ratio,
    aim: String(AIM),
  });
}

function newTarget({ url }) {
  return `${url}/copy-${copyCount++}`;
}

async function replicate(node, body, count) {
  const { history } = await call(node, "POST", "/_replicate", JSON.stringify(body));
  if (history[0].docs_written !== count) throw new Error(JSON.stringify(history[0]));
}

/** Copies the attachments sequentially, by one shell. */
async function pipe(from, to, ids) {
  const script =
    'set -e -o pipefail; for id in "$@"; do curl --silent --fail "$FROM/$id/film" | ' +
    'curl --silent --fail --output /dev/null --upload-file - "$TO/$id/film"; done';
  await run("bash", ["-c", script, "bash", ...ids], {
    env: { ...process.env, FROM: from, TO: to },
  });
}

/** Uploads random bytes, which cannot be compressed. */
async function upload(url, mebibytes) {
  const piece = Buffer.alloc(MEBIBYTE);
  const headers = {
    "content-type": "application/octet-stream",
    "content-length": String(mebibytes * MEBIBYTE),
  };
  const sent = request(url, { method: "PUT", headers });
  const answered = once(sent, "response");
  for (let count = 0; count < mebibytes; count++) {
    randomFillSync(piece);
    if (!sent.write(Buffer.from(piece))) await once(sent, "drain");
  }
  sent.end();
  const [response] = await answered;
  response.resume();
  await once(response, "end");
  if (response.statusCode !== 201) throw new Error(`PUT ${url}: ${response.statusCode}`);
}

function print(line) {
  process.stdout.write(`${line}\n`);
}
