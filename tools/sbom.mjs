/**
 * `npm run sbom`: prints a bill of materials (CycloneDX) of the production packages. `npm sbom
 * --omit dev` would also omit production packages that development tools depend on. This script
 * therefore reads the list of all packages, and drops the development packages.
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const flags = ["sbom", "--package-lock-only", "--sbom-format", "cyclonedx"];
const { stdout, stderr, status } = spawnSync("npm", flags, {
  cwd: root,
  encoding: "utf8",
  maxBuffer: 64 * 2 ** 20,
});
if (status !== 0) {
  process.stderr.write(stderr);
  process.exit(1);
}
const bill = JSON.parse(stdout);
const isTool = ({ properties = [] }) =>
  properties.some(({ name, value }) => name === "cdx:npm:package:development" && value === "true");
const tools = new Set(bill.components.filter(isTool).map((component) => component["bom-ref"]));
const isKept = (reference) => !tools.has(reference);
bill.components = bill.components.filter((component) => isKept(component["bom-ref"]));
bill.dependencies = bill.dependencies
  .filter(({ ref }) => isKept(ref))
  .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter(isKept) }));
process.stdout.write(`${JSON.stringify(bill, null, 2)}\n`);
