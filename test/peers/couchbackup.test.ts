/**
 * `@cloudant/couchbackup` as a client. After a backup is restored into another database, this
 * database is complete.
 */
import { execFile } from "node:child_process";
import { createReadStream, createWriteStream } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { load, sampleLines } from "../support/sample-data.ts";

const run = promisify(execFile);
const require = createRequire(import.meta.url);
const BINARIES = join(require.resolve("@cloudant/couchbackup"), "..", "bin");
const FILM_COUNT = 3_023;

const processes = new Processes();
let tandem: TandemNode;

beforeAll(async () => {
  tandem = await processes.openHere();
  await load(tandem, "films", sampleLines("films"));
});
afterAll(() => processes.close());

/** Returns the text of each document, including `_rev`, by id. */
async function documentsOf(database: string): Promise<Map<string, string>> {
  const path = `/${database}/_all_docs?include_docs=true&attachments=true`;
  const { body } = await tandem.call("GET", path);
  return new Map(
    body.rows.map(({ id, doc }: { id: string; doc: object }) => [id, JSON.stringify(doc)]),
  );
}

test.each(["full", "shallow"])("a %s backup of the films restores all documents", async (mode) => {
  const file = join(processes.directory(), "films.backup");
  const log = join(processes.directory(), "films.log");
  const shared = ["--url", tandem.url, "--db", "films", "--mode", mode];
  const resumable = mode === "full" ? ["--log", log] : [];
  const backup = [join(BINARIES, "couchbackup.bin.js"), ...shared, ...resumable];
  await pipe(backup, undefined, file);
  const target = `restored-${mode}`;
  await tandem.call("PUT", `/${target}`);
  const restore = [join(BINARIES, "couchrestore.bin.js"), "--url", tandem.url, "--db", target];
  await pipe(restore, file, undefined);

  const before = await documentsOf("films");
  expect(before.size).toBe(FILM_COUNT);
  expect(await documentsOf(target)).toEqual(before);
});

/** Runs a program of the package and redirects its input or output to a file. */
async function pipe(
  program: readonly string[],
  input: string | undefined,
  output: string | undefined,
): Promise<void> {
  const running = run(process.execPath, program, {
    maxBuffer: 1e9,
    encoding: "buffer",
    // The program leaves a log folder in TMPDIR, which is therefore set to a folder that the suite
    // removes.
    env: { ...process.env, TMPDIR: processes.directory() },
  });
  const { stdin, stdout } = running.child;
  if (stdin === null || stdout === null) throw new Error("The program has no pipes");
  const flows: Promise<void>[] = [];
  if (input === undefined) stdin.end();
  else flows.push(pipeline(createReadStream(input), stdin));
  if (output !== undefined) flows.push(pipeline(stdout, createWriteStream(output)));
  await Promise.all([running, ...flows]);
}
