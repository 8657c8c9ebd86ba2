/**
 * `tandem demo`: shows replication from end to end, on a node with the embedded store in a
 * temporary folder.
 *
 * Loads the sample data over HTTP, replicates one database by `POST /_replicate` and one by a
 * `_replicator` document, compares the copies with their sources, and prints statistics.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { createLogWriter } from "../host/index.ts";
import { openConnections } from "../library/index.ts";
import { compareDatabases, describeDifference, parseReplication } from "../replicator/index.ts";
import { openServer, readConfig, VERSION } from "../server/index.ts";
import { describe } from "./replicate/verify.ts";
import { Progress } from "./terminal/progress.ts";

/** Sample data, which `tools/demo-data.mjs` writes next to the folder of the built program. */
const DATA = new URL("../demo/", import.meta.url);
const BULK_ROWS = 500;
const POLL_MS = 100;

export async function demo(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "tandem-demo-"));
  try {
    const config = readConfig({ port: 0, dataDirectory: join(directory, "data") }, {});
    const log = createLogWriter({ level: () => "warn", format: "json" });
    const server = await openServer(config, log);
    try {
      await copyOn(server.url as string, directory);
    } finally {
      await server.stop();
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Copies the sample databases on the node at `url`, and sets the exit code. */
async function copyOn(url: string, directory: string): Promise<void> {
  /** Whether the node keeps running after the demo. Its URL is printed only in this case. */
  const staysUp = process.stdout.isTTY;
  const address = staysUp ? `, listening on ${url}` : "";
  process.stdout.write(`Tandem ${VERSION}, store in ${directory}${address}\n\n`);
  const filmCount = await load(url, "films");
  const countryCount = await load(url, "countries");
  await replicateTransient(url, filmCount);
  await replicatePersistent(url, countryCount);
  const same = [await compare(url, "films"), await compare(url, "countries")];
  process.exitCode = same.every((isSame) => isSame) ? 0 : 1;
  if (staysUp) await interrupted(url);
  else
    process.stdout.write("\non a terminal, the node and its dashboard keep running until Ctrl-C\n");
}

/** Loads a file of sample documents in bulk. Returns their number. */
async function load(url: string, database: string): Promise<number> {
  const packed = readFileSync(new URL(`${database}.ndjson.gz`, DATA));
  const lines = gunzipSync(packed).toString("utf8").trimEnd().split("\n");
  await call(url, "PUT", `/${database}`);
  const progress = new Progress(`loading ${database}`);
  for (let start = 0; start < lines.length; start += BULK_ROWS) {
    const docs = lines.slice(start, start + BULK_ROWS).join(",");
    const rows = await call(url, "POST", `/${database}/_bulk_docs`, `{"docs":[${docs}]}`);
    const refused = (rows as { error?: string }[]).find(({ error }) => error !== undefined);
    if (refused !== undefined) throw new Error(`loading ${database}: ${JSON.stringify(refused)}`);
    progress.show(Math.min(start + BULK_ROWS, lines.length), lines.length);
  }
  progress.end(lines.length, lines.length);
  return lines.length;
}

/** Replicates between two local databases by `POST /_replicate`, with their names as endpoints. */
async function replicateTransient(url: string, documentCount: number): Promise<void> {
  const progress = new Progress("POST /_replicate films");
  const body = { source: "films", target: "films-copy", create_target: true };
  let ended = false;
  const answered = call(url, "POST", "/_replicate", JSON.stringify(body)).finally(() => {
    ended = true;
  });
  const watching = (async () => {
    while (!ended) {
      progress.show(await countOf(url, "films-copy"), documentCount);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  })();
  const answer = (await answered) as { history: readonly { docs_written: number }[] };
  await watching;
  const writtenCount = answer.history[0]?.docs_written ?? 0;
  progress.end(writtenCount, writtenCount);
}

/** Replicates a database with attachments between two URLs, by a `_replicator` document. */
async function replicatePersistent(url: string, documentCount: number): Promise<void> {
  const progress = new Progress("_replicator/countries");
  const body = {
    source: `${url}/countries`,
    target: `${url}/countries-copy`,
    create_target: true,
  };
  await call(url, "PUT", "/_replicator/countries", JSON.stringify(body));
  for (;;) {
    const job = (await call(url, "GET", "/_scheduler/docs/_replicator/countries")) as {
      readonly state: string;
      readonly info: { readonly error?: string } | null;
    };
    const done = await countOf(url, "countries-copy");
    if (job.state === "completed") {
      progress.end(done, done);
      return;
    }
    if (job.info?.error !== undefined) throw new Error(job.info.error);
    progress.show(done, documentCount);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function compare(url: string, database: string): Promise<boolean> {
  const connections = openConnections({ userAgent: `Tandem/${VERSION}` });
  try {
    const source = `${url}/${database}`;
    const replication = parseReplication({ source, target: `${source}-copy` });
    const comparison = await compareDatabases(
      connections.open(replication, "source"),
      connections.open(replication, "target"),
      new AbortController().signal,
      { difference: (difference) => process.stdout.write(`${describeDifference(difference)}\n`) },
    );
    process.stdout.write(`${database}: ${describe(comparison)}`);
    return comparison.differenceCount === 0;
  } finally {
    await connections.close();
  }
}

/** Number of documents that have arrived; 0 while the copy does not exist. */
async function countOf(url: string, database: string): Promise<number> {
  const response = await fetch(`${url}/${database}`);
  const { doc_count: count = 0 } = (await response.json()) as { doc_count?: number };
  return count;
}

async function call(url: string, method: string, path: string, body?: string): Promise<unknown> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { "content-type": "application/json" },
    ...(body === undefined ? {} : { body }),
  });
  const answer: unknown = await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
  return answer;
}

function interrupted(url: string): Promise<void> {
  process.stdout.write(`\njobs: ${url}/_scheduler/docs\n`);
  process.stdout.write(`dashboard: ${url}/_dashboard/\n`);
  process.stdout.write(`the node stays up at ${url} until Ctrl-C\n`);
  return new Promise((resolve) => {
    process.once("SIGINT", resolve);
    process.once("SIGTERM", resolve);
  });
}
