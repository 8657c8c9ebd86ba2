/** The page that shows the databases between which jobs copy, and jobs that wait for other jobs. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { ask, CHROMIUM, GUARDED, openBrowser, visit } from "./browser.fixture.ts";

const LONG = "copy-of-the-database-of-a-team-in-a-department-with-a-very-long-name";

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  let processes: Processes;
  let node: TandemProcess;
  let browser: Browser;

  beforeAll(async () => {
    processes = new Processes();
    [node, browser] = await Promise.all([processes.open(GUARDED), openBrowser()]);
    await ask(node, "PUT", "/films");
    const jobs = { there: ["films", "copy"], back: ["copy", "films"], far: ["films", LONG] };
    for (const [id, [source, target]] of Object.entries(jobs)) {
      const pair = { source, target, create_target: true, continuous: true };
      await ask(node, "PUT", `/_replicator/${id}`, pair);
    }
    for (const id of ["one", "two"]) {
      const url = `http://127.0.0.1:1/${LONG}`;
      await ask(node, "PUT", `/_replicator/${id}`, {
        source: url,
        target: "films",
        continuous: true,
      });
    }
    await ask(node, "PUT", "/_replicator/next", { source: "films", target: "x", after: "never" });
    await node.onceAnswered(
      () => ask(node, "GET", "/_tandem/jobs?failing=true&limit=0"),
      ({ total_rows: total }) => total === 2,
    );
  });

  afterAll(async () => {
    await browser?.close();
    await processes?.close();
  });

  test.each([
    [390, "light"],
    [390, "dark"],
    [768, "light"],
    [1280, "light"],
    [1280, "dark"],
  ] as const)("at %d pixels, %s, the page shows edges and loops", async (width, colorScheme) => {
    const viewport = { width, height: 900 };
    const { page, show, violations } = await visit(browser, node.url, "root", {
      viewport,
      colorScheme,
    });
    await show("/topology");
    const table = page.getByRole("region", { name: "Copies" });
    await table.waitFor();
    expect(await page.getByRole("listitem").allTextContents()).toEqual(["copy ⇄ films"]);
    const row = table.getByRole("row").filter({ hasText: "127.0.0.1:1" });
    expect(await row.textContent()).toContain("failing");
    expect(await row.getByRole("link", { name: "2 jobs" }).getAttribute("href")).toBe(
      `#/jobs?source=127.0.0.1%3A1&source_database=${LONG}&target=films`,
    );
    expect(await violations()).toEqual([]);
    const overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    expect(await page.evaluate(overflow)).toBe(0);
  });

  test("the URL contains the filters, and each edge links to its jobs", async () => {
    const { page, show, faults } = await visit(browser, node.url, "root");
    await show("/servers");
    await page.getByRole("link", { name: "Topology" }).click();
    await page.getByLabel("Target").fill("films");
    await page.getByLabel("Target").press("Enter");
    await page.waitForURL(/#\/topology\?target=films$/);
    await page.getByText("3 databases, 3 jobs").waitFor();
    await page.getByRole("link", { name: "2 jobs" }).click();
    await page.getByRole("link", { name: "_replicator/one", exact: true }).waitFor();
    await show("/topology?name=none");
    await page.getByText("No jobs match.").waitFor();
    expect(faults).toEqual([]);
  });

  test("a waiting job shows the name of the job for which it waits, and the reason", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show(`/jobs/${encodeURIComponent("_replicator/next")}`);
    await page.getByText("no_job: The job waits for _replicator/never").waitFor();
    const fact = page.locator(".fact").filter({ hasText: "Starts after" });
    expect(await fact.textContent()).toContain("_replicator/never");
  });
});
