/**
 * Source checks beyond compiler and linter: import directions between layers, no clock or
 * randomness in the core, no import cycles, no leftover TODOs, and plain comments. `npm test` runs
 * it; a test triggers each rule.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, posix, relative, sep } from "node:path";
import { folderCycle, importCycle } from "./import-cycles.ts";
import { JSON_PARSE_USES } from "./json-parse-uses.ts";
import { commentProblems, PLAIN_FOLDERS, PLAIN_LAYERS } from "./plain-comments.ts";

/**
 * The layers that each layer may import. References between TypeScript projects are transitive; the
 * entries of this table are not.
 */
export const EDGES: Readonly<Record<string, readonly string[]>> = {
  base: [],
  contract: ["base"],
  kv: ["base"],
  jobs: ["base", "kv"],
  databases: ["base", "kv"],
  protocol: ["base"],
  "http-client": ["base", "protocol"],
  documents: ["base", "kv", "databases", "protocol"],
  indexes: ["base", "kv", "jobs", "databases", "protocol", "documents"],
  replicator: [
    "base",
    "contract",
    "kv",
    "jobs",
    "databases",
    "protocol",
    "documents",
    "http-client",
  ],
  api: [
    "base",
    "contract",
    "kv",
    "jobs",
    "databases",
    "protocol",
    "documents",
    "indexes",
    "http-client",
    "replicator",
  ],
  host: ["base", "kv", "jobs", "databases", "protocol", "http-client", "api"],
  server: [
    "base",
    "contract",
    "kv",
    "jobs",
    "databases",
    "protocol",
    "documents",
    "indexes",
    "http-client",
    "replicator",
    "api",
    "host",
  ],
  library: [
    "base",
    "contract",
    "kv",
    "jobs",
    "databases",
    "protocol",
    "http-client",
    "replicator",
    "api",
    "host",
    "server",
  ],
  // The client and the dashboard run in browsers, so they may use only the API and its contract.
  client: ["base", "contract"],
  dashboard: ["base", "contract", "client"],
  cli: [
    "base",
    "contract",
    "client",
    "kv",
    "databases",
    "protocol",
    "http-client",
    "replicator",
    "host",
    "server",
    "library",
  ],
};

/** The only part of the API that may import the replicator. */
const REPLICATION_RESOURCES = "api/replication/";

/** Layers that may use the machine directly. */
const OUTER = new Set(["host", "server", "library", "cli", "client", "dashboard"]);

const CORE_BANS: readonly (readonly [RegExp, string])[] = [
  [/\bDate\.now\b/, "Date.now: inject a Clock"],
  [/\bnew Date\(\)/, "new Date(): inject a Clock"],
  [/\bMath\.random\b/, "Math.random: inject a Random"],
];

/** The only callers of `encodeURIComponent` and `decodeURIComponent`, and their declarations. */
const URI_COMPONENTS = new Set(["protocol/urls.ts", "platform.d.ts"]);

/** Patterns that are forbidden in `src/`. They are allowed in tests, where lists are short. */
const SOURCE_BANS: readonly (readonly [RegExp, string])[] = [
  [
    /\.(push|unshift)\(\.\.\.|Math\.(max|min)\((.*, )?\.\.\./,
    "spreading a list into a call may overflow the stack: use append, largest or smallest of base",
  ],
];

const BANS: readonly (readonly [RegExp, string])[] = [
  [/\bconsole\./, "console: announce an event, or write to a stream"],
  [/\b(FIXME|XXX)\b/, "a leftover mark"],
  [/\bTODO\b(?! #\d+)/, "TODO without the number of an issue"],
  [/\.only\(/, "a test that disables the others"],
  [/\bexport default\b/, "a default export"],
  [/\bexport \*/, "a wildcard re-export"],
];

/** A use in code, not in a comment or in quotes. */
const JSON_PARSE = /^(?!\s*(\*|\/[*/])).*\bJSON\.parse\b(?!`)/;

/** Maximum number of files in a folder. More are hard to survey. */
const FOLDER_FILES_MAX = 32;

const TEST_FILE = /\.(test|fuzz|fixture)\.tsx?$/;

/** Problems with one file under `src/`: `path:line: problem`. `path` is relative to `src/`. */
export function checkSource(path: string, text: string): string[] {
  const layer = path.split("/")[0] as string;
  const problems: string[] = [];
  const isTest = TEST_FILE.test(path);
  if (PLAIN_LAYERS.has(layer)) problems.push(...checkComments(path, text));
  for (const [index, line] of text.split("\n").entries()) {
    const report = (what: string): void => {
      problems.push(`${path}:${index + 1}: ${what}`);
    };
    for (const [pattern, what] of BANS) if (pattern.test(line)) report(what);
    if (isTest) continue;
    const [coder] = /\b(en|de)codeURIComponent\b/.exec(line) ?? [];
    // The client and the dashboard must not import `protocol`, so they are allowed to call these
    // functions.
    if (
      coder !== undefined &&
      !["client", "dashboard"].includes(layer) &&
      !URI_COMPONENTS.has(path)
    ) {
      report(`${coder} throws for invalid text: use percentEncode or percentDecode of protocol`);
    }
    for (const [pattern, what] of SOURCE_BANS) if (pattern.test(line)) report(what);
    if (JSON_PARSE.test(line) && JSON_PARSE_USES[path] === undefined) {
      report("JSON.parse: use parseJson, or list the file with a reason in json-parse-uses.ts");
    }
    if (!OUTER.has(layer)) {
      for (const [pattern, what] of CORE_BANS) if (pattern.test(line)) report(what);
    }
    const specifier = /from "(\.\.\/[^"]+)"/.exec(line)?.[1];
    if (specifier === undefined) continue;
    const [target, ...rest] = posix.join(posix.dirname(path), specifier).split("/");
    if (target === undefined || target === layer || EDGES[target] === undefined) continue;
    if (!EDGES[layer]?.includes(target)) report(`${layer} may not import ${target}`);
    if (layer === "api" && target === "replicator" && !path.startsWith(REPLICATION_RESOURCES)) {
      report("only api/replication may import replicator");
    }
    if (rest.join("/") !== "index.ts") report(`${target} may be imported only by its index.ts`);
  }
  return problems;
}

function checkComments(path: string, text: string): string[] {
  return commentProblems(text).map(([line, problem]) => `${path}:${line}: ${problem}`);
}

/** Checks the comments in the folders of `root` other than `src/`. */
export function checkOtherFolders(root: string): string[] {
  const files = PLAIN_FOLDERS.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter((file) => /\.(tsx?|mjs|c)$/.test(file))
      .map((file) => join(folder, file)),
  );
  return files.flatMap((file) =>
    checkComments(file.split(sep).join("/"), readFileSync(join(root, file), "utf8")),
  );
}

/** Reports folders of sources and tests with too many files to survey. Recordings do not count. */
export function checkFolders(root: string): string[] {
  const folders = ["src", "test", "bench", "tools"].flatMap((top) => [
    top,
    ...readdirSync(join(root, top), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isDirectory() && !entry.parentPath.includes("node_modules"))
      .map(({ parentPath, name }) => relative(root, join(parentPath, name)).split(sep).join("/")),
  ]);
  return folders.flatMap((folder) => {
    const files = readdirSync(join(root, folder)).filter((file) => /\.(tsx?|mjs|cjs)$/.test(file));
    if (files.length <= FOLDER_FILES_MAX) return [];
    return [`${folder}: ${files.length} files; divide it by subject (${FOLDER_FILES_MAX} at most)`];
  });
}

/** Returns import cycles between files and between folders. Paths are relative to `src/`. */
export function checkCycles(sources: ReadonlyMap<string, string>): string[] {
  const code = [...sources].filter(([path]) => !TEST_FILE.test(path));
  const cycles = [importCycle(sources), folderCycle(new Map(code))];
  return cycles.flatMap((cycle) =>
    cycle === undefined ? [] : [`imports in a cycle: ${cycle.join(" > ")}`],
  );
}

/** Checks every source below `folder`. */
export function checkSources(folder: string): string[] {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter(
    (file) => /\.tsx?$/.test(file) && !file.endsWith(".d.ts"),
  );
  const sources = new Map(
    files.map((file) => {
      const path = relative(folder, join(folder, file)).split(sep).join("/");
      return [path, readFileSync(join(folder, file), "utf8")];
    }),
  );
  const problems = [...sources].flatMap(([path, text]) => checkSource(path, text));
  for (const path of Object.keys(JSON_PARSE_USES)) {
    const isUsed = sources
      .get(path)
      ?.split("\n")
      .some((line) => JSON_PARSE.test(line));
    if (!isUsed) problems.push(`${path}: listed in json-parse-uses.ts without a use`);
  }
  return [...problems, ...checkCycles(sources)];
}
