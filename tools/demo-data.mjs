/**
 * Writes `dist/demo/`, the sample data that `tandem demo` copies: a part of `demo/data/`, because
 * the package must stay small.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import { writeFolder } from "./write-folder.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FLAG_BYTES_MAX = 10_000;

const PARTS = {
  films: (_, index) => index % 3 === 0,
  countries: (line) => flagBytes(line) <= FLAG_BYTES_MAX,
};

function flagBytes(line) {
  return Buffer.byteLength(JSON.parse(line)._attachments["flag.svg"].data, "base64");
}

/** Returns those documents of a database for which `isKept` returns true, compressed. */
function part(database, isKept) {
  const packed = readFileSync(`${ROOT}demo/data/${database}.ndjson.gz`);
  const lines = gunzipSync(packed).toString("utf8").trimEnd().split("\n");
  return gzipSync(`${lines.filter(isKept).join("\n")}\n`, { level: 9 });
}

writeFolder(`${ROOT}dist/demo`, [
  ["README.md", readFileSync(`${ROOT}demo/data/README.md`)],
  ...Object.entries(PARTS).map(([name, isKept]) => [`${name}.ndjson.gz`, part(name, isKept)]),
]);
