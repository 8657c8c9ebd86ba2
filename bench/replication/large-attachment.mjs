/**
 * Does an attachment of a gigabyte pass from node to node without being held, and do small documents get past it? A document with
 * the attachment and, behind it, a thousand small ones are copied; the memory of the node that replicates is sampled.
 *
 *   npm run build && node bench/replication/large-attachment.mjs [MEBIBYTES]
 *
 * Prints what the process had before, at most, and when the small documents were on the target. Linux only: it reads /proc.
 */
import { spawn } from "node:child_process";
import { createHash, randomFillSync } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const MEBIBYTE = 1024 * 1024;
const mebibyteCount = Number(process.argv[2] ?? 1024);
const SMALL_COUNT = 1000;
const SAMPLE_MS = 100;

const folder = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const nodes = [];
try {
  for (const name of ["source", "replicator", "target"]) nodes.push(await openNode(name));
  const [source, replicator, target] = nodes;
  await call(source, "PUT", "/large");
  const digest = await upload(source, "/large/film/film.bin");
  const warm = { source: `${source.url}/warm`, target: `${target.url}/warm`, create_target: true };
  await call(source, "PUT", "/warm");
  await writeSmall(source, "/warm");
  await call(replicator, "POST", "/_replicate", JSON.stringify(warm));
  await writeSmall(source, "/large");

  const before = memory(replicator);
  let peak = before;
  const sampling = setInterval(() => {
    peak = Math.max(peak, memory(replicator));
  }, SAMPLE_MS);
  const startedAtMs = performance.now();
  const seconds = () => (performance.now() - startedAtMs) / 1000;
  const body = {
    source: `${source.url}/large`,
    target: `${target.url}/large`,
    create_target: true,
  };
  const copied = call(replicator, "POST", "/_replicate", JSON.stringify(body));
  let smallSeconds;
  while (smallSeconds === undefined) {
    const response = await fetch(`${target.url}/large`);
    const { doc_count: count = 0 } = await response.json();
    if (count >= SMALL_COUNT) smallSeconds = seconds();
    await new Promise((resolve) => setTimeout(resolve, SAMPLE_MS));
  }
  await copied;
  const allSeconds = seconds();
  clearInterval(sampling);
  const { _attachments: attachments } = await call(target, "GET", "/large/film");
  const isSame = attachments["film.bin"].digest === `md5-${digest}`;
  print(`${mebibyteCount} MiB in ${allSeconds.toFixed(1)} s, digest ${isSame ? "equal" : "WRONG"}`);
  print(`${SMALL_COUNT} small documents behind it after ${smallSeconds.toFixed(1)} s (aim: 10 s)`);
  const added = ((peak - before) / MEBIBYTE).toFixed(0);
  print(`memory of the replicating node: ${megabytes(before)} before, ${megabytes(peak)} at most`);
  print(`added: ${added} MiB (aim: less than 64)`);
} finally {
  for (const { child } of nodes) {
    child.kill("SIGTERM");
    await once(child, "exit");
  }
  rmSync(folder, { recursive: true });
}

function print(line) {
  process.stdout.write(`${line}\n`);
}

function megabytes(byteCount) {
  return `${(byteCount / MEBIBYTE).toFixed(0)} MiB`;
}

/** Resident memory in bytes, without the pages of files that are mapped: those of the store are the machine's cache. */
function memory({ child }) {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(status)[1]) * 1024;
}

/** Random bytes, which no compression makes fewer; resolves to their MD5. */
async function upload({ url }, path) {
  const piece = Buffer.alloc(MEBIBYTE);
  const md5 = createHash("md5");
  const headers = {
    "content-type": "application/octet-stream",
    "content-length": String(mebibyteCount * MEBIBYTE),
  };
  const sent = request(url + path, { method: "PUT", headers });
  const answered = once(sent, "response");
  for (let count = 0; count < mebibyteCount; count++) {
    randomFillSync(piece);
    md5.update(piece);
    if (!sent.write(Buffer.from(piece))) await once(sent, "drain");
  }
  sent.end();
  const [response] = await answered;
  let text = "";
  for await (const chunk of response) text += chunk;
  if (response.statusCode !== 201) throw new Error(`PUT ${path}: ${response.statusCode} ${text}`);
  return md5.digest("base64");
}

async function writeSmall(node, path) {
  const docs = Array.from({ length: SMALL_COUNT }, (_, number) => ({ _id: `small-${number}` }));
  await call(node, "POST", `${path}/_bulk_docs`, JSON.stringify({ docs }));
}

async function openNode(name) {
  const flags = ["serve", "--port", "0", "--data-dir", join(folder, name)];
  const child = spawn(process.execPath, [MAIN, ...flags], {
    env: { ...process.env, TANDEM_LOG_LEVEL: "warn" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const [, url] = /^listening on (.*)$/.exec(line) ?? [];
    if (url !== undefined) return { url, child };
  }
  throw new Error("The node did not start");
}

async function call({ url }, method, path, body) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(url + path, { method, headers, ...(body && { body }) });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
  return answer;
}
