/**
 * Memory of the replicating node while an attachment of a gigabyte is copied, and delay of small
 * documents. A document with the attachment and, after it, a thousand small ones are copied; the
 * memory is sampled.
 *
 *   npm run build && node bench/replication/large-attachment.mjs [MEBIBYTES]
 *
 * Prints the initial and the maximum memory of the process, and the time until the small documents
 * were on the target. Linux only (`nodes.mjs`).
 */
import { createHash, randomFillSync } from "node:crypto";
import { once } from "node:events";
import { request } from "node:http";
import { call, MEBIBYTE, measureUse, memoryBytes, withNodes } from "./nodes.mjs";

const mebibyteCount = Number(process.argv[2] ?? 1024);
const SMALL_COUNT = 1000;
const POLL_MS = 100;

await withNodes(["source", "replicator", "target"], async (source, replicator, target) => {
  await call(source, "PUT", "/large");
  const digest = await upload(source, "/large/film/film.bin");
  await call(source, "PUT", "/warm");
  await writeSmall(source, "/warm");
  // A first job, so that one-time allocations are not counted.
  await replicate(source, replicator, target, "warm");
  await writeSmall(source, "/large");

  const before = memoryBytes(replicator.pid);
  let smallSeconds = 0;
  const { seconds, peakBytes } = await measureUse([replicator.pid], async () => {
    const startedAtMs = performance.now();
    const copied = replicate(source, replicator, target, "large");
    await untilCount(target, "large", SMALL_COUNT);
    smallSeconds = (performance.now() - startedAtMs) / 1000;
    await copied;
  });
  const { _attachments: attachments } = await call(target, "GET", "/large/film");
  const isSame = attachments["film.bin"].digest === `md5-${digest}`;
  print(`${mebibyteCount} MiB in ${seconds.toFixed(1)} s, digest ${isSame ? "equal" : "WRONG"}`);
  print(
    `${SMALL_COUNT} small documents after it arrived within ${smallSeconds.toFixed(1)} s (aim: 10 s)`,
  );
  print(`the replicating node: ${mebibytes(before)} before, ${mebibytes(peakBytes)} at most`);
  print(`added: ${mebibytes(peakBytes - before)} (aim: less than 64)`);
});

function print(line) {
  process.stdout.write(`${line}\n`);
}

function mebibytes(byteCount) {
  return `${(byteCount / MEBIBYTE).toFixed(0)} MiB`;
}

function replicate(source, replicator, target, database) {
  const [from, to] = [source, target].map(({ url }) => `${url}/${database}`);
  const body = { source: from, target: to, create_target: true };
  return call(replicator, "POST", "/_replicate", JSON.stringify(body));
}

/** Waits until the database exists and has this many documents. */
async function untilCount({ url }, database, count) {
  for (;;) {
    const answer = await fetch(`${url}/${database}`);
    const { doc_count: present = 0 } = /** @type {any} */ (await answer.json());
    if (present >= count) return;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Uploads random bytes, which cannot be compressed. Resolves with their MD5. */
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
