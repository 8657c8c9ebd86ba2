/** The declarations of the package: complete, self-contained, and changed only on purpose. */
import { execFileSync, spawnSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
const TYPES = join(ROOT, "dist/types");

function run(cwd: string, ...flags: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, flags, { cwd, encoding: "utf8" });
  return { status, output: stdout + stderr };
}

const TSC = join(ROOT, "node_modules/typescript/bin/tsc");

beforeAll(() => {
  // Tests run without type checks, so the declarations may be older than the sources.
  expect(run(ROOT, TSC, "-b", "src/library", "src/client")).toEqual({ status: 0, output: "" });
  expect(run(ROOT, "tools/declarations.mjs")).toEqual({ status: 0, output: "" });
});

const entries = Object.entries<{ readonly types: string; readonly default: string }>(exports);

test("every entry point has a module and declarations, and nothing else is public", () => {
  const types = entries.map(([, entry]) => entry.types.replace("./dist/types/", ""));
  expect(types.toSorted()).toEqual(readdirSync(TYPES).toSorted());
  for (const [, entry] of entries)
    expect(readFileSync(join(ROOT, entry.default), "utf8")).toContain("export");
});

test("the package contains every declaration, and its size is at most five megabytes", () => {
  const [{ files, unpackedSize }] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--dry-run", "--ignore-scripts"], {
      cwd: ROOT,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }),
  ) as [{ readonly files: readonly { readonly path: string }[]; readonly unpackedSize: number }];
  const packed = files.filter(({ path }) => path.startsWith("dist/types/"));
  expect(packed.map(({ path }) => `./${path}`).toSorted()).toEqual(
    entries.map(([, { types }]) => types).toSorted(),
  );
  expect(unpackedSize).toBeLessThanOrEqual(5_000_000);
});

test.each(entries)(
  "the declarations of %s change only on purpose (-u accepts)",
  async (_, { types }) => {
    const text = readFileSync(join(ROOT, types), "utf8");
    await expect(text).toMatchFileSnapshot(
      `declarations/${types.replace("./dist/types/", "")}.txt`,
    );
  },
);

/** Program of a user who has installed only this package and the compiler. */
const CONSUMER = `
import { openNode, replicate, ReplicationError, verify } from "couch-tandem";
import { createClient } from "couch-tandem/client";
import { openQueue, type JobHandler } from "couch-tandem/jobs";
import { openKeyValueStore, Subspace } from "couch-tandem/kv";
import { kvConformance } from "couch-tandem/kv/conformance";

const count: JobHandler = {
  type: "count",
  async run({ data, transact }) {
    await transact(async (tx, job) => {
      tx.set(new Subspace().pack(["count", String(data.name)]), new Uint8Array(1));
      await job.finish({ done: true });
    });
    return undefined;
  },
};
const node = await openNode({ store: "memory", config: { replicator: { max_jobs: 5 } }, types: [count] });
// Stores, transactions and queues of all entry points fit together.
const queue = openQueue(node.store);
await node.store.transact((tx) => queue.register(tx, "mail", 30));
const own = await openKeyValueStore({ kind: "lmdb", directory: "data" });
await own.transact((tx) => openQueue(own).add(tx, { type: "mail", id: "1" }, { to: "a" }));
const films = node.databases.get("films");
for await (const { docs_written } of replicate("https://a.example/films", films)) docs_written.toFixed();
const { failures } = await replicate(films, { url: new URL("https://b.example/"), auth: { basic: { username: "u", password: "p" } } });
const rev: string | undefined = failures[0]?.rev;
const { ok } = await verify(films, "https://b.example/films").catch((error: ReplicationError) => ({ ok: error.status === 404 }));
const client = createClient({ url: "http://localhost:5984/", fetch: node.fetch });
for await (const job of client.jobs.list({ failing: true })) job.last_failure?.reason.trim();
const suite = kvConformance({ open: () => Promise.reject(new Error("none")), features: ["watches"] });
for (const { name } of suite.cases) name.trim();
// @ts-expect-error: an unknown option is an error.
replicate(films, films, { forever: true });
// @ts-expect-error: so is a value of another type.
openNode({ store: 5 });
export { ok, rev };
`;

test("a strict consumer without other packages compiles, even with isolated modules", () => {
  const directory = mkdtempSync(join(tmpdir(), "tandem-consumer-"));
  try {
    const packageFolder = join(directory, "node_modules/couch-tandem");
    mkdirSync(packageFolder, { recursive: true });
    mkdirSync(join(packageFolder, "dist"));
    symlinkSync(join(ROOT, "package.json"), join(packageFolder, "package.json"));
    // A copy, so that imports of the declarations do not resolve to packages of this repository.
    mkdirSync(join(packageFolder, "dist/types"));
    for (const name of readdirSync(TYPES)) {
      writeFileSync(join(packageFolder, "dist/types", name), readFileSync(join(TYPES, name)));
    }
    writeFileSync(join(directory, "consumer.mts"), CONSUMER);
    const flags = ["--strict", "--noEmit", "--target", "es2022", "--exactOptionalPropertyTypes"];
    for (const module of [
      ["--module", "nodenext"],
      ["--module", "esnext", "--moduleResolution", "bundler", "--isolatedModules"],
    ]) {
      expect(run(directory, TSC, ...flags, ...module, "consumer.mts")).toEqual({
        status: 0,
        output: "",
      });
    }
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("the code on the pages of the library passes the compiler's checks", () => {
  const folder = mkdtempSync(join(ROOT, "dist/pages-"));
  try {
    const files = ["library", "client", "queue"].flatMap((page) => {
      const text = readFileSync(join(ROOT, `docs/${page}.md`), "utf8");
      return [...text.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code = ""], index) => {
        const file = join(folder, `${page}-${index}.mts`);
        writeFileSync(file, code);
        return file;
      });
    });
    expect(files).toHaveLength(3);
    const flags = [
      "--strict",
      "--noEmit",
      "--target",
      "es2022",
      "--module",
      "nodenext",
      "--noImplicitAny",
      "false",
    ];
    const { status, output } = run(
      ROOT,
      TSC,
      ...flags,
      "--types",
      "node",
      "--skipLibCheck",
      ...files,
    );
    expect({ status, output }).toEqual({ status: 0, output: "" });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the examples pass the compiler's checks", () => {
  const flags = ["--checkJs", "--noEmit", "--target", "es2022", "--module", "nodenext"];
  const lenient = ["--skipLibCheck", "--strict", "--noImplicitAny", "false", "--types", "node"];
  const names = ["library/copy.mjs", "library/pause-failing.mjs", "thumbnails/add.mjs"];
  const files = names.map((name) => join(ROOT, "examples", name));
  expect(run(ROOT, TSC, ...flags, ...lenient, ...files)).toEqual({ status: 0, output: "" });
});
