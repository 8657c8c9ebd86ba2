/** What operators write with the forms of the dashboard is what they see, and arrives as it was meant. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { ask as askNode, CHROMIUM, GUARDED, openBrowser, visit } from "./browser.fixture.ts";

let processes: Processes;
let node: TandemProcess;
let browser: Browser;

function ask(method: string, path: string, body?: unknown) {
  return askNode(node, method, path, body);
}

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  beforeAll(async () => {
    processes = new Processes();
    [node, browser] = await Promise.all([processes.open(GUARDED), openBrowser()]);
    await ask("PUT", "/films");
    await ask("PUT", "/films/moon", {});
  });

  afterAll(async () => {
    await browser?.close();
    await processes?.close();
  });

  test("an edit keeps the digits of a number that no browser knows, or is refused", async () => {
    const large = "12345678901234567890";
    const body = `{"source": "films", "target": "films", "selector": {"a": ${large}}, "continuous": true}`;
    await fetch(`${node.url}/_replicator/large`, {
      method: "PUT",
      headers: {
        authorization: `Basic ${Buffer.from("root:secret").toString("base64")}`,
        "content-type": "application/json",
      },
      body,
    });
    onTestFinished(() => ask("POST", "/_tandem/jobs/_replicator%2Flarge/_cancel").then(() => {}));
    const { page, show } = await visit(browser, node.url, "root");
    await show("/new?edit=_replicator%2Flarge");
    await page.getByText(`A form cannot keep the number ${large}`).waitFor();
    expect(await page.getByRole("button", { name: "Save" }).count()).toBe(0);
  });
});
