/** Unmodified Fauxton on a real node: its pages of replications and of active tasks. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findFauxton } from "../support/fauxton.ts";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { CHROMIUM, GUARDED, openBrowser, openPage } from "./browser.fixture.ts";

const FAUXTON = CHROMIUM === undefined ? undefined : findFauxton();
const AUTHORIZATION = `Basic ${Buffer.from("root:secret").toString("base64")}`;

let processes: Processes;
let node: TandemNode;
let browser: Browser;

async function ask(method: string, path: string, body?: unknown) {
  const response = await fetch(`${node.url}${path}`, {
    method,
    headers: { authorization: AUTHORIZATION, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return (await response.json()) as Record<string, unknown>;
}

/** Opens Fauxton in a browser with a logged-in user. */
async function openFauxton(): Promise<{ page: Page; show: (view: string) => Promise<void> }> {
  const { page } = await openPage(browser);
  const show = async (view: string) => {
    await page.goto(`${node.url}/_utils/#/${view}`);
  };
  await show("login");
  await page.locator("#username").fill("root");
  await page.locator("#password").fill("secret");
  await page.keyboard.press("Enter");
  await page.getByText("You have been logged in.").first().waitFor();
  return { page, show };
}

describe.skipIf(FAUXTON === undefined)("Fauxton", () => {
  beforeAll(async () => {
    processes = new Processes();
    const environment = { ...GUARDED.environment, TANDEM_UTILS_DIR: FAUXTON as string };
    [node, browser] = await Promise.all([
      processes.openHere({ ...GUARDED, environment }),
      openBrowser(),
    ]);
    await ask("PUT", "/films");
    await ask("PUT", "/films/moon", { title: "A Trip to the Moon" });
  });

  afterAll(async () => {
    await browser?.close();
    await processes?.close();
  });

  test("Fauxton starts a replication with its form, lists the replication, and removes the replication", async () => {
    const { page, show } = await openFauxton();
    await show("replication/_create");
    await page.locator("select#replication-source").selectOption("REPLICATION_SOURCE_REMOTE");
    await page
      .locator("select#replication-target")
      .first()
      .selectOption("REPLICATION_TARGET_NEW_LOCAL_DATABASE");
    await page.locator(".replication__remote-connection-url").fill(`${node.url}/films`);
    await page.locator(".replication__new-input").fill("copied");
    for (const side of ["source", "target"]) {
      await page.locator(`select#select-replication-${side}-auth`).selectOption("BASIC_AUTH");
      await page.locator(`#replication-${side}-auth-username`).fill("root");
      await page.locator(`#replication-${side}-auth-password`).fill("secret");
    }
    await page.locator(".replication__doc-name-input").fill("by-fauxton");
    await page.getByRole("button", { name: "Start Replication" }).click();
    const row = page.getByRole("row", { name: /\/films .*\/copied/ });
    await row.waitFor();
    await node.onceAnswered(
      () => ask("GET", "/_scheduler/docs/_replicator/by-fauxton"),
      ({ state }) => state === "completed",
    );
    await page.getByText("Refresh", { exact: true }).click();
    await row.getByText("Completed").waitFor();
    expect(await ask("GET", "/copied/moon")).toMatchObject({ title: "A Trip to the Moon" });

    await row.locator("a.fonticon-trash, .icon-trash, [title*='Delete']").first().click();
    await page.getByRole("button", { name: "Delete Document" }).click();
    await row.waitFor({ state: "detached" });
    expect(await ask("GET", "/_replicator/by-fauxton")).toMatchObject({ error: "not_found" });
  });

  test("Fauxton lists a running replication among the active tasks", async () => {
    const body = { source: "films", target: "live", create_target: true, continuous: true };
    await ask("PUT", "/_replicator/live", body);
    await node.onceAnswered(
      () => ask("GET", "/_scheduler/docs/_replicator/live"),
      ({ info }) => (info as { docs_written?: number } | null)?.docs_written === 1,
    );
    const { page, show } = await openFauxton();
    await show("activetasks");
    const row = page.getByRole("row", { name: /replication.*From:.*\/films\/.*To:.*\/live\// });
    await row.waitFor();
    expect(await row.textContent()).toMatch(/1 docs written/);
  });
});

test.runIf(FAUXTON === undefined)(
  "tests of Fauxton are skipped without Fauxton, but fail if CI is set",
  () => expect(process.env.CI ?? "").toBe(""),
);
