/** A browser that shows the dashboard of a node. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { onTestFinished } from "vitest";
import { printJson } from "../../src/base/index.ts";
import { type Chromium, findChromium } from "../support/chromium.ts";
import { patience } from "../support/runner/patience.ts";

/**
 * Time limit for one step. A step takes seconds at most. The limit allows for a busy machine, but
 * is short enough that a stuck test still reports which step it waited for.
 */
const PATIENCE_MS = 100_000;

/** Path of Chromium. Without it, browser tests are skipped, unless `CI` is set. */
export const CHROMIUM = findChromium();

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export function openBrowser(): Promise<Browser> {
  // Chromium's sandbox needs a user namespace, which containers rarely have.
  const { executablePath, environment } = CHROMIUM as Chromium;
  const env = { ...process.env, ...environment } as Record<string, string>;
  return chromium.launch({ executablePath, env, args: ["--no-sandbox"] });
}

/** Configuration of a node with an administrator. Sessions do not expire during a test. */
export const GUARDED = {
  environment: { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret" },
  storeIni: "[chttpd_auth]\ntimeout = 86400\n",
};
const AUTHORIZATION = `Basic ${Buffer.from("root:secret").toString("base64")}`;

/** Sends a request as admin, and returns the body of the response, whatever its status. */
export async function ask(
  { url }: { readonly url: string },
  method: string,
  path: string,
  body?: unknown,
): Promise<Record<string, unknown>> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { authorization: AUTHORIZATION, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: printJson(body) }),
  });
  return (await response.json()) as Record<string, unknown>;
}

export interface Visit {
  readonly page: Page;
  /**
   * Events that a page should never cause: script errors, violations of its content security
   * policy, and refused requests.
   */
  readonly faults: readonly string[];
  /** Opens a view. `view` is the part of the URL after `#`. */
  show(view: string): Promise<void>;
  /** Violations of WCAG 2.1 A and AA, according to axe-core. */
  violations(): Promise<readonly string[]>;
}

/** Logs in and stays on the start page. */
export async function visit(
  browser: Browser,
  url: string,
  name: string,
  options: BrowserContextOptions = {},
): Promise<Visit> {
  const { page, faults } = await openPage(browser, options);
  await page.goto(`${url}/_dashboard/`);
  await page.getByLabel("User").fill(name);
  await page.getByLabel("Password").fill("secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("navigation").waitFor();
  return {
    page,
    faults,
    show: async (view) => {
      await page.goto(`${url}/_dashboard/#${view}`);
    },
    violations: () => violations(page),
  };
}

export async function openPage(browser: Browser, options: BrowserContextOptions = {}) {
  // Sets a locale, because a browser derives an invalid language from a container's POSIX locale.
  const context = await browser.newContext({ locale: "en-US", ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  // Closes the page after the test, because an open page continues to send requests.
  onTestFinished(() => patience.until("a page of the browser to close", context.close()));
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("dialog", (dialog) => {
    faults.push(`a dialog says ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (/Content Security Policy/i.test(message.text())) faults.push(message.text());
  });
  page.on("response", (response) => {
    if (response.status() < 400) return;
    faults.push(`${response.status()} ${response.request().method()} ${response.url()}`);
  });
  return { page, faults };
}

export async function violations(page: Page): Promise<readonly string[]> {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(AXE);
  const tags = JSON.stringify(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]);
  const found: unknown = await page.evaluate(
    `axe.run({ runOnly: { type: "tag", values: ${tags} } }).then(({ violations }) =>
      violations.map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html).join(" | ").slice(0, 600)))`,
  );
  return found as readonly string[];
}
