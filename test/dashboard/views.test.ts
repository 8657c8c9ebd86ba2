/** Saved views, and titles of browser tabs. */
import fc from "fast-check";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  isShown,
  type SavedView,
  textOfViews,
  VIEW_NAME_LENGTH_MAX,
  VIEWS_MAX,
  viewsKey,
  viewsOf,
  withoutView,
  withView,
} from "../../src/dashboard/base/saved-views.ts";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { ask, CHROMIUM, GUARDED, openBrowser, openPage, visit } from "./browser.fixture.ts";

/** Waits until the browser tab has this title. */
async function titled(page: Page, title: string): Promise<void> {
  await page.evaluate(`new Promise((resolve) => {
    const check = () => {
      if (document.title === ${JSON.stringify(title)}) resolve();
    };
    new MutationObserver(check).observe(document.head, { childList: true, subtree: true });
    check();
  })`);
}

describe("saved views", () => {
  const name = fc
    .string({ minLength: 1, maxLength: VIEW_NAME_LENGTH_MAX, unit: "grapheme-ascii" })
    .filter((text) => text.trim() === text);
  const query = fc.dictionary(
    fc.constantFrom("name", "sort", "rule"),
    fc.string({ maxLength: 50 }),
  );

  test("are read as they were stored, whatever their names and links contain", () => {
    fc.assert(
      fc.property(fc.array(fc.record({ name, query }), { maxLength: 30 }), (added) => {
        const views = added.reduce<readonly SavedView[]>((before, view) => {
          try {
            return withView(before, view);
          } catch {
            expect(before).toHaveLength(VIEWS_MAX);
            return before;
          }
        }, []);
        const read = viewsOf(textOfViews(views));
        expect(read.map(({ name }) => name)).toEqual(views.map(({ name }) => name));
        for (const [index, view] of views.entries()) {
          expect(isShown(view, read[index]?.query ?? {})).toBe(true);
        }
      }),
    );
  });

  test("are ignored if the dashboard cannot have stored them", () => {
    const fine = ["a", "#/jobs?failing=true"];
    const foreign = [
      ["b", "https://evil.example/"],
      ["c", "javascript:alert(1)"],
      ["d", "#/settings"],
      ["e", "#/jobs/_replicator%2Fa"],
      ["", "#/jobs"],
      [" f", "#/jobs"],
      ["g".repeat(VIEW_NAME_LENGTH_MAX + 1), "#/jobs"],
      ["h", `#/jobs?name=${"h".repeat(3_000)}`],
      ["i"],
      [1, 2],
      null,
      "j",
      fine,
    ];
    expect(viewsOf(JSON.stringify([fine, ...foreign]))).toEqual([
      { name: "a", query: { failing: "true" } },
    ]);
    const many = Array.from({ length: VIEWS_MAX + 5 }, (_, index) => [`v${index}`, "#/jobs"]);
    expect(viewsOf(JSON.stringify(many))).toHaveLength(VIEWS_MAX);
    expect(viewsOf(`[${" ".repeat(1_000_000)}]`)).toEqual([]);
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        for (const view of viewsOf(text)) expect(viewsOf(textOfViews([view]))).toEqual([view]);
      }),
    );
    expect(viewsOf(null)).toEqual([]);
  });

  test("are replaced by a view of the same name, can be removed, and have names and links of limited length", () => {
    const views = withView(withView([], { name: "b", query: {} }), { name: "a", query: {} });
    expect(views.map(({ name }) => name)).toEqual(["a", "b"]);
    expect(withView(views, { name: "a", query: { sort: "lag" } })[0]?.query.sort).toBe("lag");
    expect(withoutView(views, "a").map(({ name }) => name)).toEqual(["b"]);
    expect(() => withView([], { name: "", query: {} })).toThrow("Enter a name");
    expect(() => withView([], { name: "a", query: { name: "n".repeat(3_000) } })).toThrow(
      "too long",
    );
  });
});

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  let processes: Processes;
  let node: TandemNode;
  let browser: Browser;

  beforeAll(async () => {
    processes = new Processes();
    [node, browser] = await Promise.all([processes.openHere(GUARDED), openBrowser()]);
    await ask(node, "PUT", "/films", undefined);
    await ask(node, "PUT", "/_users/org.couchdb.user:rita", {
      ...{ name: "rita", roles: ["_tandem_reader"], type: "user", password: "secret" },
    });
    const document = { source: "films", target: "copy", create_target: true, continuous: true };
    await ask(node, "PUT", "/_replicator/films", document);
    await ask(node, "PUT", "/_replicator/lost", { source: "nowhere", target: "copy" });
    await node.onceAnswered(
      () => ask(node, "GET", "/_tandem/jobs?failing=true&limit=0"),
      ({ total_rows: total }) => total === 1,
    );
  });

  afterAll(async () => {
    await browser?.close();
    await processes?.close();
  });

  test("a view is saved with its filters, opened and deleted, and is visible only to its user", async () => {
    const { page, show, violations, faults } = await visit(browser, node.url, "root");
    await show("/jobs");
    await page.getByText("2 jobs", { exact: true }).waitFor();
    expect(await page.getByRole("button", { name: "Save view" }).count()).toBe(0);
    await show("/jobs?failing=true&sort=since");
    await page.getByRole("button", { name: "Save view" }).click();
    await page.getByRole("dialog").getByLabel("Name").fill("The broken <b>ones</b>");
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await titled(page, "The broken <b>ones</b> – Jobs – Tandem");
    await show("/jobs");
    await titled(page, "Jobs – Tandem");
    const views = page.getByRole("navigation", { name: "Saved views" });
    await views.getByRole("link", { name: "The broken <b>ones</b>" }).click();
    await page.waitForURL(/#\/jobs\?failing=true&sort=since$/);
    await page.getByText("1 job", { exact: true }).waitFor();
    expect(await violations()).toEqual([]);

    // Another tab of the same user shows the view. Another user of the same browser does not see
    // it.
    const other = await page.context().newPage();
    await other.goto(`${node.url}/_dashboard/#/jobs`);
    await other.getByRole("link", { name: "The broken" }).waitFor();
    await other.getByRole("button", { name: "Log out" }).click();
    await other.getByLabel("User").fill("rita");
    await other.getByLabel("Password").fill("secret");
    await other.getByRole("button", { name: "Log in" }).click();
    await other.getByText("2 jobs", { exact: true }).waitFor();
    expect(await other.getByRole("link", { name: "The broken" }).count()).toBe(0);
    await other.close();

    await views.getByRole("button", { name: "Delete view The broken" }).click();
    await page.getByRole("button", { name: "Undo" }).click();
    await views.getByRole("link", { name: "The broken" }).waitFor();
    await views.getByRole("button", { name: "Delete view The broken" }).click();
    await views.getByRole("link", { name: "The broken" }).waitFor({ state: "detached" });
    expect(await page.evaluate(`localStorage.getItem("${viewsKey("root")}")`)).toBe("[]");
    expect(faults.filter((fault) => !fault.startsWith("401 "))).toEqual([]);
  });

  test("input in a filter survives rerenders of the page until it is committed", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await show("/jobs?name=*lost");
    await page.getByText("1 job", { exact: true }).waitFor();
    const name = page.getByRole("searchbox", { name: "Name" });
    await name.fill("");
    await page.setViewportSize({ width: 390, height: 844 });
    await page.locator("summary", { hasText: /^Filters$/ }).waitFor();
    expect(await name.inputValue()).toBe("");
    await name.press("Enter");
    await page.getByText("2 jobs", { exact: true }).waitFor();
    await show("/jobs?name=*films");
    await page.getByText("1 job", { exact: true }).waitFor();
    expect(await name.inputValue()).toBe("*films");
  });

  test("the list of jobs works even if the browser's storage is broken or missing", async () => {
    const { page, show } = await visit(browser, node.url, "root");
    await page.evaluate(`localStorage.setItem("${viewsKey("root")}", '{"__proto__": [1')`);
    await show("/jobs?failing=true");
    await page.reload();
    await page.getByText("1 job", { exact: true }).waitFor();
    await page.evaluate(`Storage.prototype.setItem = () => { throw new Error("full"); }`);
    await page.getByRole("button", { name: "Save view" }).click();
    await page.getByRole("dialog").getByLabel("Name").fill("a");
    await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").getByText("does not allow this page to store views").waitFor();
  });

  test("the title of a tab contains the page, its object and its state", async () => {
    const { page: login } = await openPage(browser);
    await login.goto(`${node.url}/_dashboard/`);
    await titled(login, "Log in – Tandem");
    await ask(node, "PUT", "/_tandem/rules/users", {
      source: "local",
      target: "c-{db}",
      databases: ["u"],
    });
    const { page, show } = await visit(browser, node.url, "root");
    for (const [view, title] of [
      ["/", "1 failing – Overview"],
      ["/jobs", "Jobs"],
      ["/jobs/_replicator%2Flost", "_replicator/lost – failing"],
      ["/new", "New replication"],
      ["/new?edit=_replicator%2Flost", "_replicator/lost – Edit a replication"],
      ["/nodes", "Nodes"],
      ["/rules/users", "users – Rules"],
      ["/new-rule", "New rule"],
      ["/nowhere", "Page not found"],
      ["/jobs/_replicator%2Fa%E2%80%AEb", "_replicator/a⟨U+202E⟩b"],
    ]) {
      await show(String(view));
      await titled(page, `${title} – Tandem`);
    }
  });
});
