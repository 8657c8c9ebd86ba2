/**
 * Operations in the dashboard that do not control jobs: settings, budgets, start sequences, and the
 * log of decisions.
 */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { ask as askNode, CHROMIUM, GUARDED, openBrowser, visit } from "./browser.fixture.ts";

let processes: Processes;
let node: TandemNode;
let browser: Browser;

function ask(method: string, path: string, body?: unknown) {
  return askNode(node, method, path, body);
}

const GOOD = "/_tandem/jobs/_replicator%2Fgood";

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  beforeAll(async () => {
    processes = new Processes();
    const ini = "[replicator]\nmax_jobs = 77\n";
    [node, browser] = await Promise.all([processes.openHere({ ...GUARDED, ini }), openBrowser()]);
    await ask("PUT", "/films");
    await ask("PUT", "/films/moon", {});
    const good = { source: "films", target: "copy", create_target: true, continuous: true };
    await ask("PUT", "/_replicator/good", good);
  });

  afterAll(async () => {
    await browser?.close();
    await processes?.close();
  });

  test("a setting can be changed, restored by undo, and reset, and an invalid value shows the node's reason", async () => {
    const { page, show, violations } = await visit(browser, node.url, "root");
    const key = "[replicator] checkpoint_interval";
    const value = () => ask("GET", "/_node/_local/_config/replicator/checkpoint_interval");
    await show("/settings?all=true&words=checkpoint_interval");
    const open = page.getByRole("button", { name: `Edit ${key}` });
    const dialog = page.getByRole("dialog");
    await open.click();
    await dialog.getByText("Default: 30000 ms").waitFor();
    expect(await dialog.getByRole("button", { name: "Reset to the default" }).isDisabled()).toBe(
      true,
    );
    await dialog.getByLabel("Value").fill("often");
    await dialog.getByRole("button", { name: "Set", exact: true }).click();
    await dialog.getByText("checkpoint_interval = often: expected").waitFor();
    expect(await violations()).toEqual([]);
    await dialog.getByLabel("Value").fill("4321");
    await page.keyboard.press("Enter");
    await page.getByText(`${key} is set to 4321 ms`).waitFor();
    await page.getByRole("row", { name: /checkpoint_interval 4321 ms 30000 ms/ }).waitFor();
    expect(await value()).toBe("4321");
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText(`${key} has its default value: 30000 ms`).waitFor();

    await open.click();
    await dialog.getByLabel("Value").fill("4322");
    await dialog.getByRole("button", { name: "Set", exact: true }).click();
    await page.getByRole("row", { name: /checkpoint_interval 4322 ms 30000 ms/ }).waitFor();
    await open.click();
    await dialog.getByRole("button", { name: "Reset to the default" }).click();
    await page.getByText(`${key} has its default value: 30000 ms`).waitFor();
    await page.getByRole("row", { name: /checkpoint_interval 30000 ms 30000 ms/ }).waitFor();
    expect(await value()).toBe("30000");
  });

  test("resetting a setting restores the value from another configuration file, and the page shows this value", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/settings");
    await page.getByRole("button", { name: "Edit [replicator] max_jobs" }).click();
    const dialog = page.getByRole("dialog");
    expect(await dialog.getByLabel("Value").inputValue()).toBe("77");
    await dialog.getByRole("button", { name: "Reset to the default" }).click();
    await page.getByText("[replicator] max_jobs is set to 77 jobs").waitFor();
  });

  test("an edit that does not change a secret neither shows nor stores the secret", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/settings");
    await page.getByRole("button", { name: "Edit [admins] root" }).click();
    const field = page.getByRole("dialog").getByLabel("Value");
    expect(await field.inputValue()).toBe("");
    expect(await field.getAttribute("type")).toBe("password");
    await page.getByRole("dialog").getByRole("button", { name: "Set", exact: true }).click();
    await page.getByRole("dialog").getByText("a password").waitFor();
  });

  test("a server's budget is added, shown, edited and removed", async () => {
    const away = { source: "http://couch.invalid/x", target: "films", continuous: true };
    await ask("PUT", "/_replicator/away", away);
    onTestFinished(() => ask("POST", "/_tandem/jobs/_replicator%2Faway/_cancel").then(() => {}));
    const { page, show, violations } = await visit(browser, node.url, "root");
    await show("/servers");
    await page.getByRole("button", { name: "Add a budget for couch.invalid" }).click();
    const dialog = page.getByRole("dialog");
    expect(await dialog.getByLabel("Host").inputValue()).toBe("couch.invalid");
    const read = dialog.getByRole("group", { name: "read" });
    await read.getByLabel("requests/s").fill("50");
    await dialog.getByRole("group", { name: "write" }).getByLabel("MB/s").fill("2.5");
    expect(await violations()).toEqual([]);
    await dialog.getByRole("button", { name: "Set" }).click();
    const row = page.getByRole("row", { name: /^couch\.invalid/ });
    await row.getByText("read 50 requests/s; write 2.5 MB/s").waitFor();
    expect(await ask("GET", "/_tandem/budgets/couch.invalid")).toEqual({
      read: { requests_per_sec: 50 },
      write: { megabytes_per_sec: 2.5 },
    });
    await page.getByRole("button", { name: "Edit the budget of couch.invalid" }).click();
    await read.getByLabel("requests/s").fill("0");
    await dialog.getByRole("button", { name: "Set" }).click();
    await dialog.getByText("expected a number above 0").waitFor();
    await dialog.getByRole("button", { name: "Remove" }).click();
    await page.getByText("Budget of couch.invalid removed").waitFor();
    await page.getByRole("button", { name: "Add a budget for couch.invalid" }).waitFor();
  });

  test("a job gets a start sequence, and the reason for it is shown", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/jobs/_replicator%2Fgood");
    await page.getByRole("button", { name: "Start from…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Update sequence of the source").fill("0");
    await dialog.getByLabel("Reason").fill("once more");
    await dialog.getByRole("button", { name: "Start job" }).click();
    await page.getByText("Job restarted from 0").waitFor();
    await page.getByText("by root: once more").first().waitFor();
    const { control } = await ask("GET", GOOD);
    expect(control).toMatchObject([{ why: "once more" }]);
  });

  test("the event log loads pages of older events back to the first event, and adds new events as they occur", async () => {
    // Pauses and resumes the job until the log has more than one page. The number of events per
    // pause depends on the progress of the job.
    const past = (query: string) =>
      ask("GET", `/_tandem/events/_past?limit=100${query}`) as Promise<{
        before: string | null;
        events: unknown[];
      }>;
    const olderCount = async () => {
      const { before } = await past("");
      return before === null ? 0 : (await past(`&before=${before}`)).events.length;
    };
    while ((await olderCount()) < 50) {
      await ask("POST", `${GOOD}/_pause`, { why: "one more" });
      await ask("POST", `${GOOD}/_resume`);
    }
    const { page, show, faults } = await visit(browser, node.url, "root");
    await show("/events");
    const rows = page.locator("tbody tr");
    await page.getByRole("button", { name: "Older events" }).click();
    await page.getByText("Searched all stored events").waitFor();
    await page.getByText("Events are kept for 7 d").waitFor();
    const count = await rows.count();
    expect(count).toBeGreaterThan(100);
    const added = rows.getByText("added", { exact: true });
    await added.first().waitFor();
    await ask("POST", `${GOOD}/_pause`, { why: "the newest event" });
    await page.getByText("the newest event").first().waitFor();
    expect(await rows.count()).toBeGreaterThan(count);
    await show("/events?decisions=true");
    await page.getByText("the newest event").first().waitFor();
    expect(await added.count()).toBe(0);
    await show("/events?kind=added&rule=none");
    await page.getByText("Searched all stored events").waitFor();
    expect(await rows.count()).toBe(0);
    await page.getByLabel("Rule").fill("");
    await page.getByLabel("Rule").press("Enter");
    await added.first().waitFor();
    expect(await rows.getByText("paused", { exact: true }).count()).toBe(0);
    expect(faults).toEqual([]);
  });
});
