/** Commands for selected jobs in a browser: which jobs are affected, and undo. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { ask as askNode, CHROMIUM, GUARDED, openBrowser, visit } from "./browser.fixture.ts";

const JOBS = { films: ["f1", "f2", "f3"], books: ["b1", "b2"] };

let processes: Processes;
let node: TandemNode;
let browser: Browser;

const ask = (method: string, path: string, body?: unknown) => askNode(node, method, path, body);

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  processes = new Processes();
  [node, browser] = await Promise.all([processes.openHere(GUARDED), openBrowser()]);
  for (const [source, ids] of Object.entries(JOBS)) {
    await ask("PUT", `/${source}`);
    for (const id of ids) {
      const document = { source, target: id, create_target: true, continuous: true };
      await ask("PUT", `/_replicator/${id}`, document);
    }
  }
  await node.onceAnswered(
    () => ask("GET", "/_tandem/jobs?state=running&limit=0"),
    ({ total_rows: total }) => total === 5,
  );
});

beforeEach(async () => {
  if (CHROMIUM !== undefined) await ask("POST", "/_tandem/jobs/_resume?all=true");
});

afterAll(async () => {
  await browser?.close();
  await processes?.close();
});

async function paused(): Promise<readonly string[]> {
  const { jobs } = await ask("GET", "/_tandem/jobs?paused=true");
  return (jobs as { doc_id: string }[]).map(({ doc_id: id }) => id).sort();
}

const tick = (page: Page, id: string) => page.getByLabel(`Select _replicator/${id}`).check();

/** Runs a command for the selected jobs, and resolves with the heading of its dialog. */
async function command(page: Page, verb: string): Promise<string | null> {
  const button = { name: verb, exact: true };
  await page.getByRole("button", button).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Affected jobs").or(dialog.getByRole("list")).first().waitFor();
  const heading = await dialog.getByRole("heading").textContent();
  await dialog.getByRole("button", { name: new RegExp(`^${verb} \\d`) }).click();
  return heading;
}

describe.skipIf(CHROMIUM === undefined)("the selection of jobs", () => {
  test("a command for all jobs that match the filter affects exactly these jobs", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/jobs?source=films");
    await page.getByText("3 jobs", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Select all matching jobs" }).click();
    await page.getByText("3 selected (all matching jobs)").waitFor();
    expect(await command(page, "Pause")).toBe("Pause 3 jobs?");
    await page.getByText("Paused: 3 of 3 jobs").waitFor();
    expect(await paused()).toEqual(JOBS.films);
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("Undone. Resumed: 3 of 3 jobs").waitFor();
    expect(await paused()).toEqual([]);
  });

  test("a command for the checked jobs affects exactly these jobs", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/jobs");
    await tick(page, "f2");
    await tick(page, "b1");
    await page.getByText("2 selected").waitFor();
    expect(await command(page, "Pause")).toBe("Pause 2 jobs?");
    await page.getByText("Paused: 2 of 2 jobs").waitFor();
    expect(await paused()).toEqual(["b1", "f2"]);
    // The command clears the selection.
    await page.getByText("0 selected").waitFor();
  });

  test.each(["Select all matching jobs", "f1"])(
    "a change of the filter clears the selection made with %s",
    async (selected) => {
      const { page, show } = await visit(browser, node.url, "root");
      await show("/jobs?source=films");
      await page.getByText("3 jobs", { exact: true }).waitFor();
      const all = page.getByRole("button", { name: selected });
      await (selected === "f1" ? tick(page, selected) : all.click());
      await page.getByText(selected === "f1" ? "1 selected" : "3 selected").waitFor();
      await show("/jobs?source=books");
      await page.getByText("2 jobs", { exact: true }).waitFor();
      await page.getByText("0 selected").waitFor();
      expect(await page.getByRole("button", { name: "Pause", exact: true }).isDisabled()).toBe(
        true,
      );
      await show("/jobs?source=films");
      await page.getByText("3 jobs", { exact: true }).waitFor();
      await page.getByText("0 selected").waitFor();
      expect(await page.getByLabel("Select _replicator/f1").isChecked()).toBe(false);
    },
  );

  test.each([
    { verb: "Pause", done: "Paused", before: ["f1"], during: ["f1", "f2"], undone: "Resumed" },
    { verb: "Resume", done: "Resumed", before: ["f2"], during: [], undone: "Paused" },
  ])(
    "undoing a $verb command does not change jobs that the command did not change",
    async (row) => {
      for (const id of row.before) await ask("POST", `/_tandem/jobs/_replicator%2F${id}/_pause`);
      const { page, show } = await visit(browser, node.url, "root");
      await show("/jobs");
      await tick(page, "f1");
      await tick(page, "f2");
      await command(page, row.verb);
      await page.getByText(`${row.done}: 1 of 2 jobs`).waitFor();
      expect(await paused()).toEqual(row.during);
      await page.getByRole("button", { name: "Undo" }).click();
      await page.getByText(`Undone. ${row.undone}: 1 of 1 job`).waitFor();
      expect(await paused()).toEqual(row.before);
    },
  );
});
