/**
 * The built dashboard is small, and contains nothing that its content security policy would block.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { expect, test } from "vitest";

const BUILT = fileURLToPath(new URL("../../dist/dashboard", import.meta.url));
const BYTES_MAX = 96_000;
/** Matches URLs that are never requested: XML namespaces, and host names in examples. */
const NO_PLACES = /^https?:\/\/(?:www\.w3\.org|\w\.example)\//;

function files(): readonly string[] {
  return readdirSync(BUILT, { recursive: true, encoding: "utf8" }).filter((name) =>
    statSync(join(BUILT, name)).isFile(),
  );
}

function read(name: string): Buffer {
  return readFileSync(join(BUILT, name));
}

test("the whole dashboard is smaller than 96 kB when compressed with gzip", () => {
  const names = new Set(files());
  const sizes = [...names]
    .filter((name) => !/\.(gz|br)$/.test(name))
    .map((name) => statSync(join(BUILT, names.has(`${name}.gz`) ? `${name}.gz` : name)).size);
  expect(sizes.length).toBeGreaterThan(3);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(BYTES_MAX);
});

test("each compressed file has the content of its uncompressed file", () => {
  const compressed = files().filter((name) => /\.(gz|br)$/.test(name));
  expect(compressed.length).toBeGreaterThan(3);
  for (const name of compressed) {
    const unpack = name.endsWith(".gz") ? gunzipSync : brotliDecompressSync;
    expect([name, unpack(read(name)).equals(read(name.slice(0, -3)))]).toEqual([name, true]);
  }
});

test("the page has no inline code, and refers to no other origin", () => {
  const page = read("index.html").toString();
  expect(page).not.toMatch(/<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=/);
  const addresses = [...page.matchAll(/(?:src|href)=["']?([^"'\s>]*)/g)].map((match) => match[1]);
  expect(addresses.length).toBeGreaterThan(2);
  // File names contain a hash of the content, because browsers cache the files permanently.
  for (const address of addresses) expect(address).toMatch(/^\.\/assets\/\w+-[\w-]{8}\.\w+$/);
});

test("scripts and styles refer to no other server, and contain no data URLs", () => {
  const sources = files().filter((name) => /\.(js|css)$/.test(name));
  // The dashboard has a single script, because a page that has lost its connection could not load
  // another script.
  expect(sources.map((name) => extname(name)).sort()).toEqual([".css", ".js"]);
  for (const name of sources) {
    const text = read(name).toString();
    const addresses = text.match(/(?:https?:)?\/\/[a-z][\w.-]*\/[^"'`\s]*/gi) ?? [];
    expect([name, addresses.filter((address) => !NO_PLACES.test(address))]).toEqual([name, []]);
    expect(text).not.toMatch(/url\(["']?data:/);
  }
});
