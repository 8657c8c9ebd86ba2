/** The built dashboard: small, and with nothing that its content security policy would stop. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const BUILT = fileURLToPath(new URL("../../dist/dashboard", import.meta.url));
const BYTES_MAX = 150_000;

function files(): readonly string[] {
  return readdirSync(BUILT, { recursive: true, encoding: "utf8" }).filter((name) =>
    statSync(join(BUILT, name)).isFile(),
  );
}

test("all of it, compressed with gzip, has less than 150 kB", () => {
  const names = new Set(files());
  const sizes = [...names]
    .filter((name) => !/\.(gz|br)$/.test(name))
    .map((name) => statSync(join(BUILT, names.has(`${name}.gz`) ? `${name}.gz` : name)).size);
  expect(sizes.length).toBeGreaterThan(3);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(BYTES_MAX);
});

test("the page has nothing inline, and names nothing elsewhere", () => {
  const page = readFileSync(join(BUILT, "index.html"), "utf8");
  expect(page).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=/);
  const addresses = [...page.matchAll(/(?:src|href)="([^"]*)"/g)].map((match) => match[1]);
  expect(addresses.length).toBeGreaterThan(2);
  for (const address of addresses) expect(address).toMatch(/^\.\/assets\/[\w-]+\.\w+$/);
});
