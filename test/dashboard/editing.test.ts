/** Input in the forms of the dashboard is sent as shown. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { ask as askNode, CHROMIUM, GUARDED, openBrowser, visit } from "./browser.fixture.ts";

let processes: Processes;
let node: TandemNode;
let browser: Browser;

function ask(method: string, path: string, body?: unknown) {
  return askNode(node, method, path, body);
}

/** Waits until the database contains the source's document. */
function onceCopied(database: string) {
  return node.onceAnswered(
    () => ask("GET", `/${database}/moon`),
    ({ _id: id }) => id === "moon",
  );
}

/** Holds responses to matching requests until the returned function is called. */
async function hold(page: Page, address: RegExp): Promise<() => void> {
  let letGo = () => {};
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  await page.route(address, async (route) => {
    await held;
    await route.fallback();
  });
  return letGo;
}

const OUTCOME = /"_replication_/;

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  beforeAll(async () => {
    processes = new Processes();
    [node, browser] = await Promise.all([processes.openHere(GUARDED), openBrowser()]);
    await ask("PUT", "/films");
    await ask("PUT", "/films/moon", {});
  });

  afterAll(async () => {
    await browser?.close();
    await processes?.close();
  });

  test("a clone of an ended job runs, and the ended job runs again after an edit", async () => {
    await ask("PUT", "/_replicator/once", {
      ...{ source: "films", target: "once-1", create_target: true },
      ...{ _replication_state: "completed", _replication_stats: { docs_written: 77 } },
      _attachments: { note: { content_type: "text/plain", data: "aGk=" } },
    });
    const { page, show } = await visit(browser, node.url, "root");
    const sent = page.locator(".outcome pre").first();
    await show("/new?clone=_replicator%2Fonce");
    await page.getByLabel("Target address").fill("once-2");
    await sent.getByText('"once-2"').waitFor();
    expect(await sent.textContent()).not.toMatch(OUTCOME);
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { name: "_replicator/once-copy" }).waitFor();
    await onceCopied("once-2");

    await show("/new?edit=_replicator%2Fonce");
    await page.getByLabel("Target address").fill("once-3");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "_replicator/once" }).waitFor();
    await onceCopied("once-3");
    expect(await ask("GET", "/_replicator/once")).toHaveProperty("_attachments.note");
  });

  test("an edit keeps the digits of a number that JavaScript would change", async () => {
    const large = "12345678901234567890";
    const authorization = `Basic ${Buffer.from("root:secret").toString("base64")}`;
    const body = `{"source": "films", "target": "films", "selector": {"a": ${large}}, "continuous": true}`;
    await fetch(`${node.url}/_replicator/large`, {
      method: "PUT",
      headers: {
        authorization,
        "content-type": "application/json",
      },
      body,
    });
    onTestFinished(() => ask("POST", "/_tandem/jobs/_replicator%2Flarge/_cancel").then(() => {}));
    const { page, show } = await visit(browser, node.url, "root");
    await show("/new?edit=_replicator%2Flarge");
    await page.getByLabel("Target address").fill("large");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "_replicator/large" }).waitFor();
    const stored = await fetch(`${node.url}/_replicator/large`, { headers: { authorization } });
    const text = await stored.text();
    expect(text).toContain(`"selector":{"a":${large}}`);
    expect(text).toContain('"target":"large"');
  });

  test("the form writes replications only to replicator databases", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    const changes: string[] = [];
    page.on("request", (request) => {
      if (request.method() === "PUT") changes.push(new URL(request.url()).pathname);
    });
    await show("/new");
    await page.getByLabel("Source address").waitFor();
    expect(await page.getByText(/may change nothing|Checking…/).count()).toBe(0);
    await page.getByLabel("Source address").fill("films");
    await page.getByLabel("Target address").fill("films-2");
    await page.getByText("Replicator database").first().click();
    const database = page.getByLabel("Database", { exact: true });
    await database.fill("films");
    await page.getByText("Database: Expected _replicator").waitFor();
    await page.getByRole("button", { name: "Create", exact: true }).click();
    expect(await database.getAttribute("aria-invalid")).toBe("true");
    await database.fill("_replicator");
    await page.getByLabel("Id", { exact: true }).fill("..");
    await page.getByText("Id: Browsers cannot request").waitFor();
    await page.getByRole("button", { name: "Create", exact: true }).click();
    expect(changes).toEqual([]);
    await page.getByLabel("Id", { exact: true }).fill(" spaced ");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { name: "_replicator/spaced" }).waitFor();
    expect(changes).toEqual(["/_replicator/spaced"]);
    await ask("POST", "/_tandem/jobs/_replicator%2Fspaced/_cancel");
  });

  test("a missing target is reported, and can be created", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/new");
    await page.getByLabel("Source address").fill("films");
    await page.getByLabel("Target address").fill("not-there-yet");
    await page.getByText("not found: ").waitFor();
    await page.getByRole("button", { name: "Create target" }).click();
    await page.getByText("Does not exist yet and will be created.").waitFor();
    expect(await page.getByLabel("Create the target if it does not exist").isChecked()).toBe(true);
    await page.locator(".outcome pre").first().getByText('"create_target": true').waitFor();
    await page.getByText("curl reads your login from ~/.netrc").waitFor();
  });

  test("the dashboard never requests a resource named . or ..", async () => {
    const { page, show, faults } = await visit(browser, node.url, "root");
    for (const view of ["/rules/.", "/jobs/.", "/jobs/..", "/rules/..?edit=true"]) {
      await show(view);
      await page.getByText("Browsers cannot request a resource named .").waitFor();
    }
    const job = await ask("GET", "/_tandem/jobs/_replicator%2Fonce");
    await page.route(/\/_tandem\/jobs\/_replicator%2F\.\.$/, (route) =>
      route.fulfill({ json: { ...job, doc_id: "..", name: "_replicator/.." } }),
    );
    await page.route(/\/_tandem\/jobs\/_replicator%2F\.\.\/runs$/, (route) =>
      route.fulfill({ json: { runs: [] } }),
    );
    await page.route(/\/_tandem\/jobs\/_replicator%2F\.\.\/failures\/_counts$/, (route) =>
      route.fulfill({ json: { total_rows: 0, counts: [] } }),
    );
    await show("/jobs/_replicator%2F..");
    await page.getByText("Browsers cannot request a resource named ..").waitFor();
    expect(await page.getByText("Welcome").count()).toBe(0);
    expect(faults).toEqual([]);
  });

  test("the preview shows the effect of the rule in the form, rather than of an earlier version", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/new-rule");
    await page.getByLabel(/^Name/).fill("all");
    await page.getByText("JSON", { exact: true }).first().click();
    const text = page.getByLabel("Rule (JSON)");
    await text.fill('{"source": "local", "target": "copy-{db}", "databases": ["nothing-*"]}');
    const letGo = await hold(page, /dry_run=true/);
    const answered = page.waitForResponse(/dry_run=true/);
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByRole("button", { name: "Asking…" }).waitFor();
    await text.fill('{"source": "local", "target": "copy-{db}", "databases": ["films"]}');
    letGo();
    await answered;
    const question = page.getByRole("button", { name: "Preview" });
    await question.waitFor();
    expect(await page.getByRole("list", { name: "Preview" }).count()).toBe(0);
    await question.click();
    await page.getByRole("button", { name: "Save rule" }).waitFor();
  });

  test("only groups of jobs with rejected logins have a button that replaces the credential, and a command is sent once", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    const groupOf = (failureClass: string) => ({
      ...{ class: failureClass, side: "source", host: `${failureClass}.example`, count: 5 },
      ...{ since: "2026-01-01T00:00:00Z", error: failureClass, reason: "no", next_try: null },
      example: "_replicator/a",
      login:
        failureClass === "unreachable" || failureClass === "proxy"
          ? null
          : { host: `https://${failureClass}.example`, username: "jan" },
      login_gate: null,
    });
    const groups = ["unauthorized", "forbidden", "proxy", "unreachable"].map(groupOf);
    await page.route("**/_tandem/failing", (route) =>
      route.fulfill({ json: { total_rows: 4, jobs: 20, groups } }),
    );
    await page.route(/\/_tandem\/jobs\?/, (route) =>
      route.fulfill({ json: { total_rows: 5, bookmark: null, jobs: [] } }),
    );
    await show("/nodes");
    await show("/");
    const buttons = page.getByRole("button", { name: /^Replace credential/ });
    await page.getByRole("button", { name: /^Retry unreachable/ }).waitFor();
    expect(await page.getByRole("link", { name: /^Failing/ }).textContent()).toMatch(/\D5jobs$/);
    const labels = await buttons.evaluateAll((all) => all.map(({ ariaLabel }) => ariaLabel));
    expect(labels).toEqual(
      ["unauthorized", "forbidden"].map(
        (name) => `Replace credential of ${name} at ${name}.example (source)`,
      ),
    );

    let sentCount = 0;
    await page.route(/\/_tandem\/jobs\/_retry/, (route) => {
      sentCount++;
      return route.fulfill({ json: { ok: true, matched: 5, changed: 5 } });
    });
    const letGo = await hold(page, /\/_tandem\/jobs\/_retry/);
    await page.getByRole("button", { name: /^Retry unauthorized/ }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: /^Retry \d/ }).click();
    const working = dialog.getByRole("button", { name: "Working…" });
    await working.waitFor();
    expect(await working.isDisabled()).toBe(true);
    letGo();
    await page.getByText("5 of 5 jobs").waitFor();
    expect(sentCount).toBe(1);
  });

  test("a credential is replaced after the jobs of the group are counted; the page then shows progress and failures", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    const login = { host: "https://couch.example", username: "jan" };
    const gate = {
      ...{
        ...login,
        status: "refused",
        reason: "401 unauthorized: Name or password is incorrect.",
      },
      ...{ since: "2026-01-01T00:00:00Z", next_attempt: "2126-01-01T00:00:00Z" },
    };
    const group = {
      ...{ class: "unauthorized", side: "source", host: "couch.example", count: 5 },
      ...{ since: "2026-01-01T00:00:00Z", error: "unauthorized", reason: "no", next_try: null },
      ...{ example: "_replicator/a", login, login_gate: gate },
    };
    await page.route("**/_tandem/failing", (route) =>
      route.fulfill({ json: { total_rows: 1, jobs: 5, groups: [group] } }),
    );
    await page.route("**/_tandem/logins", (route) =>
      route.fulfill({ json: { total_rows: 1, logins: [{ ...gate, jobs: 5 }] } }),
    );
    const found = { ok: true, matched: 5, documents: 5, transient: 0, rules: ["users"] };
    const sent: { query: string; body: object }[] = [];
    await page.route(/\/_replace/, (route) => {
      const url = new URL(route.request().url());
      sent.push({ query: url.search, body: route.request().postDataJSON() });
      const isDryRun = url.searchParams.has("dry_run");
      return isDryRun
        ? route.fulfill({ json: { ...found, dry_run: true } })
        : route.fulfill({ status: 202, json: { ...found, id: "c1" } });
    });
    const command = { id: "c1", action: "replace_credentials", matched: 5 };
    const running = { ...command, state: "running", done: 2, changed: 2, failed: 0 };
    let shown: object = running;
    await page.route("**/_tandem/commands/c1", (route) => route.fulfill({ json: shown }));
    await show("/nodes");
    await show("/");
    await page.getByText("Waiting to log in to").waitFor();
    const row = page.getByRole("region", { name: "Rejected accounts" }).getByRole("row");
    await row.filter({ hasText: "Name or password is incorrect" }).waitFor();
    await page.getByRole("button", { name: /^Replace credential/ }).click();
    const dialog = page.getByRole("dialog");
    expect(await dialog.getByLabel("User", { exact: true }).inputValue()).toBe("jan");
    await dialog.getByLabel("New password").fill("first");
    const letGo = await hold(page, /\/_replace/);
    const count = dialog.getByRole("button", { name: "Count jobs" });
    const asked = page.waitForRequest(/\/_replace/);
    const answered = page.waitForResponse(/\/_replace/);
    await count.click();
    await asked;
    await dialog.getByLabel("New password").fill("second");
    letGo();
    await answered;
    await count.click();
    await dialog.getByText("The change would also affect all jobs of these rules: users").waitFor();
    await dialog.getByRole("button", { name: "Replace credential of 5 jobs" }).click();
    await dialog.getByText("2 of 5 jobs").waitFor();
    shown = { ...running, state: "completed", done: 5, changed: 3, failed: 2 };
    await page.getByText("Credentials of 3 jobs replaced; 2 documents were not changed").waitFor();
    const filter = "error=unauthorized&side=source&host=couch.example%3A";
    expect(sent.map(({ query }) => query)).toEqual([
      `?${filter}&dry_run=true`,
      `?${filter}&dry_run=true`,
      `?${filter}`,
    ]);
    expect(sent.at(-1)?.body).toEqual({
      ...{ ...login, side: "source" },
      auth: { basic: { username: "jan", password: "second" } },
    });
  });

  test("while the shares of a group are edited, all percentages reflect each valid input", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    const groupOf = (name: string, shares: number) => ({
      ...{ name, shares, usage_sec: 0, standing: 0, longest_wait_sec: 0 },
      jobs: { running: 1, pending: 0, ended: 0 },
    });
    const groups = [groupOf("a", 100), groupOf("b", 300)];
    await page.route("**/_tandem/groups?**", (route) =>
      route.fulfill({ json: { total_rows: groups.length, groups } }),
    );
    await show("/servers");
    const parts = (a: string, b: string) =>
      Promise.all([
        page.getByRole("row", { name: new RegExp(`^a .*${a} %$`) }).waitFor(),
        page.getByRole("row", { name: new RegExp(`^b .*${b} %$`) }).waitFor(),
      ]);
    await parts("100.* 25", "300.* 75");
    await page.getByRole("button", { name: "Edit shares of b" }).click();
    const shares = page.getByRole("spinbutton", { name: "Shares of b" });
    for (const text of ["50", "", "50", "0"]) {
      await shares.fill(text);
      await (text === "50" ? parts("100.* 66.7", "33.3") : parts("100.* 25", "75"));
    }
    await page.keyboard.press("Escape");
    await parts("100.* 25", "300.* 75");
  });

  test("shares can be edited by keyboard, and a refresh of the page does not move the focus", async () => {
    await ask("PUT", "/_replicator/shared", {
      source: "films",
      target: "nowhere",
      continuous: true,
    });
    onTestFinished(() => ask("POST", "/_tandem/jobs/_replicator%2Fshared/_cancel").then(() => {}));
    const { page, show } = await visit(browser, node.url, "root");
    await page.clock.install();
    await show("/servers");
    await page.getByRole("button", { name: "Edit shares of _replicator" }).press("Enter");
    await page.keyboard.press("Tab");
    await page.clock.runFor(3_000);
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Set");
  });

  test("failed documents of a paused job are retried when the job is resumed, and the page says so", async () => {
    const validate = `function (doc) { if (doc.odd) throw { forbidden: "an odd one" }; }`;
    await ask("PUT", "/mixed");
    await ask("PUT", "/mixed/a", { odd: true });
    await ask("PUT", "/strict");
    await ask("PUT", "/strict/_design/v", { validate_doc_update: validate });
    await ask("PUT", "/_replicator/strict", {
      source: "mixed",
      target: "strict",
      continuous: true,
    });
    const job = "/_tandem/jobs/_replicator%2Fstrict";
    onTestFinished(() => ask("POST", `${job}/_cancel`).then(() => {}));
    await node.onceAnswered(
      () => ask("GET", job),
      ({ left_behind: count }) => count === 1,
    );
    await ask("POST", `${job}/_pause`);
    await node.onceAnswered(
      () => ask("GET", job),
      ({ state }) => state !== "running",
    );
    const { page, show } = await visit(browser, node.url, "root");
    await show("/jobs/_replicator%2Fstrict");
    await page.getByRole("button", { name: "Retry all documents" }).click();
    await page
      .getByText("The job is paused and will retry the documents once it is resumed")
      .waitFor();
  });

  test("the list of servers shows its last page if a link requests a later page", async () => {
    const row = {
      ...{ source_jobs: 1, target_jobs: 0, failing: {}, outage: null, limiter_ms: 0, requests: 0 },
      ...{ latency_ms: null, budgets: [] },
    };
    const { page, show } = await visit(browser, node.url, "root");
    await page.route(/\/_tandem\/endpoints\?/, (route) => {
      const skip = Number(new URL(route.request().url()).searchParams.get("skip"));
      const endpoints = skip < 150 ? [{ ...row, host: `behind-${skip}.example` }] : [];
      return route.fulfill({ json: { total_rows: 150, endpoints } });
    });
    await show("/servers?skip=300");
    await page.getByText("behind-100.example").waitFor();
    await page.getByText("101–150 of 150").waitFor();
  });

  test("the page shows the budget of a server without jobs, and can remove the budget", async () => {
    await ask("PUT", "/_tandem/budgets/gone.example", { read: { requests_per_sec: 5 } });
    const { page, show, violations } = await visit(browser, node.url, "root");
    await show("/servers");
    await page.getByRole("heading", { name: "Budgets of unused servers" }).waitFor();
    await page.getByText("read 5 requests/s").waitFor();
    expect(await violations()).toEqual([]);
    await page.getByRole("button", { name: "Edit the budget of gone.example" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await page.getByText("Budget of gone.example removed").waitFor();
    await page.getByRole("heading", { name: "no job names" }).waitFor({ state: "detached" });
  });

  test("bidirectional control characters in names have no effect on any page", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/jobs?owner=a%E2%80%AEb");
    await page.getByRole("link", { name: "Owner: a⟨U+202E⟩b" }).waitFor();
    await show("/new");
    await page.getByLabel("Source address").fill("a\u202eb");
    await page.getByLabel("Target address").fill("c");
    const sent = page.locator(".outcome pre");
    for (const place of [sent.first(), sent.nth(1)]) {
      await place.getByText(String.raw`a\u202eb`).waitFor();
      expect(await place.textContent()).not.toContain("\u202e");
    }
  });
});
