/**
 * The dashboard of real nodes in a browser. Tests an incident with failing jobs, hostile text, and
 * read-only users.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { JsonNumber } from "../../src/base/index.ts";
import { closedPort } from "../support/closed-port.ts";
import { Processes, type TandemNode } from "../support/open-process.ts";
import {
  ask as askNode,
  CHROMIUM,
  GUARDED,
  openBrowser,
  openPage,
  violations,
  visit,
} from "./browser.fixture.ts";

/** Numbers of failing jobs in the incident, one constant for each cause. */
const AWAY_COUNT = 90;
const REFUSED_COUNT = 70;
const MISSING_COUNT = 40;
const FAILING_COUNT = AWAY_COUNT + REFUSED_COUNT + MISSING_COUNT;
const HOSTILE_IDS = [
  `<img src=x onerror="alert(1)">'&\u202e`,
  "javascript:alert(4)",
  "w".repeat(4_096),
];
const HOSTILE_REASON = "<script>alert(2)</script><img src=x onerror=alert(3)>";

let processes: Processes;
let node: TandemNode;
let browser: Browser;

function ask(method: string, path: string, body?: unknown) {
  return askNode(node, method, path, body);
}

function replicate(id: string, document: Readonly<Record<string, unknown>>) {
  return ask("PUT", `/_replicator/${encodeURIComponent(id)}`, { continuous: true, ...document });
}

async function addUser(name: string, roles: readonly string[]) {
  const document = { name, roles, type: "user", password: "secret" };
  await ask("PUT", `/_users/org.couchdb.user:${name}`, document);
}

/**
 * Two distances in the tab order: the number of controls from the previously focused control to the
 * focused one, and the number of controls after the focused one.
 */
const STEP = `(() => {
  const controls = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
    .filter((element) => element.checkVisibility({ visibilityProperty: true }) && !element.disabled && element.tabIndex >= 0);
  const now = controls.indexOf(document.activeElement);
  const step = now - controls.indexOf(window.controlBefore);
  window.controlBefore = document.activeElement;
  return [step, controls.length - 1 - now, document.activeElement.outerHTML.slice(0, 100)];
})()`;

/** Login in a replication document. */
interface Login {
  readonly basic: { readonly username: string; readonly password: string };
}

/**
 * Lists the scrollable areas, and for each area whether the area or a control inside it can be
 * focused. This is computed from the markup, because some browsers make scrollable areas focusable
 * themselves.
 */
const SCROLLING = `[...document.querySelectorAll("*")].flatMap((element) => {
  const { overflowX, overflowY } = getComputedStyle(element);
  const scrolls = (overflow, hidden) => /auto|scroll/.test(overflow) && hidden > 0;
  const isScrolling =
    scrolls(overflowX, element.scrollWidth - element.clientWidth) ||
    scrolls(overflowY, element.scrollHeight - element.clientHeight);
  if (!isScrolling) return [];
  const control = element.querySelector("a[href], button:enabled, input, select, textarea, [tabindex='0']");
  const name = element.getAttribute("aria-label") ?? element.className;
  return [[name, element.tabIndex >= 0 || control !== null]];
})`;

/** Creates 200 jobs that fail in three ways, and one job that runs. */
async function makeTrouble() {
  await ask("PUT", "/films");
  await ask("PUT", "/films/_security", { members: { names: ["ann"] } });
  await ask("PUT", "/films/moon", { title: "A Trip to the Moon" });
  await addUser("ann", []);
  await addUser("rita", ["_tandem_reader"]);
  const away = await closedPort();
  const wrong = { url: `${node.url}/films`, auth: { basic: { username: "ann", password: "old" } } };
  const missing = (number: number) => ({
    url: `${node.url}/missing-${number}`,
    auth: { basic: { username: "root", password: "secret" } },
  });
  for (let number = 0; number < AWAY_COUNT; number++) {
    const source = `http://127.0.0.1:${away}/orders-${number}`;
    await replicate(`orders-${number}`, { source, target: "films", retries_per_request: 0 });
  }
  for (let number = 0; number < REFUSED_COUNT; number++) {
    await replicate(`billing-${number}`, {
      source: wrong,
      target: `b-${number}`,
      create_target: true,
    });
  }
  for (let number = 0; number < MISSING_COUNT; number++) {
    await replicate(`missing-${number}`, { source: missing(number), target: "films" });
  }
  await replicate("good", { source: "films", target: "copy", create_target: true });
  await node.onceAnswered(
    () => ask("GET", "/_tandem/jobs?failing=true&limit=0"),
    ({ total_rows: total }) => total === FAILING_COUNT,
  );
}

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  beforeAll(async () => {
    processes = new Processes();
    // A run counts as a success after one second.
    const ini =
      "[chttpd_auth_lockout]\nmode = off\n[replicator]\nhealth_threshold_sec = 1\ncheckpoint_interval = 500\n";
    node = await processes.openHere({ ...GUARDED, ini });
    [browser] = await Promise.all([openBrowser(), makeTrouble()]);
  });

  afterAll(async () => {
    await browser?.close();
    await processes?.close();
  });

  test("the dashboard opens in a browser whose language is invalid, as with a container's POSIX locale", async () => {
    const { page, faults } = await openPage(browser);
    const language = `{ value: "en-US@posix", configurable: true }`;
    await page.addInitScript(`Object.defineProperty(navigator, "language", ${language})`);
    await page.goto(`${node.url}/_dashboard/`);
    await page.getByRole("button", { name: "Log in" }).waitFor();
    expect(faults).toEqual([]);
  });

  test("all pages comply with accessibility rules, both wide in light mode and narrow in dark mode", async () => {
    const rule = { source: "local", target: "copy-{db}", databases: ["user-*"] };
    await ask("PUT", "/_tandem/rules/users", rule);
    await ask("PUT", "/both-sides");
    const docs = ["1-aaaa", "1-bbbb"].map((_rev) => ({ _id: "one job", _rev, a: _rev, b: [1] }));
    await ask("POST", "/both-sides/_bulk_docs", { new_edits: false, docs });
    // These numbers are equal if they are parsed as doubles.
    const numbers = ["9007199254740992", "9007199254740993"].map((text) => new JsonNumber(text));
    const leaves = numbers.map((n, index) => ({ _id: "numbers", _rev: `1-${index}`, n }));
    await ask("POST", "/both-sides/_bulk_docs", { new_edits: false, docs: leaves });
    const found: string[] = [];
    const narrow = { width: 390, height: 844 };
    for (const looks of [
      { colorScheme: "light" },
      { colorScheme: "dark", viewport: narrow },
    ] as const) {
      const where = Object.values(looks)
        .map((check) => JSON.stringify(check))
        .join(" ");
      const { page: login } = await openPage(browser, looks);
      await login.goto(`${node.url}/_dashboard/`);
      await login.getByRole("button", { name: "Log in" }).waitFor();
      for (const fault of await violations(login)) found.push(`login ${where}: ${fault}`);
      const {
        page,
        show,
        violations: check,
        faults,
      } = await visit(browser, node.url, "root", looks);
      const views: [view: string, landmark: string][] = [
        ["/", "The last hour"],
        ["/jobs", "_replicator/billing-0"],
        ["/jobs/_replicator%2Fbilling-0", "Document as submitted"],
        ["/new", "Request preview"],
        ["/nodes", "Lease renewed"],
        ["/servers", `${AWAY_COUNT} unreachable`],
        ["/rules", "users"],
        ["/rules/users", "Rule as submitted"],
        ["/new-rule", "Rule (JSON)"],
        ["/rules/users?edit=true", "Rule (JSON)"],
        ["/events", "Why"],
        ["/conflicts", "both-sides"],
        ["/conflicts/both-sides", "one job"],
        ["/conflicts/both-sides/one%20job", "1 member differs"],
        ["/conflicts/both-sides/numbers", "9007199254740993"],
        ["/settings", "checkpoint_interval"],
      ];
      for (const [view, landmark] of views) {
        await show(view);
        await page.getByText(landmark).first().waitFor({ state: "attached" });
        for (const fault of await check()) found.push(`${view} ${where}: ${fault}`);
      }
      await show("/jobs/_replicator%2Fbilling-0");
      await page.getByRole("button", { name: "Delete" }).click();
      await page.getByRole("dialog").waitFor();
      for (const fault of await check()) found.push(`dialog ${where}: ${fault}`);
      found.push(...faults);
    }
    expect(found).toEqual([]);
  });

  test("a read-only user sees every page, and has no controls for changes", async () => {
    const { page, show, faults } = await visit(browser, node.url, "rita");
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    await page.getByText(`${FAILING_COUNT} jobs in 3 groups`).waitFor();
    const steering = /^(Retry|Pause|Resume|Reset|Cancel|Replace|Select|Start from|Drain|Edit|Add)/;
    const buttons = page
      .getByRole("button", { name: steering })
      .filter({ hasNotText: "Pause view" });
    expect(await buttons.count()).toBe(0);
    expect(await page.getByRole("link", { name: "New replication" }).count()).toBe(0);
    await show("/jobs?state=running&failing=false");
    await page.getByRole("link", { name: "_replicator/good" }).waitFor();
    expect(await buttons.count()).toBe(0);
    expect(await page.getByRole("checkbox").count()).toBe(0);
    await show("/jobs/_replicator%2Fgood");
    await page.getByText("not allowed to read the document").waitFor();
    // The page requests the job again only after its initial requests are complete.
    await page.waitForResponse(/\/_tandem\/jobs\/_replicator%2Fgood$/);
    expect(asked).not.toContain("/_replicator/good");
    expect(await buttons.count()).toBe(0);
    await show("/new");
    await page.getByText("Read-only user").waitFor();
    expect(await page.getByRole("textbox").count()).toBe(0);
    for (const [view, landmark] of [
      ["/nodes", "Last report"],
      ["/servers", `${AWAY_COUNT} unreachable`],
      ["/events", "Why"],
      ["/settings?all=true", "max_jobs"],
    ] as const) {
      await show(view);
      await page.getByText(landmark).first().waitFor();
      expect(await buttons.count()).toBe(0);
    }
    expect(faults).toEqual([]);
  });

  test("the node refuses every change by a read-only user", async () => {
    const { page } = await visit(browser, node.url, "rita");
    const changes = [
      ["POST", "_tandem/jobs/_pause?all=true"],
      ["POST", "_tandem/jobs/_replicator%2Fgood/_cancel"],
      ["POST", "_tandem/jobs/_replicator%2Fgood/_start_from"],
      ["POST", "_tandem/jobs/_replicator%2Fgood/failures/_retry"],
      ["POST", "_tandem/credentials/_replace"],
      ["POST", "_tandem/nodes/_local/_drain"],
      ["PUT", "_tandem/budgets/couch.example"],
      ["DELETE", "_tandem/budgets/couch.example"],
      ["PUT", "_node/_local/_config/replicator/max_jobs"],
      ["DELETE", "_node/_local/_config/replicator/max_jobs"],
      ["PUT", "_node/_local/_config/replicator.shares/_replicator"],
      ["PUT", "_replicator/new"],
    ] as const;
    for (const [method, path] of changes) {
      const status = await page.evaluate(
        `fetch("../${path}", { method: "${method}", headers: { "Content-Type": "application/json" }, body: "{}" })
          .then(({ status }) => status)`,
      );
      expect([method, path, status]).toEqual([method, path, 403]);
    }
  });

  test("ids and errors are shown as text, even if they contain markup", async () => {
    // A server that accepts requests for a database's description, and rejects all other requests
    // with a hostile reason.
    const hostile = createServer(({ url }, response) => {
      const isDatabase = /^\/x-\d\/?$/.test(url ?? "");
      response.writeHead(isDatabase ? 200 : 403, { "Content-Type": "application/json" });
      response.end(
        JSON.stringify(
          isDatabase
            ? { db_name: "x", update_seq: 1, instance_start_time: "0" }
            : { error: "<b>bold</b>", reason: HOSTILE_REASON },
        ),
      );
    });
    await new Promise<void>((resolve) => hostile.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void hostile.close());
    const { port } = hostile.address() as AddressInfo;
    for (const [index, id] of HOSTILE_IDS.entries()) {
      const source = `http://127.0.0.1:${port}/x-${index}`;
      await replicate(id, { source, target: "films", retries_per_request: 0 });
      onTestFinished(async () => {
        await ask("POST", `/_tandem/jobs/${encodeURIComponent(`_replicator/${id}`)}/_cancel`);
      });
    }
    const { page, show, faults } = await visit(browser, node.url, "root");
    await page.getByText(`${FAILING_COUNT + HOSTILE_IDS.length} jobs in 4 groups`).waitFor();
    await page.getByText(HOSTILE_REASON).first().waitFor();
    await show(`/jobs?host=127.0.0.1:${port}`);
    const link = page.getByRole("link", { name: "<img src=x" });
    await link.waitFor();
    expect(await link.textContent()).toContain("⟨U+202E⟩");
    for (const id of HOSTILE_IDS) {
      await show(`/jobs/${encodeURIComponent(`_replicator/${id}`)}`);
      await page.getByText("Document as submitted").waitFor();
      await page.getByRole("heading", { name: id.slice(0, 10) }).waitFor();
      await page.getByText(HOSTILE_REASON).first().waitFor();
      expect(await page.locator("img, main script, main b").count()).toBe(0);
      expect(await page.locator("a:not([href^='#/'])").count()).toBe(0);
      const over = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
      expect(over).toBe(0);
    }
    expect(faults).toEqual([]);
  });

  test("a group of failing jobs links to exactly its jobs, even if the databases are local", async () => {
    await replicate("own", { source: "nowhere", target: "films" });
    onTestFinished(() => ask("POST", "/_tandem/jobs/_replicator%2Fown/_cancel").then(() => {}));
    const { page, show } = await visit(browser, node.url, "root");
    await page.getByText(`${FAILING_COUNT + 1} jobs in 4 groups`).waitFor();
    await page.getByRole("link", { name: /^1\s*not found\s*databases of this server/ }).click();
    await page.waitForURL(/#\/jobs\?error=not_found&side=source&host=-$/);
    await page.getByRole("link", { name: "_replicator/own" }).waitFor();
    await page.getByText("1 job", { exact: true }).waitFor();
    await page.getByRole("link", { name: /^Failure host: none/ }).waitFor();
    await show("/");
    await page.getByRole("link", { name: new RegExp(`^${MISSING_COUNT}\\s*not found`) }).click();
    await page.getByText(`${MISSING_COUNT} jobs`, { exact: true }).waitFor();
    await page.getByRole("link", { name: "_replicator/missing-0" }).click();
    await page.getByRole("link", { name: "All jobs with this failure" }).click();
    await page.getByText(`${MISSING_COUNT} jobs`, { exact: true }).waitFor();
  });

  test("servers show their failures, and link to the failing jobs", async () => {
    const { page, show } = await visit(browser, node.url, "rita");
    await show("/servers");
    await page.getByRole("link", { name: `${REFUSED_COUNT} unauthorized` }).waitFor();
    await page.getByRole("row", { name: new RegExp(`${AWAY_COUNT} unreachable.*asked`) }).waitFor();
    await page.getByRole("row", { name: /^_replicator/ }).waitFor();
    await page.getByRole("link", { name: `${REFUSED_COUNT} unauthorized` }).click();
    await page.getByText(`${REFUSED_COUNT} jobs`, { exact: true }).waitFor();
  });

  test("the causes of an incident can be found and fixed with the mouse", async () => {
    const { page, faults } = await visit(browser, node.url, "root");
    await page.getByRole("link", { name: new RegExp(`^Failing\\s*${FAILING_COUNT}`) }).waitFor();
    await page.getByText(`${FAILING_COUNT} jobs in 3 groups`).waitFor();

    await page.getByRole("button", { name: /^Retry not_found/ }).click();
    await page.getByRole("heading", { name: `Retry ${MISSING_COUNT} jobs?` }).waitFor();
    // Create the missing databases only after the dialog has shown the number of failing jobs:
    // automatic retries change this number once the databases exist.
    for (let number = 0; number < MISSING_COUNT; number++) {
      await ask("PUT", `/missing-${number}`);
      await ask("PUT", `/missing-${number}/found`, {});
    }
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /^Retry \d/ })
      .click();
    await page.getByText(`${AWAY_COUNT + REFUSED_COUNT} jobs in 2 groups`).waitFor();

    // Replaces the credential of the jobs whose password was changed.
    await page.getByRole("button", { name: /^Replace credential of unauthorized/ }).click();
    const dialog = page.getByRole("dialog");
    expect(await dialog.getByLabel("Server").inputValue()).toBe(node.url);
    expect(await dialog.getByLabel("User", { exact: true }).inputValue()).toBe("ann");
    await dialog.getByLabel("New password").fill("secret");
    await dialog.getByRole("button", { name: "Count jobs" }).click();
    await dialog
      .getByRole("button", { name: `Replace credential of ${REFUSED_COUNT} jobs` })
      .click();
    await page.getByText(`${AWAY_COUNT} jobs in 1 group`).waitFor();

    // The last server stays unreachable, so its jobs are paused.
    await page.getByRole("button", { name: /^Pause unreachable/ }).click();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /^Pause \d/ })
      .click();
    await page.getByRole("link", { name: new RegExp(`^Paused\\s*${AWAY_COUNT}`) }).waitFor();
    expect(faults).toEqual([]);
  });

  test("undoing a pause command resumes exactly the jobs that the command paused", async () => {
    await ask("POST", "/_tandem/jobs/_pause?database=_replicator&source=films");
    onTestFinished(() => ask("POST", "/_tandem/jobs/_resume?source=films").then(() => {}));
    const { page, show } = await visit(browser, node.url, "root");
    await show("/jobs?source=films");
    await page.getByText("1 job", { exact: true }).waitFor();
    await show("/jobs?database=_replicator");
    await page.getByText(`${FAILING_COUNT + 1} jobs`, { exact: true }).waitFor();
    const paused = async (): Promise<number> => {
      const answer = await ask("GET", "/_tandem/jobs?paused=true&limit=0");
      return (answer as { total_rows: number }).total_rows;
    };
    const before = await paused();
    await page.getByRole("button", { name: "Select all matching jobs" }).click();
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /^Pause \d/ })
      .click();
    await page
      .getByText(`Paused: ${FAILING_COUNT + 1 - before} of ${FAILING_COUNT + 1} jobs`)
      .waitFor();
    expect(await paused()).toBe(FAILING_COUNT + 1);
    await page.getByRole("button", { name: "Undo" }).click();
    await page
      .getByText(
        `Undone. Resumed: ${FAILING_COUNT + 1 - before} of ${FAILING_COUNT + 1 - before} jobs`,
      )
      .waitFor();
    expect(await paused()).toBe(before);
  });

  test("one, some or all failed documents of a job can be retried", async () => {
    const validate = `function (doc) { if (doc.odd) throw { forbidden: "an odd one" }; }`;
    await ask("PUT", "/mixed");
    for (const id of ["a", "b", "c"]) await ask("PUT", `/mixed/${id}`, { odd: true });
    await ask("PUT", "/strict");
    await ask("PUT", "/strict/_design/v", { validate_doc_update: validate });
    await replicate("strict", { source: "mixed", target: "strict" });
    onTestFinished(() => ask("POST", "/_tandem/jobs/_replicator%2Fstrict/_cancel").then(() => {}));
    const { page, show } = await visit(browser, node.url, "root");
    await show("/jobs/_replicator%2Fstrict");
    await page.getByRole("heading", { name: "3 failed documents" }).waitFor();
    await page.getByLabel("Select b").check();
    await page.getByRole("button", { name: "Retry 1 document" }).click();
    await page.getByText("Retried 1 document; 3 still failing").waitFor();
    await page.getByRole("row", { name: /^Select b b .* 2 / }).waitFor();
    expect(await page.getByRole("row", { name: /^Select a a .* 1 / }).count()).toBe(1);
    const { _rev: rev } = (await ask("GET", "/strict/_design/v")) as { _rev: string };
    await ask("DELETE", `/strict/_design/v?rev=${rev}`);
    await page.getByRole("button", { name: "Retry all documents" }).click();
    await page.getByText("Retried 3 documents; 0 still failing").waitFor();
  });

  test("the form for shares previews the effect of an edit", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/servers");
    await page.getByRole("button", { name: "Edit shares of _replicator" }).click();
    await page.getByRole("spinbutton", { name: "Shares of _replicator" }).fill("250");
    await page.keyboard.press("Enter");
    await page.getByText("Shares of _replicator set to 250").waitFor();
    await page.getByRole("row", { name: /^_replicator .* 250 Edit.* 100 %/ }).waitFor();
    await show("/settings?words=replicator.shares");
    await page.getByRole("row", { name: /replicator.shares _replicator 250 none/ }).waitFor();
    await page.getByLabel("Include defaults").check();
    await page.waitForURL(/#\/settings\?words=replicator.shares&all=true$/);
    await show("/settings?all=true&words=max_jobs");
    const row = page.getByRole("row", { name: /^replicator max_jobs 500 jobs 500 jobs maximum/ });
    await row.getByText("immediately").waitFor();
    await show("/settings?all=true&words=node_name");
    const nodeName = page.getByRole("row", { name: /^tandem node_name .* and the host name/ });
    await nodeName.getByText("after a restart").waitFor();
    // The search also covers the descriptions of settings.
    await show("/settings?all=true&words=NOT+counting+parked");
    await row.waitFor();
  });

  test("the log of decisions shows who made each decision", async () => {
    const { page, show } = await visit(browser, node.url, "rita");
    const good = "/_tandem/jobs/_replicator%2Fgood";
    await ask("POST", `${good}/_pause`);
    await ask("POST", `${good}/_resume`);
    await show("/events");
    await page.getByLabel("Operator decisions only").check();
    await page
      .getByRole("row", { name: /_replicator\/good paused root/ })
      .first()
      .waitFor();
    await page
      .getByRole("row", { name: /_replicator\/good resumed root/ })
      .first()
      .waitFor();
  });

  test("the form creates a replication, and the job's page removes it", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/new");
    await page.getByLabel("Id", { exact: true }).fill("by-form");
    await page.getByLabel("Source address").fill("films");
    await page.getByLabel("Target address").fill("by-form");
    await page.getByLabel("create_target").check();
    await page.getByText("Options", { exact: true }).first().click();
    await page.getByLabel("worker_batch_size").fill("7");
    await page.getByText('"worker_batch_size": 7').first().waitFor();
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { name: "_replicator/by-form" }).waitFor();
    const document = await ask("GET", "/_replicator/by-form");
    expect(document).toMatchObject({ source: "films", worker_batch_size: 7, continuous: true });
    await page.getByRole("button", { name: "Delete" }).click();
    const remove = page.getByRole("dialog").getByRole("button", { name: "Delete 1 job" });
    expect(await remove.isDisabled()).toBe(true);
    await page.getByLabel("cannot be undone").check();
    await remove.click();
    await page.getByRole("heading", { name: "Jobs" }).waitFor();
    expect(await ask("GET", "/_replicator/by-form")).toMatchObject({ error: "not_found" });
  });

  test("schedule and filters are validated while they are typed, and survive an edit and a clone", async () => {
    onTestFinished(() => ask("POST", "/_tandem/jobs/_replicator%2Fnightly/_cancel").then(() => {}));
    const { page, show, violations: check } = await visit(browser, node.url, "root");
    await show("/new");
    await page.getByLabel("Id", { exact: true }).fill("nightly");
    await page.getByLabel("Source address").fill("films");
    await page.getByLabel("Target address").fill("nightly");
    await page.getByLabel("create_target").check();
    await page.getByText("Schedule", { exact: true }).first().click();
    await page.getByText("Documents to copy", { exact: true }).first().click();
    await page.getByLabel(/^Runs/).selectOption("at fixed times (cron)");
    const schedule = page.getByLabel(/^Schedule/);
    expect(await schedule.inputValue()).toMatch(/^0 3 \* \* \* \S+$/);
    expect(await page.getByRole("checkbox", { name: /^Continuous/ }).isChecked()).toBe(false);
    await schedule.fill("0 3 * * 1-5 Europe/Atlantis");
    await page.getByText('"Europe/Atlantis" is not a time zone').waitFor();
    expect(await check()).toEqual([]);
    await schedule.fill("0 3 * * 1-5 Europe/Berlin");
    await page.getByText("is not a time zone").waitFor({ state: "hidden" });
    await page.getByLabel(/^Starts after/).fill("nightly");
    await page
      .getByRole("group", { name: "Schedule" })
      .getByText("names this document itself")
      .waitFor();
    await page.getByLabel(/^Starts after/).fill("evening\n_replicator/noon");
    await page.getByLabel("Skip deletions").check();
    await page.getByLabel(/^Maximum document size/).fill("a lot");
    await page.getByText("Maximum document size (bytes): Expected 0 or more").waitFor();
    await page.getByLabel(/^Maximum document size/).fill("1000000");
    await page.getByLabel(/^Maximum attachment size/).fill("0");
    const chosen = {
      schedule: "0 3 * * 1-5 Europe/Berlin",
      after: ["evening", "_replicator/noon"],
      deleted: "skip",
      documents: { max_bytes: 1_000_000 },
      attachments: { max_bytes: 0 },
    };
    const sent = page.locator(".outcome pre");
    // The preview may first show earlier input. It is complete once it shows the last input.
    await sent.first().getByText('"max_bytes": 0').waitFor();
    const shown = JSON.parse((await sent.first().textContent()) ?? "");
    expect(shown).toMatchObject(chosen);
    expect(await sent.nth(1).textContent()).toContain(JSON.stringify(shown, null, 2));
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { name: "_replicator/nightly" }).waitFor();
    expect(await ask("GET", "/_replicator/nightly")).toMatchObject(chosen);

    for (const way of ["clone", "edit"] as const) {
      await show(`/new?${way}=_replicator%2Fnightly`);
      await page.getByLabel("Skip deletions").waitFor();
      expect(await schedule.inputValue()).toBe(chosen.schedule);
      expect(JSON.parse((await sent.first().textContent()) ?? "")).toMatchObject(chosen);
    }
    await page.getByLabel(/^Runs/).selectOption("immediately");
    await page.getByLabel(/^Maximum attachment size/).fill("");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "_replicator/nightly" }).waitFor();
    const edited = await ask("GET", "/_replicator/nightly");
    expect(edited).toMatchObject({ deleted: "skip", documents: chosen.documents });
    expect(Object.keys(edited)).not.toContain("schedule");
    expect(Object.keys(edited)).not.toContain("attachments");
  });

  test("the form of a replication validates input during typing, shows messages next to the fields, and can be submitted despite warnings", async () => {
    await ask("PUT", "/_replicator/taken", { source: "films", target: "taken" });
    onTestFinished(() => ask("POST", "/_tandem/jobs/_replicator%2Ftaken/_cancel").then(() => {}));
    const { page, show, violations: check } = await visit(browser, node.url, "root");
    const passwords = new Set<unknown>();
    page.on("request", (request) => {
      if (!request.url().includes("/_check")) return;
      const { target } = request.postDataJSON() as { target?: { auth?: Login } };
      if (target?.auth !== undefined) passwords.add(target.auth.basic.password);
    });
    await page.clock.install();
    await show("/new");
    const source = page.getByRole("group", { name: "Source" });
    const target = page.getByRole("group", { name: "Target" });
    await page.getByLabel("Source address").fill("films");
    await source.getByText("Readable, with").waitFor();
    await page.getByLabel("Target address").fill(`${node.url}/nowhere-9`);
    await target.getByText("not found:").waitFor();
    await page.getByLabel("create_target").check();
    await target.getByText("Does not exist yet and will be created.").waitFor();

    // The page never tries an incomplete password, however long the user pauses while typing.
    await page.getByLabel("Target login").selectOption("basic");
    await page.getByLabel("Target user").fill("ann");
    await page.getByLabel("Target password").pressSequentially("wro");
    await page.clock.runFor(60_000);
    await page.getByLabel("Target password").pressSequentially("ng");
    await page.getByLabel("Target address").focus();
    await target.getByText("unauthorized:").waitFor();
    expect([...passwords]).toEqual(["wrong"]);

    await page.getByLabel("Id", { exact: true }).fill("taken");
    await page.getByText("A document with this id already exists.").waitFor();
    await page.getByLabel("Id", { exact: true }).fill("checked");
    await page.getByText("A document with this id already exists.").waitFor({ state: "hidden" });
    await page.getByLabel("Target login").selectOption("none");
    await page.getByLabel("Target address").fill("copy");
    await page.getByText("Another job runs the same replication").waitFor();
    await page.getByRole("link", { name: "_replicator/good" }).waitFor();
    expect(await check()).toEqual([]);
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { name: "_replicator/checked" }).waitFor();
    await ask("POST", "/_tandem/jobs/_replicator%2Fchecked/_cancel");
  });

  test("five fields suffice for a replication: errors are shown next to the fields, and the proposed id is unused", async () => {
    await ask("PUT", "/_replicator/films-to-first", { source: "films", target: "first" });
    onTestFinished(async () => {
      for (const id of ["films-to-first", "films-to-first-2"]) {
        await ask("POST", `/_tandem/jobs/_replicator%2F${id}/_cancel`);
      }
    });
    const { page, show, violations: check } = await visit(browser, node.url, "root");
    await show("/new");
    const id = page.getByLabel("Id", { exact: true });
    await id.waitFor();
    expect(await page.getByRole("textbox").count()).toBe(3);
    expect(await page.getByRole("checkbox").count()).toBe(2);
    const create = page.getByRole("button", { name: "Create", exact: true });
    const hasFocus = (label: string) =>
      page.getByLabel(label).and(page.locator(":focus")).waitFor();
    await create.click();
    const source = page.getByLabel("Source address");
    await page.getByRole("group", { name: "Source" }).getByText("Enter the address").waitFor();
    await hasFocus("Source address");
    expect(await source.getAttribute("aria-invalid")).toBe("true");
    expect(await check()).toEqual([]);

    await source.fill("films");
    await page.getByLabel("Target address").fill("first");
    await page.waitForRequest(/\/_check/);
    // A document already has the id that would be proposed first.
    await page.getByText("/films-to-first-2'").waitFor();
    expect(await id.inputValue()).toBe("films-to-first-2");
    await page.getByLabel("create_target").check();

    // The first error is in a collapsed part of the form.
    await page.getByText("Options", { exact: true }).first().click();
    await page.getByLabel("worker_batch_size").fill("0");
    await page.getByText("Options", { exact: true }).first().click();
    await create.click();
    await hasFocus("worker_batch_size");
    await page.getByLabel("worker_batch_size").fill("");

    // The node's refusal names the invalid field.
    await source.fill("http://films.invalid/x");
    await page.route("**/_replicator/*", (route) =>
      route.fulfill({
        status: 403,
        json: { error: "forbidden", reason: "`source` must be another" },
      }),
    );
    await create.click();
    await page.getByRole("group", { name: "Source" }).getByText("must be another").waitFor();
    await hasFocus("Source address");
    await page.unroute("**/_replicator/*");
    await source.fill("films");
    await id.fill("films-to-first");
    await create.click();
    await page.getByRole("alert").waitFor();
    await hasFocus("Id");
    await id.fill("");
    expect(await id.inputValue()).toBe("films-to-first-2");
    await create.click();
    await page.getByRole("heading", { name: "_replicator/films-to-first-2" }).waitFor();
  });

  test("the page of a job shows the reason that a user entered for a decision", async () => {
    onTestFinished(() => ask("POST", "/_tandem/jobs/_replicator%2Fgood/_resume").then(() => {}));
    const { page, show } = await visit(browser, node.url, "root");
    await show("/jobs/_replicator%2Fgood");
    const places = () =>
      page.evaluate(`[...document.querySelectorAll(".commands > *")].map((button) => {
        const { x, y } = button.getBoundingClientRect();
        return [button.textContent, x, y];
      })`);
    await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
    const before = await places();
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason (kept in the log)").fill("<b>The disk is full</b>");
    await dialog.getByRole("button", { name: /^Pause \d/ }).click();
    await page.getByText("by root: <b>The disk is full</b>").first().waitFor();
    expect(await places()).toEqual(before);
    expect(await page.getByRole("button", { name: "Pause", exact: true }).isDisabled()).toBe(true);
    await page.getByRole("img", { name: /^Lag seconds/ }).waitFor();
  });

  test("every control can be reached by keyboard, in visual order, and does what its label says", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    const missed: string[] = [];
    for (const [view, landmark] of [
      ["/", "The last hour"],
      ["/jobs", "_replicator/billing-0"],
      ["/jobs/_replicator%2Fbilling-0", "Document as submitted"],
      ["/new", "Request preview"],
      ["/nodes", "Last report"],
      ["/servers", "_replicator"],
      ["/events", "Why"],
      ["/settings", "checkpoint_interval"],
    ] as const) {
      await show(view);
      await page.getByText(landmark).first().waitFor();
      // Pauses the view, so that its content does not change.
      await page.getByRole("button", { name: "Pause view" }).press("Enter");
      await page.getByRole("button", { name: "Resume view" }).waitFor();
      const skip = page.getByRole("button", { name: "Skip to content" });
      await skip.focus();
      await page.evaluate(STEP);
      for (let left = 1; left > 0; ) {
        await page.keyboard.press("Tab");
        const [step, following, control] = (await page.evaluate(STEP)) as [number, number, string];
        if (step !== 1) missed.push(`${view}: ${step} controls on, to ${control}`);
        left = step === 1 ? following : 0;
      }
      await page.getByRole("button", { name: "Resume view" }).press("Space");
      await page.getByRole("button", { name: "Pause view" }).waitFor();
    }
    expect(missed).toEqual([]);

    await show("/jobs/_replicator%2Fbilling-0");
    const cancel = page.getByRole("button", { name: "Delete" });
    await cancel.press("Enter");
    await page.getByRole("dialog").waitFor();
    const insides = new Set<string>();
    for (let count = 0; count < 6; count++) {
      await page.keyboard.press("Tab");
      insides.add(
        String(
          await page.evaluate(
            `document.activeElement.closest("dialog") !== null || document.activeElement === document.body`,
          ),
        ),
      );
    }
    expect([...insides]).toEqual(["true"]);
    const focused = () => page.evaluate("document.activeElement.textContent");
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await focused()).toBe("Delete");
    await page.keyboard.press("Space");
    await page.getByRole("dialog").getByRole("button", { name: "Keep it" }).press("Enter");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await focused()).toBe("Delete");
    await page.getByRole("button", { name: "Skip to content" }).press("Enter");
    expect(await page.evaluate("document.activeElement.id")).toBe("main");
  });

  test("scrollable areas can be reached by keyboard, even if fonts are large or an area contains no control", async () => {
    const long = "w".repeat(4_096);
    await replicate(long, { source: "films", target: "nowhere" });
    onTestFinished(() => ask("POST", `/_tandem/jobs/_replicator%2F${long}/_cancel`).then(() => {}));
    const seen: [name: string, isReached: boolean][] = [];
    const { page, show } = await visit(browser, node.url, "rita");
    await page.evaluate('document.documentElement.style.fontSize = "40px"');
    for (const [view, landmark] of [
      ["/jobs", "_replicator/billing-0"],
      ["/nodes", "Last report"],
      ["/servers", "_replicator"],
      ["/events", "Why"],
      ["/settings?all=true", "checkpoint_interval"],
    ] as const) {
      await show(view);
      await page.getByText(landmark).first().waitFor();
      seen.push(...((await page.evaluate(SCROLLING)) as typeof seen));
    }
    const { page: admins, show: showAdmin } = await visit(browser, node.url, "root");
    await showAdmin(`/jobs/_replicator%2F${long}`);
    await admins.getByRole("button", { name: "Pause", exact: true }).click();
    await admins.getByRole("heading", { name: "Pause 1 job?" }).waitFor();
    seen.push(...((await admins.evaluate(SCROLLING)) as typeof seen));
    const names = new Set(seen.map(([name]) => name));
    for (const name of [
      "Jobs",
      "Nodes",
      "Servers",
      "Groups",
      "Events",
      "Settings",
      "Affected jobs",
    ]) {
      expect(names).toContain(name);
    }
    expect(seen.filter(([, isReached]) => !isReached)).toEqual([]);
  });

  test("every view has its own URL, which changes when the filter changes", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/jobs?state=running&target=copy");
    await page.getByRole("link", { name: "_replicator/good" }).waitFor();
    await page.getByLabel("Paused").selectOption("true");
    await page.waitForURL(/#\/jobs\?state=running&target=copy&paused=true$/);
    await page.getByText("No jobs match.").waitFor();
    await page.goBack();
    await page.getByRole("link", { name: "_replicator/good" }).waitFor();
  });

  test("the page of nodes shows the state of each node", async () => {
    const own = await processes.openHere(GUARDED);
    const { page, show } = await visit(browser, own.url, "root");
    await show("/nodes");
    await page.getByRole("row", { name: /running 0 \d+/ }).waitFor();
    await page.getByRole("button", { name: /^Drain process/ }).click();
    await page.getByRole("row", { name: /drained 0/ }).waitFor();
    await page.getByRole("button", { name: /^Undrain process/ }).click();
    await page.getByRole("row", { name: /running 0 \d+/ }).waitFor();
    await page.getByRole("button", { name: /^Drain process/ }).click();
    await page.getByRole("row", { name: /drained 0/ }).waitFor();
    await show("/");
    await page.getByRole("link", { name: /^Nodes\s*0\s*1 draining/ }).waitFor();
  });

  test("an expired session opens the login form, and a login returns to the previous page", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/nodes");
    await page.getByText("Last report").waitFor();
    await page.context().clearCookies();
    await page.getByLabel("User").fill("root");
    await page.getByLabel("Password").fill("secret");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByText("Last report").waitFor();
  });

  test("pages are not wider than the window, from 360 to 2,560 pixels", async () => {
    const wide: string[] = [];
    for (const width of [360, 768, 1280, 2560]) {
      const { page, show } = await visit(browser, node.url, "root", {
        viewport: { width, height: 900 },
      });
      for (const [view, landmark] of [
        ["/", "The last hour"],
        ["/jobs", "_replicator/billing-0"],
        ["/jobs/_replicator%2Fbilling-0", "Document as submitted"],
        ["/new", "Request preview"],
        ["/nodes", "Last report"],
        ["/servers", "Longest wait"],
        ["/events", "Why"],
        ["/settings?all=true", "checkpoint_interval"],
      ] as const) {
        await show(view);
        await page.getByText(landmark).first().waitFor({ state: "attached" });
        const over = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
        if (Number(over) > 0) wide.push(`${view} at ${width} by ${over}`);
      }
    }
    expect(wide).toEqual([]);
  });
});

test.runIf(CHROMIUM === undefined)(
  "browser tests are skipped without Chromium, but fail if CI is set",
  () => expect(process.env.CI ?? "").toBe(""),
);
