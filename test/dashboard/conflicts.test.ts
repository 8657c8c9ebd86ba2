/** The policy for the conflicts of a database, in the dashboard. */
import { mkdirSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { ask, CHROMIUM, GUARDED, openBrowser, visit } from "./browser.fixture.ts";

const LOOKS = [
  { colorScheme: "light", viewport: { width: 390, height: 844 } },
  { colorScheme: "dark", viewport: { width: 768, height: 900 } },
  { colorScheme: "light", viewport: { width: 1280, height: 900 } },
] as const;

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  let processes: Processes;
  let node: TandemProcess;
  let browser: Browser;

  beforeAll(async () => {
    processes = new Processes();
    [node, browser] = await Promise.all([processes.open(GUARDED), openBrowser()]);
  });

  afterAll(async () => {
    await browser?.close();
    await processes?.close();
  });

  test.each(LOOKS)(
    "a policy is set and resolves conflicts, and the resolutions are undone (%j)",
    async (looks) => {
      const { width } = looks.viewport;
      const database = `films-${width}`;
      await ask(node, "PUT", `/${database}`);
      const docs = [
        { _id: "_design/left", _rev: "1-a" },
        { _id: "_design/left", _rev: "1-b" },
        { _id: "metropolis", _rev: "1-a", meta: { time: "2026-01-02" } },
        { _id: "metropolis", _rev: "1-b", meta: { time: "2026-01-01" } },
      ];
      await ask(node, "POST", `/${database}/_bulk_docs`, { new_edits: false, docs });
      const { page, show, violations, faults } = await visit(browser, node.url, "root", looks);
      const shoot = async (name: string) => {
        const folder = process.env.SHOTS;
        if (folder === undefined) return;
        mkdirSync(folder, { recursive: true });
        await page.screenshot({ path: `${folder}/${name}-${width}.png` });
      };
      await show(`/conflicts/${database}`);
      await page.getByText("Conflicts stay until you resolve them.").waitFor();
      await page.getByRole("button", { name: "Edit policy" }).click();
      await page.getByLabel("Member of the document that contains a number").fill("meta..time");
      await page.getByRole("button", { name: "Set", exact: true }).click();
      await page.getByText("`field` must be the path of a member").waitFor();
      expect(await violations()).toEqual([]);
      await shoot("dialog");
      await page.getByLabel("Member of the document that contains a number").fill("meta.time");
      await page.getByRole("button", { name: "Set", exact: true }).click();
      await page.getByText("Last write: meta.time").first().waitFor();
      const isHere = (event: { readonly database: string }) => event.database === database;
      await node.events.event("databases.conflict-resolved", isHere);
      await node.events.event("databases.conflict-left", isHere);
      await page.reload();
      await page.getByRole("region", { name: "Last resolutions" }).waitFor();
      await page.getByText("conflicts of design documents must be resolved by hand").waitFor();
      expect(await violations()).toEqual([]);
      await shoot("resolved");
      await page.getByRole("button", { name: "Undo all" }).click();
      await page.getByRole("dialog").waitFor();
      expect(await violations()).toEqual([]);
      await shoot("undo");
      await page.getByRole("button", { name: "Undo", exact: true }).click();
      await page.getByText("1 resolution undone").first().waitFor();
      await page.getByText("Conflicts stay until you resolve them.").waitFor();
      await page.getByRole("link", { name: "metropolis" }).waitFor();
      expect(faults.filter((fault) => !fault.includes("400"))).toEqual([]);
    },
  );
});
