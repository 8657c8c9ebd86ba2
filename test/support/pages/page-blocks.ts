/** Shell blocks in README and docs: which test runs each block, and which blocks no test runs. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

type Reason = readonly [page: string, begins: string, why: string];

const NO_CLUSTER = "FDB_CLUSTER_FILE does not name a live cluster";
/** Blocks that `page-commands.test.ts` runs if a cluster is available. */
const NEED_A_CLUSTER: readonly Reason[] = [
  ["docs/clusters.md", "sudo dpkg", NO_CLUSTER],
  ["docs/clusters.md", "tandem store copy", NO_CLUSTER],
  ["docs/configuration.md", "npm install", NO_CLUSTER],
];

/** The first lines of the blocks that no test runs. */
const NOT_RUN: readonly Reason[] = [
  ["README.md", "npm ci &&", "installs and builds what the tests run, and runs them"],
  ["docs/five-minutes.md", "npm ci", "the same"],
  ["docs/clusters.md", "docker build", "needs Docker"],
  ["docs/clusters.md", "openssl rand", "draws a key; `docs/secrets.md` mentions it in a list"],
  ["docs/clusters.md", "fdbcli", "changes the versions of a cluster that other tests use"],
  ["docs/clusters.md", "fdbbackup", "needs a cluster with agents for backups"],
  ["docs/clusters.md", "fdbrestore", "the same"],
  [
    "docs/installing.md",
    "npm install --global",
    "`test/packages/npm.test.ts` installs the package elsewhere",
  ],
  ["docs/installing.md", "apt install", "`test/packages/debian.test.ts` does the same in a chroot"],
  [
    "docs/installing.md",
    "docker build",
    "needs Docker; `npm run images` builds and runs the image",
  ],
  ["docs/installing.md", "COUCHDB_USER=admin", "needs Docker"],
  ["docs/installing.md", "kubectl", "needs a cluster of Kubernetes"],
  [
    "docs/five-thousand-databases.md",
    "cp tandem-backup.service",
    "needs systemd; `packaging.test.ts` runs the commands of the unit",
  ],
  ["docs/five-thousand-databases.md", "systemctl stop", "needs systemd"],
  ["docs/performance.md", "npx vitest run", "a test itself, which takes long"],
  ...(process.env.FDB_CLUSTER_FILE === undefined ? NEED_A_CLUSTER : []),
];

export interface ShellBlock {
  readonly page: string;
  readonly text: string;
  /** Reason why no test runs the block. `undefined` means that a test must run it. */
  readonly whyNotRun: string | undefined;
}

/** Returns all pages that can contain shell blocks, as paths relative to the project's root. */
export function documentationPages(): readonly string[] {
  const docs = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" });
  return [
    "README.md",
    ...docs.filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`),
  ];
}

export function pageText(page: string): string {
  return readFileSync(join(ROOT, page), "utf8");
}

export function shellBlocks(page: string): readonly ShellBlock[] {
  return [...pageText(page).matchAll(/```sh\n(.*?)```/gs)].map(([, text = ""]) => ({
    page,
    text,
    whyNotRun: whyNotRun(page, text),
  }));
}

export function whyNotRun(page: string, text: string): string | undefined {
  return NOT_RUN.find(([of, begins]) => of === page && text.startsWith(begins))?.[2];
}

/** Returns the entries of the list that no longer match a block. */
export function obsoleteReasons(): readonly string[] {
  return NOT_RUN.filter(
    ([page, begins]) => !shellBlocks(page).some(({ text }) => text.startsWith(begins)),
  ).map(([page, begins]) => `${page}: ${begins}`);
}
