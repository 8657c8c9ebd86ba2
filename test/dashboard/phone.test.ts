/** The dashboard on a phone, with long names, and with a job whose requests were never answered. */

import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { ask, CHROMIUM, GUARDED, openBrowser, visit } from "./browser.fixture.ts";

const LONG = "copy-of-the-database-of-a-team-in-a-department-with-a-very-long-name";

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  let processes: Processes;
  let node: TandemNode;
  let browser: Browser;

  beforeAll(async () => {
    processes = new Processes();
    [node, browser] = await Promise.all([processes.openHere(GUARDED), openBrowser()]);
    for (const end of ["00001", "00002"]) {
      const document = { source: `nowhere-${LONG}-${end}`, target: `${LONG}-${end}` };
      await ask(node, "PUT", `/_replicator/${LONG}-${end}`, document);
    }
    await node.onceAnswered(
      () => ask(node, "GET", "/_tandem/jobs?failing=true&limit=0"),
      ({ total_rows: total }) => total === 2,
    );
  });

  afterAll(async () => {
    await browser?.close();
    await processes?.close();
  });

  test.each([360, 420])(
    "at %d pixels, lists come before other content, and the menu is complete",
    async (width) => {
      const viewport = { width, height: 740 };
      const { page, show, violations } = await visit(browser, node.url, "root", { viewport });
      const topOf = async (locator: ReturnType<typeof page.locator>) => {
        await locator.waitFor();
        return (await locator.boundingBox())?.y ?? Number.POSITIVE_INFINITY;
      };
      const groups = await topOf(page.locator(".groups"));
      expect(groups).toBeLessThan(viewport.height / 3);
      expect(await topOf(page.locator(".tiles"))).toBeGreaterThan(groups);

      const menu = page.getByRole("navigation", { name: "Pages" }).getByRole("link");
      const names = await menu.allTextContents();
      expect(names).toEqual([
        ...["Overview", "Jobs", "Nodes", "Servers", "Rules", "Events", "Conflicts", "Settings"],
        "New replication",
      ]);
      for (const link of await menu.all()) {
        const box = await link.boundingBox();
        expect((box?.x ?? -1) >= 0 && box !== null && box.x + box.width <= width).toBe(true);
      }

      await show("/jobs");
      const first = page.getByRole("link", { name: `_replicator/${LONG}-00001`, exact: true });
      expect(await topOf(first)).toBeLessThan(viewport.height / 3);
      expect(await topOf(page.getByRole("button", { name: "Pause", exact: true }))).toBeGreaterThan(
        await topOf(first),
      );
      await page.getByText("Filters").first().click();
      await page.getByLabel(/^Failing/).selectOption("true");
      await page.getByText("Filters (1)").waitFor();
      expect(await violations()).toEqual([]);
    },
  );

  test.each([360, 768, 1280])("at %d pixels, the end of each name is visible", async (width) => {
    const viewport = { width, height: 900 };
    const { page, show } = await visit(browser, node.url, "root", { viewport });
    await show("/jobs");
    await page.getByRole("link", { name: `_replicator/${LONG}-00002`, exact: true }).waitFor();
    // Names and URLs whose last characters are outside the box that truncates the text.
    const hidden = await page.evaluate(`[...document.querySelectorAll(".ends")].flatMap((ends) => {
      const text = ends.lastElementChild.firstElementChild.firstChild;
      const range = document.createRange();
      range.setStart(text, text.length - 5);
      range.setEnd(text, text.length);
      const [end, box] = [range.getBoundingClientRect(), ends.getBoundingClientRect()];
      const isVisible = end.left >= box.left - 1 && end.right <= box.right + 1 && end.right <= innerWidth;
      return isVisible && /0000[12]$/.test(ends.title) ? [] : [ends.title];
    })`);
    expect(hidden).toEqual([]);
    expect(await page.locator(".ends").count()).toBe(6);
  });

  test("a job whose requests were never answered has unknown figures", async () => {
    const silent = createServer();
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const { port } = silent.address() as AddressInfo;
    await ask(node, "PUT", "/_replicator/silent", {
      ...{ source: `http://127.0.0.1:${port}/a`, target: "b", continuous: true },
    });
    onTestFinished(async () => {
      await ask(node, "POST", "/_tandem/jobs/_replicator%2Fsilent/_cancel");
      silent.close();
    });
    await node.onceAnswered(
      () => ask(node, "GET", "/_tandem/jobs/_replicator%2Fsilent"),
      ({ state }) => state === "running",
    );
    const { page, show } = await visit(browser, node.url, "root");
    await show("/jobs?name=_replicator/silent");
    const row = page.getByRole("row", { name: "_replicator/silent" });
    await row.locator("[data-name=lag]").getByText("Unknown").waitFor();
    await row.locator("[data-name=success]").getByText("Unknown").waitFor();
    await show("/jobs?behind=false&state=running");
    await page.getByText("No jobs match.").waitFor();
    await show("/jobs/_replicator%2Fsilent");
    for (const name of ["Lag", "Pending changes"]) {
      await page.locator(".fact", { hasText: name }).getByText("Unknown").waitFor();
    }
    await show("/");
    const { total_rows: total } = await ask(node, "GET", "/_tandem/jobs?unknown=true&limit=0");
    const tile = page.locator(".tile", { hasText: "Unknown" });
    await tile.getByText(String(total), { exact: true }).waitFor();
    await tile.click();
    await row.waitFor();
    await show("/servers");
    const server = page.getByRole("row", { name: new RegExp(`^127.0.0.1:${port}`) });
    expect(await server.locator("[data-name=Latency]").textContent()).toBe("Unknown");
    expect(await server.locator("[data-name=Reached]").textContent()).toBe("Unknown");
  });
});
