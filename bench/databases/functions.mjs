/**
 * Cost of functions in design documents: `npm run build && node bench/databases/functions.mjs`.
 * Microseconds per call with one document, sequentially; milliseconds per call with two long
 * documents; and the memory of twenty design documents whose functions keep 60 MB each.
 */
import { SandboxPool } from "../../dist/host/sandbox/pool.js";
import { createSystemRuntime } from "../../dist/host/system/runtime.js";

const CALLS = 2_000;
const pool = new SandboxPool(createSystemRuntime());
const encode = (value) => [new TextEncoder().encode(JSON.stringify(value))];

const check = "if (!doc.type) throw { forbidden: 'type is missing' };";
const library = "exports.f = function (a) { return a + 1; };".repeat(700);
const designs = {
  "a small function": { validate_doc_update: `function (doc) { ${check} }` },
  "a module of 30 kB": {
    lib: { m: library },
    validate_doc_update: `function (doc) { require('lib/m'); ${check} }`,
  },
  "500 kB besides": {
    rest: Array.from({ length: 16 }, () => library),
    validate_doc_update: `function (doc) { ${check} }`,
  },
};

function validate(codeId, code, count = 1) {
  return validateRuns(codeId, code, Array(count).fill('[{"type":"film"},null]'));
}

/** @param {any[]} runs */
function validateRuns(codeId, code, runs) {
  const path = ["validate_doc_update"];
  return pool.call({
    codeId,
    code,
    kind: "validate",
    path,
    runs,
    shared: "[{},{}]",
    timeoutMs: 5_000,
  });
}

for (const [name, design] of Object.entries(designs)) {
  const code = encode(design);
  for (let count = 0; count < 50; count++) await validate(name, code);
  const startMs = performance.now();
  for (let count = 0; count < CALLS; count++) await validate(name, code);
  const callUs = ((performance.now() - startMs) / CALLS) * 1_000;
  console.log(`${name.padEnd(20)} ${callUs.toFixed(0).padStart(6)} us`);
}

const codes = Object.values(designs).slice(0, 1).map(encode);
const startMs = performance.now();
for (let count = 0; count < 20; count++) await validate("a small function", codes[0], 1_000);
const runUs = ((performance.now() - startMs) / 20_000) * 1_000;
console.log(`1,000 runs a call    ${runUs.toFixed(1).padStart(6)} us`);

for (const length of [100_000, 1_000_000, 7_000_000]) {
  const document = encode({ type: "film", text: "\u20ac".repeat(length / 3) });
  const call = () => validateRuns("a small function", codes[0], [[document, document]]);
  for (let count = 0; count < 5; count++) await call();
  const startMs = performance.now();
  for (let count = 0; count < 20; count++) await call();
  const callMs = (performance.now() - startMs) / 20;
  console.log(`two of ${String(length).padStart(7)} bytes ${callMs.toFixed(1).padStart(6)} ms`);
}

for (let round = 0; round < 2; round++) {
  const startMs = performance.now();
  for (let count = 0; count < 20; count++) {
    const source = "function () { globalThis.kept = new Uint8Array(6e7).fill(1); }";
    await Promise.all(
      [1, 2].map(() => validate(`hoard ${count}`, encode({ validate_doc_update: source }))),
    );
  }
  const seconds = (performance.now() - startMs) / 1_000;
  console.log(
    `${Math.round(process.memoryUsage().rss / 2 ** 20)} MiB after 20 documents that keep 60 MB, ${seconds.toFixed(1)} s`,
  );
}
await pool.close();
