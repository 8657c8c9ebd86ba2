/**
 * Plants faults in a copy of the tree, one at a time, and prints those that no test notices.
 *
 *   npm run mutate -- [--count 200] [--seed 1] [--in src/kv] [--named TEXT] [--long]
 *                     [--survey new|more] [--seconds 60] [--jobs 1]
 *
 * A survey records once which lines each test file runs, in its own process and in the programs
 * that it starts. A fault is then tested by the test files that run the faulty line. Test files
 * named after the faulty file run first, then the fastest, until their usual times add up to
 * `--seconds`. `--in`, which can be repeated, selects faults by a prefix of `src/path.ts:line`.
 * `--named` plants the faults of `named-faults.mjs` that contain the text; "" matches all.
 * Survivors in `explained-faults.mjs` are printed with their explanation. The exit code is 1 if
 * another fault survived.
 */
import { spawn, spawnSync } from "node:child_process";
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
import { EXPLAINED_FAULTS } from "./explained-faults.mjs";
import { drawFaults, faultsOf } from "./faults.mjs";
import { NAMED_FAULTS } from "./named-faults.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SURVEY = join(ROOT, "node_modules/.cache/mutate");
const SOURCES = "sources.json";
/**
 * Time limit for tests with a fault, because a faulty program might hang: the usual time of the
 * tests times `factor`, plus `ms`.
 */
const PATIENCE = { factor: 4, ms: 60_000 };
/** Multiplier for the usual limit of a wait in tests. */
const TEST_PATIENCE = "0.4";
const IN_VAIN = "(waits in vain)";
/** Usual time of a test that was not surveyed. */
const UNSURVEYED_MS = 5_000;
const STATEMENT_LINES_MAX = 10;
/**
 * Test files of the fault's layer run before other files, unless they take more than this many
 * times as long.
 */
const NEIGHBOURS_FACTOR = 4;
const CONFIG = "tools/mutate/vitest.config.ts";

const { values } = parseArgs({
  options: {
    count: { type: "string", default: "200" },
    seed: { type: "string", default: "1" },
    in: { type: "string", multiple: true, default: ["src/"] },
    named: { type: "string" },
    long: { type: "boolean", default: false },
    survey: { type: "string" },
    seconds: { type: "string", default: "60" },
    jobs: { type: "string", default: "1" },
  },
});
const say = (text) => process.stdout.write(`${text}\n`);

const testPaths = listed("src", "test").filter((path) => /\.(test|fuzz)\.ts$/.test(path));
const isSurveyNeeded = values.named === undefined && !existsSync(SURVEY);
if (values.survey !== undefined || isSurveyNeeded) await survey(values.survey === "more");
const { surveyed, sources } = values.named === undefined ? readSurvey() : {};
const chosen = values.named === undefined ? drawnFaults() : namedFaults(values.named);
const faults = chosen.filter(({ path, line }) =>
  values.in.some((start) => `${path}:${line} `.startsWith(start)),
);
say(`${faults.length} faults`);

const outcomes = [];
const left = faults.entries();
await Promise.all(Array.from({ length: Number(values.jobs) }, plantInTurn));
const unreliable = await failingWithoutFault();
report();

/**
 * Prints the figures. Faults that were noticed because a wait reached its limit are also counted
 * separately, because the machine might have been slow.
 */
function report() {
  const isUnreliable = ({ noticedBy }) =>
    unreliable.some((line) => line.replace(IN_VAIN, "") === noticedBy?.replace(IN_VAIN, ""));
  const survivors = outcomes.filter(({ noticedBy }) => noticedBy === undefined);
  const noticed = outcomes.filter(
    (outcome) => outcome.noticedBy !== undefined && !isUnreliable(outcome),
  );
  const explained = survivors.filter(({ fault }) => explanationOf(fault) !== undefined);
  const openCount = outcomes.length - noticed.length - explained.length;
  const waits = noticed.filter(({ noticedBy }) => noticedBy.endsWith(IN_VAIN)).length;
  const counts = `${noticed.length} noticed, ${explained.length} explained, ${openCount} open`;
  say(`\n${outcomes.length} tried, ${counts}`);
  say(`of those noticed, ${waits} by a wait that reached its limit`);
  for (const { fault } of explained)
    say(`explained: ${shown(fault)}\n     ${explanationOf(fault)}`);
  for (const { fault } of survivors)
    if (explanationOf(fault) === undefined) say(`survived: ${shown(fault)}`);
  for (const { fault } of outcomes.filter(isUnreliable)) say(`not known: ${shown(fault)}`);
  for (const line of unreliable) say(`fails without a fault: ${line}`);
  if (openCount + unreliable.length > 0) process.exitCode = 1;
}

/**
 * Returns why no test notices a fault: the reason given by the entry of EXPLAINED_FAULTS that
 * changes the file in the same way.
 */
function explanationOf({ path, from, to, replacement }) {
  const before = textOf(path);
  const after = before.slice(0, from) + replacement + before.slice(to);
  const isSame = (each) => before.replace(each.text, () => each.replacement) === after;
  return EXPLAINED_FAULTS.find((each) => each.path === path && isSame(each))?.reason;
}

/**
 * Repeats the tests that noticed faults, in a tree without a fault. Returns those that fail there,
 * too.
 */
async function failingWithoutFault() {
  const names = outcomes.map(({ noticedBy }) => /^(\S+\.ts) > /.exec(noticedBy ?? "")?.[1]);
  const files = [...new Set(names.filter((name) => name !== undefined))];
  if (files.length === 0) return [];
  const tree = copyTree();
  const { output } = await test(tree, files, { limitMs: 2 ** 31 - 1, isWhole: true });
  rmSync(tree, { recursive: true });
  return [...output.matchAll(/^FAILED (.*)/gm)].map(([, line]) => line);
}

function drawnFaults() {
  const all = sourcePaths().flatMap((path) => faultsOf(path, textOf(path)));
  return drawFaults(all, Number(values.count), values.seed);
}

/** Returns the lines that the tests ran, and the texts of sources and tests at that time. */
function readSurvey() {
  const read = (name) => JSON.parse(readFileSync(join(SURVEY, name), "utf8"));
  const names = readdirSync(SURVEY).filter((name) => /\.ts\.json$/.test(name));
  const surveyed = names.map(read).filter(({ file }) => existsSync(join(ROOT, file)));
  return { surveyed, sources: read(SOURCES) };
}

function sourcePaths() {
  return listed("src").filter((path) => /(?<!\.(test|fuzz|d|fixture))\.tsx?$/.test(path));
}

function listed(...patterns) {
  const options = ["ls-files", "--cached", "--others", "--exclude-standard", ...patterns];
  const { stdout } = spawnSync("git", options, { cwd: ROOT, encoding: "utf8", maxBuffer: 1e8 });
  return stdout.split("\n").filter((path) => path !== "" && existsSync(join(ROOT, path)));
}

function textOf(path) {
  return readFileSync(join(ROOT, path), "utf8");
}

/** Returns the faults whose rule or path contains `part`. */
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
      const reason = explanationOf(fault);
      const survived = `SURVIVED ${fileCount} files${reason === undefined ? "" : `: ${reason}`}`;
      const end = noticedBy ?? survived;
      say(`${index + 1}. ${shown(fault)}\n     ${end}`);
    }
  } finally {
    rmSync(tree, { recursive: true });
  }
}

/**
 * Plants a fault, and resolves with the first test that notices it. Tests that start programs come
 * last, because only they need a bundle.
 */
async function plant(tree, fault) {
  const files = fault.files ?? filesFor(fault);
  const fileCount = files.length;
  if (fileCount === 0) return { fileCount };
  const source = join(tree, fault.path);
  const before = readFileSync(source, "utf8");
  const planted = before.slice(0, fault.from) + fault.replacement + before.slice(fault.to);
  const starting = files.filter(({ file }) => startsPrograms(file));
  const others = files.filter((file) => !starting.includes(file));
  try {
    writeFileSync(source, planted);
    build(tree, fault.path);
    const noticedBy = others.length > 0 ? await noticing(tree, others) : undefined;
    if (noticedBy !== undefined || starting.length === 0) return { fileCount, noticedBy };
    if (!isOfDashboard(fault)) run(tree, ["tools/bundle.mjs"]);
    return { fileCount, noticedBy: await noticing(tree, starting) };
  } catch (error) {
    return { fileCount, noticedBy: `compiler: ${error.message.split("\n")[0]}` };
  } finally {
    writeFileSync(source, before);
    build(tree, fault.path);
  }
}

function isOfDashboard({ path }) {
  return path.startsWith("src/dashboard/");
}

/** Whether a test file or one of its imports starts `dist/program`. */
function startsPrograms(file, seen = new Set()) {
  if (seen.has(file) || !existsSync(join(ROOT, file))) return false;
  seen.add(file);
  const text = textOf(file);
  if (/dist\/program|program\/main|bin\/tandem/.test(text)) return true;
  const imports = [...text.matchAll(/from "(\.[^"]*)"/g)].map(([, path]) => path);
  const tests = imports.map((path) => join(dirname(file), path));
  return tests.some((path) => path.startsWith("test/") && startsPrograms(path, seen));
}

/**
 * Returns the test files that run the line of the fault, up to the time limit. Files named after
 * the faulty source come first, beginning with those in the same folder. The fastest of the other
 * files follow. If the line was added after the survey, test files that run any line of the source
 * count.
 */
function filesFor(fault) {
  const { path } = fault;
  const line = statementLine(path, surveyedLine(fault));
  const name = basename(path).replace(/\.tsx?$/, "");
  const isRunning = ({ file, ran }) => {
    if (isOfDashboard(fault)) return file.startsWith("test/dashboard/");
    // An edited test might run other lines than before.
    const isUnsure = line === undefined || sources[file] !== textOf(file);
    return isUnsure ? ran[path] !== undefined : ran[path]?.includes(line);
  };
  const known = new Set(surveyed.map(({ file }) => file));
  const isUnknown = (file) => !known.has(file) && basename(file).startsWith(`${name}.`);
  const unknown = testPaths.filter(isUnknown).map((file) => ({ file, ms: UNSURVEYED_MS }));
  const candidates = [...surveyed.filter(isRunning), ...unknown];
  const rank = ({ file }) => {
    if (!basename(file).startsWith(`${name}.`)) return 2;
    return dirname(file) === dirname(path) ? 0 : 1;
  };
  const [, folder] = path.split("/");
  const cost = ({ file, ms }) => (file.split("/")[1] === folder ? ms / NEIGHBOURS_FACTOR : ms);
  candidates.sort((a, b) => rank(a) - rank(b) || cost(a) - cost(b));
  let leftMs = Number(values.seconds) * 1000;
  return candidates.filter(({ ms }, index) => {
    leftMs -= ms;
    return index < 2 || leftMs >= 0;
  });
}

/**
 * Returns `line` if a test ran it, and otherwise the last line before it that a test ran. A
 * statement of several lines can be a single line in a built file.
 */
function statementLine(path, line) {
  if (line === undefined) return undefined;
  const isRun = (number) => surveyed.some(({ ran }) => ran[path]?.includes(number) === true);
  const before = Array.from({ length: STATEMENT_LINES_MAX }, (_, index) => line - index);
  return before.find(isRun);
}

/**
 * Returns the line number of a fault at the time of the survey. If several lines had the same text,
 * returns the one with the most similar neighbours.
 */
function surveyedLine({ path, line }) {
  const before = sources[path]?.split("\n") ?? [];
  const now = textOf(path).split("\n");
  const alike = (index) =>
    [-3, -2, -1, 1, 2, 3].filter((by) => before[index + by] === now[line - 1 + by]).length;
  const places = [...before.keys()].filter((index) => before[index] === now[line - 1]);
  places.sort((a, b) => alike(b) - alike(a));
  return places[0] === undefined ? undefined : places[0] + 1;
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
  return code === null ? `limit of ${limitMs} ms ${IN_VAIN}` : `exit code ${code}`;
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
    // Kills programs that a failed test has left running.
    process.kill(-child.pid, "SIGKILL");
  } catch {}
  return { output, code };
}

async function survey(isContinued) {
  say("survey: which lines each test file runs");
  if (!isContinued) rmSync(SURVEY, { recursive: true, force: true });
  mkdirSync(SURVEY, { recursive: true });
  const texts = [...sourcePaths(), ...testPaths].map((path) => [path, textOf(path)]);
  writeFileSync(join(SURVEY, SOURCES), JSON.stringify(Object.fromEntries(texts)));
  const tree = copyTree();
  const project = values.long ? [] : ["--project=quick"];
  const excluded = readSurvey().surveyed.map(({ file }) => `--exclude=${file}`);
  const environment = { MUTATE_SURVEY: SURVEY };
  const limitMs = 2 ** 31 - 1;
  const options = { limitMs, environment, isWhole: true };
  const { output } = await test(tree, [...project, ...excluded], options);
  for (const [, line] of output.matchAll(/^FAILED (.*)/gm)) say(`fails without a fault: ${line}`);
  rmSync(tree, { recursive: true });
}

function copyTree() {
  const tree = mkdtempSync(join(tmpdir(), "tandem-mutate-"));
  for (const path of listed()) {
    mkdirSync(dirname(join(tree, path)), { recursive: true });
    cpSync(join(ROOT, path), join(tree, path), { recursive: true });
  }
  symlinkSync(join(ROOT, "node_modules"), join(tree, "node_modules"));
  build(tree);
  return tree;
}

/**
 * Builds a tree. If `path` is set, builds only this source, without the bundle. Throws if the
 * source is invalid.
 */
function build(tree, path) {
  if (path === undefined) {
    for (const tool of ["transpile", "bundle", "dashboard"]) run(tree, [`tools/${tool}.mjs`]);
  } else if (isOfDashboard({ path })) run(tree, ["tools/dashboard.mjs"]);
  else run(tree, ["tools/transpile.mjs", path]);
}

function run(tree, step) {
  const { status, stderr } = spawnSync(process.execPath, step, { cwd: tree, encoding: "utf8" });
  if (status !== 0) throw new Error(stderr || `${step[0]} failed`);
}

function shown({ path, line, rule, text, replacement }) {
  const short = (code) => code.replaceAll(/\s+/g, " ").slice(0, 70);
  return `${path}:${line} ${rule}: ${short(text)} -> ${short(replacement)}`;
}
