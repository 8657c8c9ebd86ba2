/**
 * Bundles the sources into the program `dist/program/main.js` and the library: Node.js loads these
 * few files in half the time that several hundred would take. Threads and child processes are
 * separate files next to the program, with the names that `builtFile` expects. Installed packages
 * are not bundled.
 */
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { writeFolder } from "./write-folder.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PROGRAM = `${ROOT}dist/program`;

/** Keeps only comments that tools or licences need, because the package must stay small. */
const OUTPUT = {
  dir: PROGRAM,
  format: "esm",
  sourcemap: true,
  comments: { jsdoc: false, annotation: true, legal: true },
};

const OPTIONS = {
  cwd: ROOT,
  external: /^[^./]/,
  // None of our modules has side effects when it is loaded, so a command loads only the modules
  // that it uses.
  treeshake: { moduleSideEffects: false },
};

const bundle = await rolldown({
  ...OPTIONS,
  input: {
    main: "src/cli/main.ts",
    // Entry points of the library (`exports` in package.json).
    index: "src/library/entries/index.ts",
    jobs: "src/library/entries/jobs.ts",
    kv: "src/library/entries/kv.ts",
    "kv-conformance": "src/library/entries/kv-conformance.ts",
    "committer-thread": "src/host/lmdb/committer-thread.ts",
    "lmdb-lease-thread": "src/host/leases/lmdb-lease-thread.ts",
    "lock-wake-up-thread": "src/host/lmdb/lock-wake-up-thread.ts",
    "selector-thread": "src/host/sandbox/selector-thread.ts",
    "function-thread": "src/host/sandbox/function-thread.ts",
  },
  platform: "node",
});
const { output } = await bundle.generate(OUTPUT);
await bundle.close();
// The client also runs in browsers, so it shares no file with the program.
const client = await rolldown({
  ...OPTIONS,
  input: { client: "src/client/entry.ts" },
  platform: "browser",
});
const browser = await client.generate(OUTPUT);
await client.close();

writeFolder(
  PROGRAM,
  [...output, ...browser.output].map((file) => [
    file.fileName,
    file.type === "chunk" ? file.code : file.source,
  ]),
);
