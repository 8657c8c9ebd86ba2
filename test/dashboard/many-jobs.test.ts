/**
 * The list of jobs with 100,000 entries. The node is real, but the test generates the rows of the
 * list.
 */
import type { Browser, CDPSession, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { ask, CHROMIUM, GUARDED, openBrowser, visit } from "./browser.fixture.ts";

const TOTAL = 100_000;
/** Number of rows that match the filter. */
const FAILING_TOTAL = 3;
/** Row index of the only real job, which is the only job with events. */
const REAL_INDEX = 3;
const HEAP_BYTES_MAX = 45_000_000;

let processes: Processes;
let node: TandemNode;
let browser: Browser;
/** The node's real job. All other rows are copies of it. */
let template: Readonly<Record<string, unknown>>;

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  processes = new Processes();
  [node, browser] = await Promise.all([processes.openHere(GUARDED), openBrowser()]);
  await ask(node, "PUT", "/films");
  const good = { source: "films", target: "copy", create_target: true, continuous: true };
  await ask(node, "PUT", "/_replicator/good", good);
  template = await node.onceAnswered(
    () => ask(node, "GET", "/_tandem/jobs/_replicator%2Fgood"),
    ({ state }) => state === "running",
  );
});

afterAll(async () => {
  await browser?.close();
  await processes?.close();
});

function row(index: number): object {
  if (index === REAL_INDEX) return template;
  return {
    ...template,
    id: `${index}`.padStart(40, "0"),
    doc_id: `job-${index}`,
    name: `_replicator/job-${index}`,
  };
}

interface Crowd {
  /** The requested bookmarks. `null` stands for the first page. */
  readonly bookmarks: (string | null)[];
}

/** Answers requests for lists of jobs. The bookmark selects the page. */
async function crowd(page: Page): Promise<Crowd> {
  const bookmarks: (string | null)[] = [];
  await page.route("**/_tandem/jobs?**", (route) => {
    const { searchParams } = new URL(route.request().url());
    const total = searchParams.get("failing") === "true" ? FAILING_TOTAL : TOTAL;
    const start = Number(searchParams.get("bookmark") ?? 0);
    const end = Math.min(total, start + Number(searchParams.get("limit")));
    bookmarks.push(searchParams.get("bookmark"));
    const jobs = Array.from({ length: end - start }, (_, index) => row(start + index));
    return route.fulfill({
      json: { total_rows: total, bookmark: end < total ? String(end) : null, jobs },
    });
  });
  return { bookmarks };
}

async function debug(page: Page): Promise<CDPSession> {
  return page.context().newCDPSession(page);
}

/** Heap size of the page after a garbage collection. */
async function heapBytes(page: Page): Promise<number> {
  const session = await debug(page);
  await session.send("HeapProfiler.collectGarbage");
  return (await session.send("Runtime.getHeapUsage")).usedSize;
}

describe.skipIf(CHROMIUM === undefined)("of 100,000 jobs", () => {
  test("only the visible jobs are rendered, and further pages are requested by bookmark", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    const { bookmarks } = await crowd(page);
    await show("/jobs");
    await page.getByText("100,000 jobs").waitFor();
    await page.getByRole("link", { name: "_replicator/good", exact: true }).waitFor();
    expect(await page.locator("tbody tr").count()).toBeLessThan(80);
    await page.evaluate('document.querySelector(".table-scroller").scrollTo(0, 195 * 46)');
    await page.getByRole("link", { name: "_replicator/job-205", exact: true }).waitFor();
    expect(bookmarks.filter((bookmark) => bookmark === "200")).toHaveLength(1);

    const checkbox = page.getByLabel("Select _replicator/job-200");
    await checkbox.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Space");
    expect(await page.getByLabel("Select _replicator/job-201").isChecked()).toBe(true);
    await page.getByRole("button", { name: "Select all matching jobs" }).click();
    await page.getByText("100,000 selected").waitFor();
  });

  test("scrolling reaches the last job, a change of the first job is rendered, and a filter finds three jobs", async () => {
    const { page, show, faults } = await visit(browser, node.url, "root");
    const { bookmarks } = await crowd(page);
    let feedCount = 0;
    page.on("request", (request) => {
      if (request.url().includes("/_tandem/events")) feedCount++;
    });
    await show("/jobs");
    const last = page.getByRole("link", { name: `_replicator/job-${TOTAL - 1}`, exact: true });
    await page.getByText("100,000 jobs").waitFor();
    const scroll = page.evaluate(`new Promise((resolve) => {
      const scroller = document.querySelector(".table-scroller");
      const step = () => {
        scroller.scrollTop = scroller.scrollHeight;
        const isEnd = scroller.querySelector("[aria-rowindex='${TOTAL + 1}']") !== null;
        if (isEnd) resolve(); else requestAnimationFrame(step);
      };
      step();
    })`);
    await scroll;
    await last.waitFor();
    // Only after an interruption of the feed of events, the list is read again from its first page.
    const firstCount = bookmarks.filter((bookmark) => bookmark === null).length;
    expect(firstCount).toBeLessThanOrEqual(feedCount);
    const pages = bookmarks.slice(bookmarks.lastIndexOf(null));
    expect(new Set(pages).size).toBe(pages.length);
    expect(pages.length).toBeGreaterThan(100);
    expect(await page.locator("tbody tr").count()).toBeLessThan(80);
    expect(await heapBytes(page)).toBeLessThan(HEAP_BYTES_MAX);

    await page.evaluate('document.querySelector(".table-scroller").scrollTo(0, 0)');
    const good = page.getByRole("row", { name: /_replicator\/good/ });
    // The job might already be parked, because it is idle.
    await good.getByText(/^(running|parked)$/).waitFor();
    await ask(node, "POST", "/_tandem/jobs/_replicator%2Fgood/_pause");
    await good.getByText("paused", { exact: true }).waitFor();

    await page.getByLabel(/^Failing/).selectOption("true");
    await page.getByText("3 jobs", { exact: true }).waitFor();
    expect(await page.locator("tbody tr").count()).toBe(FAILING_TOTAL);
    expect(faults).toEqual([]);
  });

  test("rows do not overlap when the window becomes narrow", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await crowd(page);
    await show("/jobs");
    const rows = page.locator("tbody tr");
    await rows.nth(1).waitFor();
    await page.setViewportSize({ width: 400, height: 800 });
    // Waits until the page has noticed the narrow window, and has increased the height of its rows.
    await page.waitForFunction(
      'document.querySelector("tbody tr").getBoundingClientRect().height > 60',
    );
    const [first, second] = [await rows.nth(0).boundingBox(), await rows.nth(1).boundingBox()];
    expect(second?.y).toBeGreaterThanOrEqual((first?.y ?? 0) + (first?.height ?? 0));
  });

  test("the first rows are visible after less than one second of CPU time and one request", async () => {
    const { page } = await visit(browser, node.url, "root");
    const { bookmarks } = await crowd(page);
    await page.goto("about:blank");
    const session = await debug(page);
    // CPU time of the page's thread. It does not depend on other load.
    await session.send("Performance.enable", { timeDomain: "threadTicks" });
    const workSec = async () => {
      const { metrics } = await session.send("Performance.getMetrics");
      return metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN;
    };
    const before = await workSec();
    await page.goto(`${node.url}/_dashboard/#/jobs`);
    await page.getByRole("link", { name: "_replicator/job-9", exact: true }).waitFor();
    expect((await workSec()) - before).toBeLessThan(1);
    expect(bookmarks[0]).toBe(null);
    expect(bookmarks.filter((bookmark) => bookmark === null)).toHaveLength(1);
  });
});
