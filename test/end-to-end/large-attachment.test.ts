/**
 * Source, target and replicator stream an attachment of a gigabyte, and small documents overtake
 * it. This takes minutes and gigabytes of disk, so the test runs on demand: `ATTACHMENT_MIB=1024
 * npx vitest run test/end-to-end/large-attachment.test.ts`. Linux only: it reads /proc.
 */
import { createHash, randomFillSync } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { afterAll, describe, expect, test } from "vitest";
import { onceThere } from "../support/changes-feed.ts";
import { Processes, type TandemProcess } from "../support/open-process.ts";

const MEBIBYTE = 1024 * 1024;
/** Maximum additional memory of each of the source, the replicator and the target. */
const ADDED_MIB_MAX = 64;
const SMALL_COUNT = 1000;
const SAMPLE_MS = 100;

const mebibyteCount = Number(process.env.ATTACHMENT_MIB ?? 0);
const processes = new Processes();
afterAll(() => processes.close());

/**
 * Returns the memory of a process, without mapped files: the mapped files of the store are page
 * cache.
 */
function memoryBytes({ child }: TandemProcess): number {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(status)?.[1]) * 1024;
}

/** Uploads incompressible random bytes. Resolves to the digest of these bytes. */
async function upload({ url }: TandemProcess, path: string): Promise<string> {
  const md5 = createHash("md5");
  const headers = {
    "content-type": "application/octet-stream",
    "content-length": String(mebibyteCount * MEBIBYTE),
  };
  const sent = request(url + path, { method: "PUT", headers });
  const answered = once(sent, "response");
  for (let count = 0; count < mebibyteCount; count++) {
    const piece = randomFillSync(Buffer.alloc(MEBIBYTE));
    md5.update(piece);
    if (!sent.write(piece)) await once(sent, "drain");
  }
  sent.end();
  const [response] = (await answered) as [IncomingMessage];
  expect(response.resume().statusCode).toBe(201);
  return `md5-${md5.digest("base64")}`;
}

async function writeSmall(node: TandemProcess, database: string): Promise<void> {
  const docs = Array.from({ length: SMALL_COUNT }, (_, number) => ({ _id: `small-${number}` }));
  await node.call("POST", `/${database}/_bulk_docs`, { docs });
}

describe.runIf(mebibyteCount > 0 && existsSync("/proc/self/status"))("on demand", () => {
  test("a large attachment is streamed with bounded memory, and does not delay later documents", async () => {
    const nodes = await Promise.all([processes.open(), processes.open(), processes.open()]);
    const [source, replicator, target] = nodes;
    const replicate = (database: string) =>
      replicator.call("POST", "/_replicate", {
        source: `${source.url}/${database}`,
        target: `${target.url}/${database}`,
        create_target: true,
      });
    await source.call("PUT", "/large");
    const digest = await upload(source, "/large/film/film.bin");
    // Runs a first job, so that one-time allocations are not counted.
    await source.call("PUT", "/warm");
    await writeSmall(source, "warm");
    expect((await replicate("warm")).status).toBe(200);
    await writeSmall(source, "large");

    const before = nodes.map(memoryBytes);
    const peaks = [...before];
    const sampling = setInterval(() => {
      for (const [index, node] of nodes.entries()) {
        peaks[index] = Math.max(peaks[index] as number, memoryBytes(node));
      }
    }, SAMPLE_MS);
    const copied = replicate("large");
    await onceThere(target.url, "large", ({ size }) => size >= SMALL_COUNT);
    // At this time, the document with the large attachment is still in transit.
    expect((await target.call("GET", "/large/film")).status).toBe(404);
    expect((await copied).body.history[0].doc_write_failures).toBe(0);
    clearInterval(sampling);
    const { body: film } = await target.call("GET", "/large/film");
    expect(film._attachments["film.bin"].digest).toBe(digest);
    const added = peaks.map((peak, index) =>
      Math.round((peak - (before[index] as number)) / MEBIBYTE),
    );
    // Additional memory of the source, the replicator and the target.
    process.stdout.write(`added: ${added.join(", ")} MiB\n`);
    for (const mebibytes of added) expect(mebibytes).toBeLessThan(ADDED_MIB_MAX);
  }, 1_800_000);
});
