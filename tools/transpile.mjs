/**
 * Writes `dist/**.js` from `src/`, file by file and without type checks (see `npm run type-check`),
 * so that a test runs a second after an edit. An output has its source's modification time, which
 * marks it as current. `node tools/transpile.mjs src/base/lists.ts` writes the output of that file
 * only.
 */
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { transformSync } from "rolldown/experimental";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SOURCES = join(ROOT, "src");
const OUTPUTS = join(ROOT, "dist");
/** Folders that other build steps write. */
const OTHERS = /^(program|dashboard|demo)\//;
const UNBUILT = /\.(test|fuzz|fixture)\.ts$|\.d\.ts$|^dashboard\//;
/** Tolerance for comparing modification times, because `utimes` rounds. */
const MTIME_TOLERANCE_MS = 2;

const wanted = process.argv.slice(2).map((path) => relative(SOURCES, join(ROOT, path)));
if (wanted.length > 0) for (const path of wanted) transpile(path);
else transpileAll();

function transpileAll() {
  const sources = new Set(filesOf(SOURCES, /\.ts$/).filter((path) => !UNBUILT.test(path)));
  removeOrphans(sources);
  for (const path of sources) if (!isCurrent(path)) transpile(path);
}

function transpile(path) {
  const source = join(SOURCES, path);
  const output = join(OUTPUTS, outputOf(path));
  const { code, map, errors } = transformSync(source, readFileSync(source, "utf8"), {
    target: "es2022",
    sourcemap: true,
    typescript: { onlyRemoveTypeImports: true, rewriteImportExtensions: "rewrite" },
  });
  if (errors.length > 0) throw new Error(`${source}: ${errors[0].message}`);
  mkdirSync(dirname(output), { recursive: true });
  writeFileSync(`${output}.map`, JSON.stringify(map));
  writeFileSync(output, `${code}//# sourceMappingURL=${basename(output)}.map\n`);
  const { atime, mtime } = statSync(source);
  utimesSync(output, atime, mtime);
}

function isCurrent(path) {
  const [source, output] = [join(SOURCES, path), join(OUTPUTS, outputOf(path))].map(mtimeOf);
  return output !== undefined && Math.abs(source - output) < MTIME_TOLERANCE_MS;
}

/** Removes outputs without a source: a stale module could still be imported. */
function removeOrphans(sources) {
  for (const path of filesOf(OUTPUTS, /\.js$/)) {
    if (OTHERS.test(path) || sources.has(path.replace(/\.js$/, ".ts"))) continue;
    for (const ending of ["", ".map"]) rmSync(join(OUTPUTS, path + ending), { force: true });
  }
}

function filesOf(folder, pattern) {
  mkdirSync(folder, { recursive: true });
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" });
  return names.filter((name) => pattern.test(name));
}

function outputOf(path) {
  return path.replace(/\.ts$/, ".js");
}

function mtimeOf(file) {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs;
}
