/** The pages of rules, with a mocked node. */
import type { Browser, Page, Route } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Rule, RulePlan } from "../../src/contract/index.ts";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { CHROMIUM, GUARDED, openBrowser, visit } from "./browser.fixture.ts";

let processes: Processes;
let node: TandemNode;
let browser: Browser;

const USERS: Rule = {
  name: "users",
  source: { url: "https://a.example/", auth: { basic: { username: "ann", password: "*****" } } },
  target: "copy-{db}",
  databases: ["user-*"],
  security: true,
  status: {
    owner: "root",
    changed: "2026-11-23T12:00:00Z",
    databases: 1_200,
    jobs: 1_199,
    states: { running: 1_100, pending: 90, crashing: 9, completed: 0, failed: 0 },
    failing: 9,
    parked: 1_090,
    left_behind: 2,
    lag_sec: 3_700,
    listed: "2026-11-23T12:00:05Z",
    followed_by: "feed",
    last_error: { error: "timeout", reason: "<b>no answer</b>" },
    cannot_copy: 11,
    faults: [{ database: "user-\u202eA", reason: "no name of a database: copy-user-A" }],
  },
};

const NONE = { count: 0, first: [] };
const PLAN: RulePlan = {
  ok: true,
  dry_run: true,
  databases: { count: 120, first: ["user-a", "user-b"] },
  create: { count: 2, first: ["user-a"] },
  replace: NONE,
  cancel: { count: 1, first: ["user-gone"] },
  cannot_copy: NONE,
};

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
}

/** Answers requests about rules, and records the requests. */
async function mock(page: Page): Promise<Asked[]> {
  const asked: Asked[] = [];
  await page.route("**/_tandem/rules**", async (route: Route) => {
    const request = route.request();
    const { pathname, search, searchParams } = new URL(request.url());
    const method = request.method();
    asked.push({ method, path: pathname + search, body: request.postDataJSON() });
    const isDryRun = searchParams.get("dry_run") === "true";
    if (method === "PUT" && JSON.stringify(request.postDataJSON()).includes("nobody")) {
      const json = { error: "bad_request", reason: "`databases` must be a list of patterns" };
      return route.fulfill({ status: 400, json });
    }
    if (isDryRun) return route.fulfill({ json: PLAN });
    if (method !== "GET") return route.fulfill({ json: { ok: true } });
    const isList = pathname.endsWith("/_tandem/rules");
    const bookmark = searchParams.has("bookmark") ? null : "users";
    const name = pathname.split("/").at(-1);
    return route.fulfill({
      json: isList ? { total_rows: 2, bookmark, rules: [USERS] } : { ...USERS, name },
    });
  });
  return asked;
}

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  beforeAll(async () => {
    processes = new Processes();
    [node, browser] = await Promise.all([processes.openHere(GUARDED), openBrowser()]);
    const reader = { type: "user", name: "rita", roles: ["_tandem_reader"], password: "secret" };
    const authorization = `Basic ${Buffer.from("root:secret").toString("base64")}`;
    await fetch(`${node.url}/_users/org.couchdb.user:rita`, {
      method: "PUT",
      headers: { authorization, "content-type": "application/json" },
      body: JSON.stringify(reader),
    });
  });

  afterAll(async () => {
    await browser?.close();
    await processes?.close();
  });

  test("the list of rules is split into pages, and its counts link to the jobs", async () => {
    const { page, show, violations, faults } = await visit(browser, node.url, "rita");
    await mock(page);
    await page.getByRole("link", { name: "Rules", exact: true }).click();
    const row = page.getByRole("row", {
      name: /^users https:\/\/a\.example\/ → copy-\{db\} 1,200/,
    });
    await row.getByText("timeout: <b>no answer</b>").waitFor();
    await row.getByText("11 databases cannot be copied").waitFor();
    expect(await row.getByRole("link", { name: "9", exact: true }).getAttribute("href")).toBe(
      "#/jobs?rule=users&failing=true",
    );
    expect(await page.getByRole("link", { name: "New rule" }).count()).toBe(0);
    expect(await violations()).toEqual([]);
    await Promise.all([
      page.waitForRequest(/\/_tandem\/rules\?bookmark=users$/),
      page.getByRole("link", { name: "Next rules" }).click(),
    ]);
    await page.getByRole("link", { name: "First rules" }).waitFor();
    await show("/new-rule");
    await page.getByText("Read-only user").waitFor();
    expect(faults).toEqual([]);
  });

  test("the page of a rule shows the status of the rule's databases", async () => {
    for (const viewport of [
      { width: 1280, height: 900 },
      { width: 390, height: 844 },
    ]) {
      const { page, show, violations } = await visit(browser, node.url, "rita", { viewport });
      await mock(page);
      await show("/nodes");
      await show("/");
      const failing = page.getByRole("region", { name: "Rules whose source cannot be listed" });
      await failing.getByText("timeout: <b>no answer</b>").waitFor();
      await failing.getByText("Showing 1 of 2 rules").waitFor();
      await failing.getByRole("link", { name: "users" }).click();
      await page.getByText("Source databases cannot be listed").waitFor();
      await page.getByText("from the feed of database updates").waitFor();
      await page.getByText("user-⟨U+202E⟩A").waitFor();
      await page.getByText("and 10 more").waitFor();
      expect(await page.getByRole("link", { name: "1,199" }).getAttribute("href")).toBe(
        "#/jobs?rule=users",
      );
      expect(await page.getByRole("button", { name: "Remove" }).count()).toBe(0);
      expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
      expect(await violations()).toEqual([]);
    }
  });

  test("a rule is stored only after its effects were previewed", async () => {
    const { page, show, violations } = await visit(browser, node.url, "root");
    const asked = await mock(page);
    await show("/rules/users");
    await page.getByRole("link", { name: "Edit" }).click();
    await page.getByText("JSON", { exact: true }).first().click();
    const text = page.getByLabel("Rule (JSON)");
    const { name: _name, status: _status, ...body } = USERS;
    expect(JSON.parse(await text.inputValue())).toEqual(body);
    await text.fill("{");
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByText("Invalid JSON").waitFor();
    await text.fill('{"databases": "nobody"}');
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByRole("alert").getByText("must be a list of patterns").waitFor();
    await text.fill(JSON.stringify({ ...body, databases: ["*"] }));
    await page.getByRole("button", { name: "Preview" }).click();
    const plan = page.getByRole("list", { name: "Preview" });
    await plan.getByText("120 databases match (user-a, user-b, …)").waitFor();
    await plan.getByText("1 job is cancelled (user-gone)").waitFor();
    expect(await plan.getByText("cannot be copied").count()).toBe(0);
    expect(await violations()).toEqual([]);
    // Changes the rule, so that the preview must change.
    await text.fill(JSON.stringify({ ...body, databases: ["a"] }));
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByRole("button", { name: "Save rule" }).click();
    await page.getByText("Rule users saved").waitFor();
    expect(asked.filter(({ method }) => method === "PUT").at(-1)).toEqual({
      method: "PUT",
      path: "/_tandem/rules/users",
      body: { ...body, databases: ["a"] },
    });
    await page.waitForURL(/#\/rules\/users$/);
  });

  test("a new rule needs a name, and a rule is removed after confirmation", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    const asked = await mock(page);
    await show("/rules");
    await page.getByRole("link", { name: "New rule" }).click();
    const hasFocus = (label: string) =>
      page.getByLabel(label).and(page.locator(":focus")).waitFor();
    const preview = page.getByRole("button", { name: "Preview" });
    await preview.click();
    await page.getByText("Enter a name").waitFor();
    await hasFocus("Name");
    await page.getByLabel(/^Name/).fill("all");
    await preview.click();
    await page.getByText("Enter the address of the source").waitFor();
    await hasFocus("Source address");
    await page.getByLabel("Source address").fill("https://a.example/");
    await page.getByLabel("Target address").fill("https://b.example/{db}");
    await page.getByLabel(/^Databases/).fill("nobody");
    await preview.click();
    const databases = page.getByRole("group", { name: "Databases" });
    await databases.getByText("must be a list of patterns").waitFor();
    await hasFocus("Databases");
    await page.getByLabel(/^Databases/).fill("user-*\nteam-*");
    await page.getByText("JSON", { exact: true }).first().click();
    const text = page.getByLabel("Rule (JSON)");
    const rule = {
      source: "https://a.example/",
      target: "https://b.example/{db}",
      databases: ["user-*", "team-*"],
    };
    expect(JSON.parse(await text.inputValue())).toEqual(rule);
    // The fields show the values of the JSON text. Its numbers are not reformatted.
    const large = "12345678901234567890";
    await text.fill(`{"options": {"weight": ${large}}, ${JSON.stringify(rule).slice(1)}`);
    await page.getByText("Options", { exact: true }).first().click();
    expect(await page.getByLabel(/^Weight/).inputValue()).toBe(large);
    await page.getByLabel(/^Except/).fill("user-x");
    await page.getByText("Scope and schedule").first().click();
    await page.getByLabel(/^Starts after/).fill("first/{db}");
    expect(await text.inputValue()).toContain(`"weight": ${large}`);
    expect(await text.inputValue()).toContain('"user-x"');
    await page.getByLabel(/^Weight/).fill("7");
    await preview.click();
    await page.getByRole("button", { name: "Save rule" }).click();
    await page.waitForURL(/#\/rules\/all$/);
    expect(asked.findLast(({ method }) => method === "PUT")?.body).toEqual({
      ...{ ...rule, except: ["user-x"], after: ["first/{db}"], options: { weight: 7 } },
    });
    await page.getByRole("button", { name: "Remove" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("1 job is cancelled").waitFor();
    const remove = dialog.getByRole("button", { name: "Remove" });
    expect(await remove.isDisabled()).toBe(true);
    await dialog.getByLabel("cannot be undone").check();
    await remove.click();
    await page.getByText("Rule all removed").waitFor();
    await page.waitForURL(/#\/rules$/);
    const changes = asked.filter(({ method }) => method !== "GET");
    expect(changes.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "PUT /_tandem/rules/all?dry_run=true",
      "PUT /_tandem/rules/all?dry_run=true",
      "PUT /_tandem/rules/all",
      "DELETE /_tandem/rules/all?dry_run=true",
      "DELETE /_tandem/rules/all",
    ]);
  });
});
