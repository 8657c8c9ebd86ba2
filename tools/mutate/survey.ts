/**
 * Records which lines of `src/` the tests of a file run, in this process and in its child
 * processes.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { SourceMap, type SourceMapping } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FOLDER = process.env.MUTATE_SURVEY as string;

interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly {
    readonly ranges: readonly {
      readonly startOffset: number;
      readonly endOffset: number;
      readonly count: number;
    }[];
  }[];
}

interface Script {
  readonly text: string;
  /** The offset and the source location of each line of the script. */
  readonly lines: readonly { offset: number; path: string; line: number }[];
}

/** State shared by all test files that the process runs. */
const kept = globalThis as { surveySession?: Session; surveyScripts?: Map<string, Script> };
kept.surveyScripts ??= new Map();
const scripts = kept.surveyScripts;
let session = kept.surveySession;
if (session === undefined) {
  session = kept.surveySession = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
}
await session.post("Profiler.takePreciseCoverage");

const children = join(FOLDER, `children-${process.pid}`);
process.env.NODE_V8_COVERAGE = children;
const startMs = performance.now();

// biome-ignore lint/correctness/noEmptyPattern: Vitest wants a pattern here.
afterAll(async ({}, suite) => {
  const ms = Math.round(performance.now() - startMs);
  const lines = new Map<string, Set<number>>();
  const { result } = await (session as Session).post("Profiler.takePreciseCoverage");
  for (const script of result) note(script as ScriptCoverage, lines);
  mkdirSync(children, { recursive: true });
  for (const name of readdirSync(children)) {
    const { result } = JSON.parse(readFileSync(join(children, name), "utf8"));
    for (const script of result) note(script, lines);
  }
  rmSync(children, { recursive: true });
  const file = relative(ROOT, (suite as unknown as { file: { filepath: string } }).file.filepath);
  const ran = [...lines].map(([path, set]) => [path, [...set].sort((a, b) => a - b)]);
  const text = JSON.stringify({ file, ms, ran: Object.fromEntries(ran) });
  writeFileSync(join(FOLDER, `${file.replaceAll("/", "+")}.json`), text);
});

function note({ url, functions }: ScriptCoverage, lines: Map<string, Set<number>>): void {
  if (!url.startsWith(`file://${ROOT}dist/`)) return;
  const path = fileURLToPath(url);
  const script = scripts.get(path) ?? open(path);
  scripts.set(path, script);
  const counts = new Uint8Array(script.text.length);
  // The first function is the module itself, which might have been loaded for another test file.
  const [, ...inner] = functions;
  const isUsed = inner.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0);
  if (!isUsed) return;
  counts.fill(1);
  for (const { ranges } of inner) {
    for (const { startOffset, endOffset, count } of ranges) {
      counts.fill(count > 0 ? 1 : 0, startOffset, endOffset);
    }
  }
  for (const { offset, path: source, line } of script.lines) {
    if (counts[offset] !== 1) continue;
    const set = lines.get(source) ?? new Set();
    lines.set(source, set.add(line));
  }
}

function open(path: string): Script {
  const text = readFileSync(path, "utf8");
  if (!existsSync(`${path}.map`)) return { text, lines: [] };
  const map = new SourceMap(JSON.parse(readFileSync(`${path}.map`, "utf8")));
  const lines: Script["lines"][number][] = [];
  let start = 0;
  for (const [number, content] of text.split("\n").entries()) {
    const column = content.search(/\S/);
    const entry = map.findEntry(number, Math.max(0, column)) as Partial<SourceMapping>;
    if (column >= 0 && entry.originalSource !== undefined) {
      const source = relative(ROOT, resolve(dirname(path), entry.originalSource));
      lines.push({ offset: start + column, path: source, line: (entry.originalLine ?? 0) + 1 });
    }
    start += content.length + 1;
  }
  return { text, lines };
}
