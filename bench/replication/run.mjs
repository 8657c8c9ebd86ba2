/**
 * Cost of replications compared with PouchDB, the minimal requests, `curl`, and a CouchDB if
 * COUCHDB_URL is set.
 *
 *   npm run bench [NAME]
 *
 * Runs the programs of this folder whose names begin with NAME, one after the other, and shows
 * their output. Then prints the ratios of all programs as one table. This takes about twenty
 * minutes on two cores. Nothing else should run. The rows of one program are measured alternately,
 * so that a change of the machine's speed affects all of them. The exit code is 1 if a program
 * failed; a ratio below its aim is not a failure.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { tableOf } from "./table.mjs";

const NAME = process.argv[2] ?? "";
const PROGRAMS = [
  "one-shot",
  "small-attachments",
  "large-attachments",
  "far-away",
  "few-ids",
  "no-changes",
  "short-jobs",
  "costs",
];

const folder = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const rows = join(folder, "rows");
writeFileSync(rows, "");
try {
  for (const name of PROGRAMS.filter((each) => each.startsWith(NAME))) {
    process.stdout.write(`\n${name}\n`);
    const path = fileURLToPath(new URL(`${name}.mjs`, import.meta.url));
    const env = { ...process.env, BENCH_ROWS: rows };
    const [code] = await once(spawn(process.execPath, [path], { env, stdio: "inherit" }), "exit");
    if (code === 0) continue;
    process.exitCode = 1;
    process.stdout.write(`${name} ended with ${code}\n`);
  }
  process.stdout.write(`\n${tableOf(rows)}\n`);
} finally {
  rmSync(folder, { recursive: true });
}
