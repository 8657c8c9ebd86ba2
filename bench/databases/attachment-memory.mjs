/**
 * Memory growth of a node while an attachment of 1 GiB is uploaded and downloaded.
 *
 *   npm run build && node bench/databases/attachment-memory.mjs [MiB]
 *
 * Prints, from `/proc/{pid}/status` of the node: RssAnon, its anonymous memory, and VmRSS, which
 * also counts mapped pages of LMDB's file that the system can drop at any time. A small attachment
 * is sent first, so that one-time allocations are not counted.
 */
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));
const MIB = 1024 * 1024;
const SAMPLE_MS = 50;
const WARM_UP_MIB = 32;

const sizeMib = Number(process.argv[2] ?? 1024);
const folder = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const child = spawn(
  process.execPath,
  [MAIN, "serve", "--port", "0", "--data-dir", join(folder, "data")],
  {
    stdio: ["ignore", "pipe", "inherit"],
  },
);
try {
  const port = await listening();
  await send(port, "PUT", "/films");
  // Random bytes, which cannot be deduplicated or compressed.
  const block = randomBytes(MIB);
  await upload(port, "/films/warm/a", block, WARM_UP_MIB);
  await download(port, "/films/warm/a");
  const before = memory();
  await measured("in, as multipart", () => uploadMultipart(port, "/films/parts", block, sizeMib));
  const sent = await measured("in", () => upload(port, "/films/big/a", block, sizeMib));
  const got = await measured("out", () => download(port, "/films/big/a"));
  if (sent !== got) throw new Error("The downloaded bytes differ from the uploaded ones");

  async function measured(name, work) {
    const peak = { RssAnon: 0, VmRSS: 0 };
    const sample = () => {
      for (const [field, value] of Object.entries(memory())) {
        peak[field] = Math.max(peak[field], value);
      }
    };
    const timer = setInterval(sample, SAMPLE_MS);
    const start = performance.now();
    const digest = await work();
    const seconds = (performance.now() - start) / 1000;
    clearInterval(timer);
    sample();
    const grown = (field) => ((peak[field] - before[field]) / 1024).toFixed(0);
    process.stdout.write(
      `${sizeMib} MiB ${name}: ${(sizeMib / seconds).toFixed(0)} MiB/s, ` +
        `RssAnon + ${grown("RssAnon")} MiB at most, VmRSS + ${grown("VmRSS")} MiB\n`,
    );
    return digest;
  }
} finally {
  child.kill("SIGTERM");
  await once(child, "exit");
  rmSync(folder, { recursive: true });
}

async function listening() {
  for await (const line of createInterface({ input: child.stdout })) {
    const match = /^listening on (http:\S+)$/.exec(line);
    if (match === null) continue;
    child.stdout.resume();
    return new URL(match[1]).port;
  }
  throw new Error("The node does not listen");
}

/** Returns the memory of the node in KiB. */
function memory() {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  const field = (name) => Number(new RegExp(`^${name}:\\s*(\\d+) kB`, "m").exec(status)[1]);
  return { RssAnon: field("RssAnon"), VmRSS: field("VmRSS") };
}

async function send(port, method, path) {
  const asked = request({ port, method, path }).end();
  const [response] = await once(asked, "response");
  response.resume();
  await once(response, "end");
}

function upload(port, path, block, blockCount) {
  const headers = { "content-type": "image/x", "content-length": blockCount * MIB };
  const asked = request({ port, method: "PUT", path, headers });
  return sendBlocks(asked, block, { blockCount, head: "", tail: "" });
}

function uploadMultipart(port, path, block, blockCount) {
  const headers = { "content-type": 'multipart/related; boundary="b"' };
  const asked = request({ port, method: "PUT", path, headers });
  const attachment = { content_type: "image/x", follows: true, length: blockCount * MIB };
  const document = JSON.stringify({ _attachments: { a: attachment } });
  const head = `--b\r\ncontent-type: application/json\r\n\r\n${document}\r\n--b\r\n\r\n`;
  return sendBlocks(asked, block, { blockCount, head, tail: "\r\n--b--" });
}

/** Sends the blocks, each with different first bytes. Returns the MD5 of all blocks. */
async function sendBlocks(asked, block, { blockCount, head, tail }) {
  const answered = once(asked, "response");
  const hash = createHash("md5");
  asked.write(head);
  for (let index = 0; index < blockCount; index++) {
    const bytes = Buffer.from(block);
    bytes.writeUInt32LE(index);
    hash.update(bytes);
    if (!asked.write(bytes)) await once(asked, "drain");
  }
  asked.end(tail);
  const [response] = await answered;
  if (response.statusCode !== 201)
    throw new Error(`The upload received status ${response.statusCode}`);
  response.resume();
  return hash.digest("hex");
}

async function download(port, path) {
  const [response] = await once(request({ port, path }).end(), "response");
  const hash = createHash("md5");
  for await (const bytes of response) hash.update(bytes);
  return hash.digest("hex");
}
