/** `npm run site`: writes the documentation as a site to `dist/site`. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { operationPages } from "./openapi-pages.mjs";

const SITE = fileURLToPath(new URL(".", import.meta.url));
const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Pages, whose links to each other stay as they are in the repository. */
const PAGES = [
  "README.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "demo/data/README.md",
  "docs",
];
/** Files to which pages link, published as they are. */
const FILES = ["LICENSE", "docs/api/openapi.json", "examples", "test/peers"];

rmSync(`${SITE}pages`, { recursive: true, force: true });
for (const path of PAGES) cpSync(`${ROOT}${path}`, `${SITE}pages/${path}`, { recursive: true });
for (const path of FILES)
  cpSync(`${ROOT}${path}`, `${SITE}pages/public/${path}`, { recursive: true });
mkdirSync(`${SITE}pages/operations`);
const openapi = JSON.parse(readFileSync(`${ROOT}docs/api/openapi.json`, "utf8"));
for (const { name, content } of operationPages(openapi)) {
  writeFileSync(`${SITE}pages/operations/${name}.md`, content);
}

for (const [command, ...options] of [
  ["npm", "ci"],
  ["npx", "vitepress", "build", "."],
]) {
  const { status } = spawnSync(command, options, { cwd: SITE, stdio: "inherit" });
  if (status !== 0) process.exit(1);
}
