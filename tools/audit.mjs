/**
 * `npm run audit`: asks the registry for advisories about production packages. Exits with 1 if
 * there is one that `accepted-advisories.json` does not explain, and with 2 if the registry does
 * not respond.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const file = fileURLToPath(new URL("dependencies.ts", import.meta.url));
const options = { root, configFile: false, logLevel: "error" };
const { openAdvisories } = (await runnerImport(file, options)).module;
const accepted = JSON.parse(
  readFileSync(new URL("accepted-advisories.json", import.meta.url), "utf8"),
);
const { stdout } = spawnSync("npm", ["audit", "--omit=dev", "--json"], {
  cwd: root,
  encoding: "utf8",
});
try {
  const open = openAdvisories(JSON.parse(stdout), accepted);
  for (const advisory of open) process.stdout.write(`${advisory}\n`);
  process.stdout.write(`${open.length} unexplained advisories\n`);
  process.exitCode = open.length === 0 ? 0 : 1;
} catch (error) {
  process.stderr.write(`npm audit: ${error.message}\n`);
  process.exitCode = 2;
}
