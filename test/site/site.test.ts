/** The documentation site: its links, its search, and its independence of other servers. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { CHROMIUM, openBrowser } from "../dashboard/browser.fixture.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SITE = join(ROOT, "dist/site");

const TYPES: Readonly<Record<string, string>> = {
  ".css": "text/css",
  ".html": "text/html",
  ".js": "text/javascript",
  ".json": "application/json",
  ".png": "image/png",
  ".woff2": "font/woff2",
};

let server: Server;
let url: string;
let browser: Browser | undefined;

beforeAll(async () => {
  // The build fails if a page links to a page that does not exist.
  execFileSync("npm", ["run", "site"], { cwd: ROOT, stdio: "pipe" });
  server = createServer(({ url: path = "/" }, response) => {
    const { pathname } = new URL(path, "http://site");
    const file = pathname === "/" ? "/index.html" : decodeURIComponent(pathname);
    try {
      const bytes = readFileSync(join(SITE, file));
      response.setHeader("content-type", TYPES[extname(file)] ?? "text/plain").end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  if (CHROMIUM !== undefined) browser = await openBrowser();
});

afterAll(async () => {
  await browser?.close();
  server?.close();
});

/** Opens a page of the site. Returns it with the requests that failed or left the site. */
async function visit(path: string): Promise<{ page: Page; faults: readonly string[] }> {
  const context = await (browser as Browser).newContext();
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith(url)) faults.push(request.url());
  });
  page.on("response", (response) => {
    if (response.status() >= 400) faults.push(`${response.status()} ${response.url()}`);
  });
  await page.goto(`${url}${path}`);
  return { page, faults };
}

test("every page of the documentation is a page of the site", () => {
  const pages = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" });
  const expected = pages.filter((path) => path.endsWith(".md"));
  const written = readdirSync(join(SITE, "docs"), { recursive: true, encoding: "utf8" });
  const names = expected.map((path) => path.replace(/\.md$/, ".html"));
  expect(names.filter((name) => !written.includes(name))).toEqual([]);
  expect(names).toContain("limits.html");
});

test("the site lists all operations of the API, with parameters and members", () => {
  const openapi = JSON.parse(readFileSync(join(ROOT, "docs/api/openapi.json"), "utf8")) as {
    readonly paths: Readonly<Record<string, object>>;
  };
  const folder = join(SITE, "operations");
  const text = readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .join("\n")
    .replaceAll("&#123;", "{")
    .replaceAll("&#125;", "}");
  const operations = Object.entries(openapi.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(operations.filter((operation) => !text.includes(`>${operation}<`))).toEqual([]);
  expect(text).toContain("login_gate");
});

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  test.each(["/", "/docs/configuration.html", "/docs/dashboard.html", "/operations/tandem.html"])(
    "%s loads nothing from other servers",
    async (path) => {
      const { page, faults } = await visit(path);
      await page.locator("h1").first().waitFor();
      expect(faults).toEqual([]);
    },
  );

  test("the search finds pages and operations", async () => {
    const { page, faults } = await visit("/");
    // Presses the keys until the search opens: the page handles keys some time after it is loaded.
    const input = page.locator(".VPLocalSearchBox input");
    await page.waitForFunction(
      `document.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true }))
        && document.querySelector(".VPLocalSearchBox input")`,
    );
    for (const [words, address] of [
      ["lost credentials key backup", "/docs/"],
      ["tandem jobs pause", "/operations/"],
    ] as const) {
      await input.fill(words);
      await page.locator(`.VPLocalSearchBox a.result[href*="${address}"]`).first().waitFor();
    }
    expect(faults).toEqual([]);
  });
});
