/**
 * Plants faults in a copy of the tree, one at a time, and prints those that no test notices.
 *
 *   npm run mutate -- [--count 200] [--seed 1] [--in src/kv] [--named TEXT] [--long] [--survey new|more] [--seconds 60] [--jobs 1]
 *
 * A survey notes once which lines each test file runs, in its own process and in the programs that it starts. A fault is then met by the
 * files that run its line, the quickest first, for `--seconds` of their usual time. `--named` plants those of `named-faults.mjs` that the text
 * names; "" names all.
 * Exit code 1 if a fault survived.
 */
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { drawFaults, faultsOf } from "./faults.mjs";
import { NAMED_FAULTS } from "./named-faults.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SURVEY = join(ROOT, "node_modules/.cache/mutate");
const SOURCES = "sources.json";
/** A faulty program may hang. Its tests get this multiple of their usual time, and time to start. */
const PATIENCE = { factor: 6, ms: 60_000 };
/** Part of the usual limit of a wait in tests. */
const TEST_PATIENCE = "0.2";
const CONFIG = "tools/mutate/vitest.config.ts";

const { values } = parseArgs({
  options: {
    count: { type: "string", default: "200" },
    seed: { type: "string", default: "1" },
    in: { type: "string", default: "src/" },
    named: { type: "string" },
    long: { type: "boolean", default: false },
    survey: { type: "string" },
    seconds: { type: "string", default: "60" },
    jobs: { type: "string", default: "1" },
  },
});
const say = (text) => process.stdout.write(`${text}\n`);

const isSurveyNeeded = values.named === undefined && !existsSync(SURVEY);
if (values.survey !== undefined || isSurveyNeeded) await survey(values.survey === "more");
const { surveyed, sources } = values.named === undefined ? readSurvey() : {};
const chosen = values.named === undefined ? drawnFaults() : namedFaults(values.named);
const faults = chosen.filter(({ path }) => path.startsWith(values.in));
const digests = new Map(faults.map(({ path }) => [path, digestOf(path)]));
say(`${faults.length} faults`);

const outcomes = [];
const left = faults.entries();
await Promise.all(Array.from({ length: Number(values.jobs) }, plantInTurn));
const survivors = outcomes.filter(({ noticedBy }) => noticedBy === undefined);
const share = (100 * (1 - survivors.length / Math.max(1, faults.length))).toFixed(1);
say(`\n${faults.length - survivors.length} of ${faults.length} noticed (${share} %)`);
for (const { fault } of survivors) say(`survived: ${shown(fault)}`);
if (survivors.length > 0) process.exitCode = 1;

function drawnFaults() {
  const all = sourcePaths().flatMap((path) => faultsOf(path, textOf(path)));
  return drawFaults(all, Number(values.count), values.seed);
}

/** Which lines the tests ran, and the digests of the sources then. */
function readSurvey() {
  const read = (name) => JSON.parse(readFileSync(join(SURVEY, name), "utf8"));
  const names = readdirSync(SURVEY).filter((name) => /\.ts\.json$/.test(name));
  return { surveyed: names.map(read), sources: read(SOURCES) };
}

function sourcePaths() {
  const { stdout } = spawnSync("git", ["ls-files", "src"], { cwd: ROOT, encoding: "utf8" });
  return stdout.split("\n").filter((path) => /(?<!\.(test|fuzz|d|fixture))\.tsx?$/.test(path));
}

function textOf(path) {
  return readFileSync(join(ROOT, path), "utf8");
}

function digestOf(path) {
  return createHash("sha256").update(textOf(path)).digest("hex");
}

/** Those whose rule or place contains the text. */
function namedFaults(part) {
  const named = NAMED_FAULTS.filter(({ rule, path }) => `${path} ${rule}`.includes(part));
  return named.map(({ path, text, replacement, rule, tests }) => {
    const before = textOf(path);
    const from = before.indexOf(text);
    const line = before.slice(0, from).split("\n").length;
    const place = { path, from, to: from + text.length, line };
    return {
      ...place,
      rule,
      text,
      replacement,
      files: tests.map((file) => ({ file, ms: 60_000 })),
    };
  });
}

async function plantInTurn() {
  const tree = copyTree();
  try {
    for (const [index, fault] of left) {
      const outcome = { fault, ...(await plant(tree, fault)) };
      outcomes.push(outcome);
      const { noticedBy, fileCount } = outcome;
      const end = noticedBy ?? `SURVIVED ${fileCount} files`;
      say(`${index + 1}. ${shown(fault)}\n     ${end}`);
    }
  } finally {
    rmSync(tree, { recursive: true });
  }
}

/** Plants a fault, and resolves with the first test that notices it. */
async function plant(tree, fault) {
  const files = fault.files ?? filesFor(fault);
  if (files.length === 0) return { fileCount: 0 };
  const source = join(tree, fault.path);
  const before = readFileSync(source, "utf8");
  const planted = before.slice(0, fault.from) + fault.replacement + before.slice(fault.to);
  try {
    writeFileSync(source, planted);
    build(tree, fault.path);
    return { fileCount: files.length, noticedBy: await noticing(tree, files) };
  } catch (error) {
    return { fileCount: files.length, noticedBy: `compiler: ${error.message.split("\n")[0]}` };
  } finally {
    writeFileSync(source, before);
    build(tree, fault.path);
  }
}

/** Files whose tests run the line, or any line of a file that has changed since the survey: those beside it or with its name first, then the quickest, as far as the time allows. */
function filesFor({ path, line }) {
  const name = basename(path).replace(/\.tsx?$/, "");
  const isDashboard = path.startsWith("src/dashboard/");
  const isChanged = !isDashboard && sources[path] !== digests.get(path);
  const ran = surveyed.filter(({ file, ran }) => {
    if (isDashboard) return file.startsWith("test/dashboard/");
    return isChanged ? ran[path] !== undefined : ran[path]?.includes(line);
  });
  const isNamed = ({ file }) => Number(basename(file).startsWith(`${name}.`));
  ran.sort((a, b) => isNamed(b) - isNamed(a) || a.ms - b.ms);
  let leftMs = Number(values.seconds) * 1000;
  return ran.filter(({ ms }, index) => {
    leftMs -= ms;
    return index < 2 || leftMs >= 0;
  });
}

async function noticing(tree, files) {
  const expectedMs = files.reduce((sum, { ms }) => sum + ms, 0);
  const limitMs = expectedMs * PATIENCE.factor + PATIENCE.ms;
  const { output, code } = await test(
    tree,
    files.map(({ file }) => file),
    { limitMs },
  );
  const failure = /^FAILED (.*)/m.exec(output)?.[1];
  if (failure !== undefined || code === 0) return failure;
  return code === null ? "hangs" : `exit code ${code}`;
}

/** Runs test files one after the other, until one fails. */
async function test(tree, files, { limitMs, environment = {}, isWhole = false }) {
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const flags = ["run", "--config", CONFIG, ...(isWhole ? [] : ["--bail=1", "--maxWorkers=1"])];
  const child = spawn(process.execPath, [vitest, ...flags, ...files], {
    cwd: tree,
    env: { ...process.env, TEST_PATIENCE, MUTATE_FILES: files.join(","), ...environment },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  child.stderr.resume();
  const timer = setTimeout(() => process.kill(-child.pid, "SIGKILL"), limitMs);
  const code = await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  try {
    // Programs that a test which failed left running.
    process.kill(-child.pid, "SIGKILL");
  } catch {}
  return { output, code };
}

async function survey(isContinued) {
  say("survey: which lines each test file runs");
  if (!isContinued) rmSync(SURVEY, { recursive: true, force: true });
  mkdirSync(SURVEY, { recursive: true });
  const digests = sourcePaths().map((path) => [path, digestOf(path)]);
  writeFileSync(join(SURVEY, SOURCES), JSON.stringify(Object.fromEntries(digests)));
  const tree = copyTree();
  const project = values.long ? [] : ["--project=quick"];
  const known = readSurvey().surveyed.map(({ file }) => `--exclude=${file}`);
  const environment = { MUTATE_SURVEY: SURVEY };
  const limitMs = 2 ** 31 - 1;
  const options = { limitMs, environment, isWhole: true };
  const { output } = await test(tree, [...project, ...known], options);
  for (const [, line] of output.matchAll(/^FAILED (.*)/gm)) say(`fails without a fault: ${line}`);
  rmSync(tree, { recursive: true });
}

function copyTree() {
  const tree = mkdtempSync(join(tmpdir(), "tandem-mutate-"));
  const listed = ["ls-files", "--cached", "--others", "--exclude-standard"];
  const { stdout } = spawnSync("git", listed, { cwd: ROOT, encoding: "utf8", maxBuffer: 1e8 });
  for (const path of stdout.split("\n").filter(Boolean)) {
    if (!existsSync(join(ROOT, path))) continue;
    mkdirSync(dirname(join(tree, path)), { recursive: true });
    cpSync(join(ROOT, path), join(tree, path), { recursive: true });
  }
  symlinkSync(join(ROOT, "node_modules"), join(tree, "node_modules"));
  build(tree);
  return tree;
}

/** Builds what has changed in a tree; of one source, only what it becomes. Throws if it is not valid. */
function build(tree, path) {
  const isDashboard = path?.startsWith("src/dashboard/");
  if (!isDashboard) for (const tool of ["transpile", "bundle"]) run(tree, [`tools/${tool}.mjs`]);
  if (path === undefined || isDashboard) run(tree, ["tools/dashboard.mjs"]);
}

function run(tree, step) {
  const { status, stderr } = spawnSync(process.execPath, step, { cwd: tree, encoding: "utf8" });
  if (status !== 0) throw new Error(stderr || `${step[0]} failed`);
}

function shown({ path, line, rule, text, replacement }) {
  const short = (code) => code.replaceAll(/\s+/g, " ").slice(0, 70);
  return `${path}:${line} ${rule}: ${short(text)} -> ${short(replacement)}`;
}
