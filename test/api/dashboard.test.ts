/** `/_dashboard/`: serves the files of the dashboard. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import type { User } from "../../src/api/index.ts";
import { StaticFolder } from "../../src/host/http/static-folder.ts";
import { ADMIN, openApi } from "./api.fixture.ts";

const SCRIPT = "tell();".repeat(1_000);

async function openDashboard(user: User = { name: null, roles: [], isAdmin: false }) {
  const directory = await mkdtemp(join(tmpdir(), "tandem-dashboard-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  await mkdir(join(directory, "assets"));
  await writeFile(join(directory, "index.html"), "<p>page");
  await writeFile(join(directory, "assets", "a-1234.js"), SCRIPT);
  await writeFile(join(directory, "assets", "a-1234.js.gz"), gzipSync(SCRIPT));
  await writeFile(join(directory, "assets", "a-1234.js.br"), brotliCompressSync(SCRIPT));
  return openApi({ user, parts: { dashboard: new StaticFolder(directory) } });
}

test("everyone can load the page, and its content security policy forbids external and inline code", async () => {
  const { ask } = await openDashboard();
  const { status, text, headers } = await ask("GET /_dashboard/");
  expect([status, text]).toEqual([200, "<p>page"]);
  expect(headers["Cache-Control"]).toBe("no-cache");
  expect(headers["X-Content-Type-Options"]).toBe("nosniff");
  const policy = headers["Content-Security-Policy"] as string;
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toMatch(/unsafe|\*|http|data:/);
});

test("/_dashboard redirects to /_dashboard/", async () => {
  const { ask } = await openDashboard();
  const { status, headers } = await ask("GET /_dashboard");
  expect([status, headers.Location]).toEqual([301, "http://127.0.0.1:5984/_dashboard/"]);
});

test("a file with a hash in its name is cached permanently, and compressed with an encoding that the browser accepts", async () => {
  const { ask } = await openDashboard();
  const unpack: [string | undefined, string | undefined, (bytes: Buffer) => Buffer][] = [
    ["gzip, deflate, br", "br", brotliDecompressSync],
    ["gzip, br;q=0", "gzip", gunzipSync],
    [undefined, undefined, (bytes) => bytes],
  ];
  for (const [accepted, encoding, unpacked] of unpack) {
    const asked = accepted === undefined ? {} : { headers: { "Accept-Encoding": accepted } };
    const { status, headers, bytes } = await ask("GET /_dashboard/assets/a-1234.js", asked);
    expect([status, headers["Content-Encoding"]]).toEqual([200, encoding]);
    expect(headers["Cache-Control"]).toBe("public, max-age=31536000, immutable");
    expect(headers.Vary).toBe("Accept-Encoding");
    expect(headers["Content-Type"]).toContain("javascript");
    expect(unpacked(bytes).toString()).toBe(SCRIPT);
  }
});

test("an unknown file is not found, and a write request is refused", async () => {
  const { ask } = await openDashboard(ADMIN);
  for (const path of ["/_dashboard/assets/b.js", "/_dashboard/../a", "/_dashboard/assets"]) {
    expect((await ask(`GET ${path}`)).status).toBe(404);
  }
  expect((await ask("POST /_dashboard/a", { body: {} })).status).toBe(405);
});
