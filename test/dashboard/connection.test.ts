/** How the dashboard behaves when its connection, its session or one of its pages fails. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { deferred } from "../support/deferred.ts";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { ask, CHROMIUM, GUARDED, openBrowser, openPage, visit } from "./browser.fixture.ts";

let processes: Processes;
let node: TandemProcess;
let browser: Browser;

const FEED = /\/_tandem\/events(?:\?|$)/;
const FEED_ENDS = { predicate: (request: { url(): string }) => FEED.test(request.url()) };

/** Dispatches the event that the page dispatches after a response with status 401. */
const MEETS_401 = `window.dispatchEvent(new Event("tandem-unauthorized"))`;
/** Waits for two animation frames. Afterwards, the effect of a response is visible. */
const TWO_FRAMES = `new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))`;

/** Simulates the user switching to another tab, or back to the page. */
function setVisibility(page: Page, state: "visible" | "hidden") {
  return page.evaluate(`(() => {
    Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  })()`);
}

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  beforeAll(async () => {
    processes = new Processes();
    [node, browser] = await Promise.all([processes.open(GUARDED), openBrowser()]);
    await ask(node, "PUT", "/films");
    const reader = { type: "user", name: "rita", roles: ["_tandem_reader"], password: "secret" };
    await ask(node, "PUT", "/_users/org.couchdb.user:rita", reader);
  });

  afterAll(async () => {
    await browser?.close();
    await processes?.close();
  });

  test("a hidden page closes its connections, and continues with current data when it is visible again", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await page.getByText("Live", { exact: true }).waitFor();
    const opened = page.waitForResponse(FEED);
    await show("/events");
    await opened;
    await page.getByText("Live", { exact: true }).waitFor();
    const ended = page.waitForEvent("requestfailed", FEED_ENDS);
    await setVisibility(page, "hidden");
    await ended;
    await ask(node, "PUT", "/_replicator/seldom", { source: "films", target: "nowhere" });
    const again = page.waitForRequest(FEED);
    await setVisibility(page, "visible");
    expect((await again).headers()["last-event-id"]).toMatch(/^[0-9a-f]{24}$/);
    await page.getByText("_replicator/seldom").first().waitFor();
    await ask(node, "POST", "/_tandem/jobs/_replicator%2Fseldom/_cancel");
  });

  test("the page reports a lost connection, and reconnects", async () => {
    const directory = processes.directory();
    const first = await processes.open({ ...GUARDED, directory });
    const { page } = await visit(browser, first.url, "root");
    await page.getByText("Live", { exact: true }).waitFor();
    await first.kill();
    await page.getByText("Connection to the server lost.").waitFor();
    await processes.open({ ...GUARDED, directory, port: first.port });
    await page.getByText("Connection to the server lost.").waitFor({ state: "hidden" });
    await page.getByText("No failing jobs.").waitFor();
  });

  test("a user without a role gets a refusal that contains the user's name, and another user can then log in", async () => {
    await ask(node, "PUT", "/_users/org.couchdb.user:norole", {
      ...{ type: "user", name: "norole", roles: [], password: "secret" },
    });
    const { page } = await openPage(browser);
    await page.goto(`${node.url}/_dashboard/`);
    const logIn = async (name: string) => {
      await page.getByLabel("User").fill(name);
      await page.getByLabel("Password").fill("secret");
      await page.getByRole("button", { name: "Log in" }).click();
    };
    await logIn("norole");
    await page.getByRole("alert").getByText("norole is not a server admin").waitFor();
    await logIn("rita");
    await page.getByRole("navigation").waitFor();
  });

  test("a filter that the node refuses causes an error message, not a report of a lost connection", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    // `skip` and `limit` are parameters of the page, and are not sent as filters.
    await show("/jobs?skip=0&limit=7&paused=true");
    await page.getByText("Live", { exact: true }).waitFor();
    await show("/jobs?paused=perhaps");
    await page.getByText("Not live").waitFor();
    await page.getByRole("alert").getByText("(400)").waitFor();
    expect(await page.getByText("Connection to the server lost").count()).toBe(0);
    await show("/jobs?paused=true");
    await page.getByText("Live", { exact: true }).waitFor();
  });

  test("a user who has to log in again finds the input in the form; another user finds the form empty", async () => {
    const { page, show, violations } = await visit(browser, node.url, "root");
    await show("/new");
    await page.getByLabel("Source address").fill("films");
    const endsSession = async () => {
      await page.context().clearCookies();
      // The request that validates the input reveals that the session has ended.
      await page.getByLabel("Target address").fill("copy");
      await page.getByRole("dialog", { name: "The session has ended" }).waitFor();
    };
    await endsSession();
    expect(await violations()).toEqual([]);
    expect(await page.getByText("Connection to the server lost").count()).toBe(0);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    const dialog = page.getByRole("dialog", { name: "The session has ended" });
    const logIn = async (name: string) => {
      await dialog.getByLabel("User").fill(name);
      await dialog.getByLabel("Password").fill("secret");
      await dialog.getByRole("button", { name: "Log in" }).click();
      await dialog.waitFor({ state: "detached" });
    };
    await logIn("root");
    expect(await page.getByLabel("Source address").inputValue()).toBe("films");
    expect(await page.getByLabel("Target address").inputValue()).toBe("copy");
    await page.getByText("Readable, with").waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
    await page.getByLabel("Target address").fill("");
    await endsSession();
    await logIn("rita");
    await page.getByText("Read-only user").waitFor();
    expect(await page.getByLabel("Source address").count()).toBe(0);
  });

  test("a feed that ends because the session ended opens the login, and reports no lost connection", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/new");
    await page.getByText("Live", { exact: true }).waitFor();
    await page.context().clearCookies();
    await setVisibility(page, "hidden");
    await setVisibility(page, "visible");
    await page.getByRole("dialog", { name: "The session has ended" }).waitFor();
    expect(await page.getByText("Connection to the server lost").count()).toBe(0);
  });

  test("a 401 response to a request sent before the login does not end the new session", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/new");
    await page.getByText("Live", { exact: true }).waitFor();
    await page.context().clearCookies();
    await page.evaluate(MEETS_401);
    const dialog = page.getByRole("dialog", { name: "The session has ended" });
    await dialog.waitFor();
    const late = deferred();
    const asked = deferred();
    await page.route(
      "**/_session",
      async (route) => {
        const response = await route.fetch();
        asked.resolve();
        await late.promise;
        await route.fulfill({ response });
      },
      { times: 1 },
    );
    await page.evaluate(MEETS_401);
    await asked.promise;
    await dialog.getByLabel("User").fill("root");
    await dialog.getByLabel("Password").fill("secret");
    await dialog.getByRole("button", { name: "Log in" }).click();
    await dialog.waitFor({ state: "detached" });
    const answered = page.waitForResponse(/_session$/);
    late.resolve();
    await (await answered).finished();
    await page.evaluate(TWO_FRAMES);
    expect(await dialog.count()).toBe(0);
  });

  test("a page that fails to render reports the failure, and other pages continue to work", async () => {
    const { page, show, violations } = await visit(browser, node.url, "root");
    await page.route("**/_tandem/nodes", (route) => route.fulfill({ json: { nodes: [null] } }));
    await show("/nodes");
    await page.getByRole("heading", { name: "This page cannot be shown" }).waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
    expect(await violations()).toEqual([]);
    await page.getByRole("link", { name: "Events" }).click();
    await page.getByRole("heading", { name: "Events" }).waitFor();
    await page.unroute("**/_tandem/nodes");
    await page.getByRole("link", { name: "Nodes", exact: true }).click();
    await page.getByText("Last report").waitFor();
  });
});
