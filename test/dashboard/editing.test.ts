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

/** Until the database has the document of the source. */
function onceCopied(database: string) {
  return node.onceAnswered(
    () => ask("GET", `/${database}/moon`),
    ({ _id: id }) => id === "moon",
  );
}

const OUTCOME = /"_replication_/;

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

  test("a clone of a job that has ended runs, and so does an edited one", async () => {
    await ask("PUT", "/_replicator/once", {
      ...{ source: "films", target: "once-1", create_target: true },
      ...{ _replication_state: "completed", _replication_stats: { docs_written: 77 } },
      _attachments: { note: { content_type: "text/plain", data: "aGk=" } },
    });
    const { page, show } = await visit(browser, node.url, "root");
    const sent = page.locator(".outcome pre").first();
    await show("/new?clone=_replicator%2Fonce");
    await page.getByLabel("Target address").fill("once-2");
    await sent.getByText('"once-2"').waitFor();
    expect(await sent.textContent()).not.toMatch(OUTCOME);
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "_replicator/once-copy" }).waitFor();
    await onceCopied("once-2");

    await show("/new?edit=_replicator%2Fonce");
    await page.getByLabel("Target address").fill("once-3");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "_replicator/once" }).waitFor();
    await onceCopied("once-3");
    expect(await ask("GET", "/_replicator/once")).toHaveProperty("_attachments.note");
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

  test("a replication is written only where it is one", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    const changes: string[] = [];
    page.on("request", (request) => {
      if (request.method() === "PUT") changes.push(new URL(request.url()).pathname);
    });
    await show("/new");
    await page.getByLabel("Source address").fill("films");
    await page.getByLabel("Target address").fill("films-2");
    await page.getByLabel("Database", { exact: false }).first().fill("films");
    await page.getByRole("status").getByText("Database: expected _replicator").waitFor();
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("alert").getByText("Database: expected _replicator").waitFor();
    await page.getByLabel("Database", { exact: false }).first().fill("_replicator");
    await page.getByLabel("Id", { exact: true }).fill("..");
    await page.getByRole("status").getByText("A browser cannot ask for").waitFor();
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("alert").getByText("A browser cannot ask for").waitFor();
    expect(changes).toEqual([]);
    await page.getByLabel("Id", { exact: true }).fill(" spaced ");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "_replicator/spaced" }).waitFor();
    expect(changes).toEqual(["/_replicator/spaced"]);
    await ask("POST", "/_tandem/jobs/_replicator%2Fspaced/_cancel");
  });

  test("what is named like a folder is asked for nowhere", async () => {
    const { page, show, faults } = await visit(browser, node.url, "root");
    for (const view of ["/rules/.", "/jobs/.", "/jobs/..", "/rules/..?edit=true"]) {
      await show(view);
      await page.getByText("A browser cannot ask for what is named .").waitFor();
    }
    const job = await ask("GET", "/_tandem/jobs/_replicator%2Fonce");
    await page.route(/\/_tandem\/jobs\/_replicator%2F\.\.$/, (route) =>
      route.fulfill({ json: { ...job, doc_id: ".." } }),
    );
    await page.route(/\/_tandem\/jobs\/_replicator%2F\.\.\/runs$/, (route) =>
      route.fulfill({ json: { runs: [] } }),
    );
    await page.route(/\/_tandem\/jobs\/_replicator%2F\.\.\/failures\/_counts$/, (route) =>
      route.fulfill({ json: { total_rows: 0, counts: [] } }),
    );
    await show("/jobs/_replicator%2F..");
    await page.getByText("A browser cannot ask for what is named ..").waitFor();
    expect(await page.getByText("Welcome").count()).toBe(0);
    expect(faults).toEqual([]);
  });
});
