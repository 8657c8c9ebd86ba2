/**
 * Elements of the dashboard stay in place while the pointer is on them. The failing groups and the
 * page's clock are mocked.
 */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FailingGroup } from "../../src/contract/index.ts";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { ask, CHROMIUM, GUARDED, openBrowser, visit } from "./browser.fixture.ts";

/** Interval that is longer than the refresh interval of a page. */
const ROUND_MS = 12_000;
/**
 * Time by which the page's clock is advanced when it is paused. It exceeds the duration of the
 * test.
 */
const LATER_MS = 600_000;
/**
 * Interval between movements of the pointer. It is shorter than the time after which the pointer
 * counts as resting.
 */
const STEP_MS = 2_000;

let processes: Processes;
let node: TandemProcess;
let browser: Browser;

function groupAt(host: string, count: number): FailingGroup {
  const since = "2026-01-01T00:00:00Z";
  const reported = { error: "no_route", reason: "connection refused", example: "_replicator/a" };
  return {
    tag: null,
    class: "unreachable",
    side: "source",
    host,
    count,
    since,
    next_try: null,
    login: null,
    login_gate: null,
    ...reported,
  };
}

/** Mocks the failing groups. Returns a function that sets other groups. */
async function mockFailing(page: Page, first: readonly FailingGroup[]) {
  let groups = first;
  await page.route("**/_tandem/failing", (route) => {
    const jobs = groups.reduce((sum, { count }) => sum + count, 0);
    return route.fulfill({ json: { total_rows: groups.length, jobs, groups } });
  });
  return {
    set: (now: readonly FailingGroup[]) => {
      groups = now;
    },
  };
}

interface Place {
  readonly x: number;
  readonly y: number;
}

/**
 * Moves the pointer to a place. Call this function before you change the mocked groups: a request
 * that was sent before the clock was paused might still be answered with the new groups.
 */
function handTo(page: Page, { x, y }: Place): Promise<void> {
  return page.mouse.move(x + 9, y + 9);
}

/** Keeps the pointer at a place, with small movements, during two refreshes of the page. */
async function handAt(page: Page, { x, y }: Place) {
  for (let step = 0; step < (2 * ROUND_MS) / STEP_MS; step++) {
    await page.mouse.move(x + 10 + step, y + 10);
    await page.clock.runFor(STEP_MS);
  }
}

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  beforeAll(async () => {
    processes = new Processes();
    [node, browser] = await Promise.all([processes.open(GUARDED), openBrowser()]);
  });

  afterAll(async () => {
    await browser?.close();
    await processes?.close();
  });

  test("groups keep their places and show current figures while the pointer is on their buttons", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    const failing = await mockFailing(page, [groupAt("a", 5), groupAt("b", 3), groupAt("c", 2)]);
    await page.clock.install();
    await show("/nodes");
    await page.getByText("Last report").waitFor();
    await show("/");
    const rows = page.locator(".group");
    const hosts = () => page.locator(".group-host").allTextContents();
    await page.getByText("10 jobs in 3 groups").waitFor();
    // Pauses the page's clock. Afterwards, only the test advances the clock.
    await page.clock.pauseAt(Date.now() + LATER_MS);
    const box = await rows.nth(1).boundingBox();
    if (box === null) throw new Error("The second group is not drawn");
    await handTo(page, box);
    failing.set([groupAt("new", 40), groupAt("c", 9), groupAt("a", 1)]);
    await handAt(page, box);
    await page.getByText("50 jobs in 3 groups").waitFor();
    expect(await hosts()).toEqual(["a (source)", "b (source)", "c (source)", "new (source)"]);
    expect(await page.locator(".group-count").allTextContents()).toEqual(["1", "3", "9", "40"]);
    await page.clock.runFor(ROUND_MS);
    await rows.nth(3).waitFor({ state: "detached" });
    expect(await hosts()).toEqual(["new (source)", "c (source)", "a (source)"]);
  });

  test("failed documents keep their places while the pointer is on them, and are sorted again afterwards", async () => {
    const validate = `function (doc) { if (doc.odd) throw { forbidden: "an odd one" }; }`;
    await ask(node, "PUT", "/mixed");
    await ask(node, "PUT", "/mixed/a", { odd: true });
    await ask(node, "PUT", "/strict");
    await ask(node, "PUT", "/strict/_design/v", { validate_doc_update: validate });
    await ask(node, "PUT", "/_replicator/strict", { source: "mixed", target: "strict" });
    const job = await node.onceAnswered(
      () => ask(node, "GET", "/_tandem/jobs/_replicator%2Fstrict"),
      ({ left_behind: count }) => count === 1,
    );
    const { page, show } = await visit(browser, node.url, "root");
    let isFailing = false;
    const { class: word, side, host, since, error, reason } = groupAt("a", 1);
    const place = { phase: null, side, host, time: since, tries: 1, next_try: null };
    const failure = { class: word, error, reason, ...place };
    await page.route(/\/_tandem\/jobs\/_replicator%2Fstrict$/, (route) =>
      route.fulfill({ json: { ...job, last_failure: isFailing ? failure : null } }),
    );
    await page.clock.install();
    await show("/jobs/_replicator%2Fstrict");
    const button = page.getByRole("button", { name: "Retry all documents" });
    await button.waitFor();
    await page.getByRole("img", { name: /^Lag seconds/ }).waitFor();
    await page.clock.pauseAt(Date.now() + LATER_MS);
    const before = await button.boundingBox();
    if (before === null) throw new Error("The button is not drawn");
    await handTo(page, before);
    isFailing = true;
    const isRead = page.waitForResponse(/\/_tandem\/jobs\/_replicator%2Fstrict$/);
    await handAt(page, before);
    await isRead;
    expect(await button.boundingBox()).toEqual(before);
    await page.clock.runFor(ROUND_MS);
    await page.getByText("connection refused").waitFor();
    expect(await button.boundingBox()).not.toEqual(before);
  });

  test("lines that appear and disappear do not shift the rest of the page", async () => {
    const own = await processes.open(GUARDED);
    const { page, show } = await visit(browser, own.url, "root");
    await show("/jobs");
    await page.getByText("No jobs.", { exact: true }).waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
    const place = () => page.locator("main").boundingBox();
    const before = await place();
    const button = page.getByRole("button", { name: /^Refresh/ });
    expect(await button.count()).toBe(0);
    const filters = page.getByRole("form", { name: "Filters" });
    const filtersBefore = await filters.boundingBox();
    await ask(own, "PUT", "/films");
    await ask(own, "PUT", "/_replicator/one", { source: "films", target: "films-2" });
    await button.waitFor();
    expect(await filters.boundingBox()).toEqual(filtersBefore);
    // Creating a job causes several changes.
    await page.getByText(/^Refresh \([1-9] changes?\)$/).waitFor();
    await button.click();
    await page.getByRole("link", { name: "_replicator/one", exact: true }).waitFor();
    await page.getByText("0 changes: read again").waitFor({ state: "hidden" });
    expect(await button.count()).toBe(0);
    await own.kill();
    await page.getByText("Connection to the server lost.").waitFor();
    expect(await place()).toEqual(before);
  });
});
