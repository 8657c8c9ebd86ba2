/** `/_utils/`: serves the files of a web application, and no other files of the machine. */
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { StaticFolder } from "../../src/host/http/static-folder.ts";
import { type OpenApi, openApi } from "./api.fixture.ts";
import { FILMS, testRows } from "./rows.ts";

describe("without a folder", () => {
  testRows(FILMS, [
    {
      name: "the path without a slash redirects to the path with a slash",
      onlyHere: "It has another address",
      ask: "GET /_utils",
      status: 301,
      answers: { Location: "http://127.0.0.1:5984/_utils/" },
    },
    { name: "the page is missing", ask: "GET /_utils/", status: 404 },
    { name: "files are missing", ask: "GET /_utils/a.js", status: 404 },
    { name: "the icon is missing", ask: "GET /favicon.ico", status: 404 },
    {
      name: "a POST is refused",
      ask: "POST /_utils/a.js",
      body: {},
      status: 405,
      answers: { Allow: "GET,HEAD" },
    },
  ]);
});

/**
 * Creates a folder `utils/` with a page, a script, and links to files inside and outside the
 * folder.
 */
async function openFolder(): Promise<OpenApi> {
  const directory = await mkdtemp(join(tmpdir(), "tandem-utilities-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const root = join(directory, "utils");
  await mkdir(join(root, "js"), { recursive: true });
  await writeFile(join(directory, "secret"), "secret");
  await writeFile(join(root, "index.html"), "<p>page");
  await writeFile(join(root, "favicon.ico"), "icon");
  await writeFile(join(root, "js", "a b.js"), "script");
  await symlink(join(directory, "secret"), join(root, "link"));
  await symlink(directory, join(root, "folder"));
  await symlink(join(root, "js"), join(root, "again"));
  return openApi({ parts: { utilities: new StaticFolder(root) } });
}

test("a request for a folder returns its index page", async () => {
  const { ask } = await openFolder();
  expect(await ask("GET /_utils/")).toMatchObject({
    status: 200,
    text: "<p>page",
    headers: {
      "Content-Type": "text/html; charset=utf-8",
      "Content-Length": "7",
      "Cache-Control": "private, must-revalidate",
      "Content-Security-Policy": expect.stringContaining("default-src 'self'"),
    },
  });
  expect((await ask("GET /favicon.ico")).text).toBe("icon");
});

test("file names can contain spaces, and links to files in the folder are followed", async () => {
  const { ask } = await openFolder();
  expect((await ask("GET /_utils/js/a%20b.js")).text).toBe("script");
  expect((await ask("GET /_utils/again/a%20b.js")).text).toBe("script");
  expect((await ask("HEAD /_utils/js/a%20b.js")).headers["Content-Length"]).toBe("6");
});

test("a file that the browser has cached is not sent again", async () => {
  const { ask } = await openFolder();
  const modified = (await ask("GET /_utils/")).headers["Last-Modified"] as string;
  const again = await ask("GET /_utils/", { headers: { "If-Modified-Since": modified } });
  expect(again).toMatchObject({ status: 304, text: "" });
});

test.each([
  "/_utils/../secret",
  "/_utils/%2e%2e/secret",
  "/_utils/..%2fsecret",
  "/_utils/js/../../secret",
  "/_utils/js%2f..%2f..%2fsecret",
  "/_utils/..%5csecret",
  "/_utils/link",
  "/_utils/folder/secret",
  "/_utils/js",
  "/_utils/js/a%20b.js/x",
  "/_utils/index.html%00.js",
  `/_utils/${"x".repeat(5_000)}`,
])("%s is not found", async (path) => {
  const { ask, events } = await openFolder();
  expect(await ask(`GET ${path}`)).toMatchObject({ status: 404, text: "Not found." });
  expect(events.filter(({ name }) => name === "api.request-failed")).toEqual([]);
});
