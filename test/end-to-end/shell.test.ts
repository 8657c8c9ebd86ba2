/** `tandem replicate` and `tandem verify`: without a server, with exit codes that mean something. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type HttpProxy, openHttpProxy } from "../support/faults/http-proxy.ts";
import { Processes, type TandemProcess, until } from "../support/open-process.ts";
import { load, sampleLines } from "../support/sample-data.ts";

const MAIN = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const processes = new Processes();
const films = sampleLines("films").slice(0, 200);
let server: TandemProcess;
let proxy: HttpProxy;

beforeAll(async () => {
  server = await processes.open();
  proxy = await openHttpProxy(server.url);
  await load(server, "films", films);
});
afterAll(async () => {
  await proxy.close();
  await processes.close();
});

function start(...flags: string[]) {
  const child = spawn(process.execPath, [MAIN, ...flags], { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  child.stdout.on("data", (chunk) => (text += chunk));
  child.stderr.on("data", (chunk) => (text += chunk));
  const ended = once(child, "exit").then(([code]) => ({ code, text }));
  return { child, ended };
}

test("a copy is verified, and what is missing afterwards is repaired", async () => {
  const source = `${server.url}/films`;
  const target = `${server.url}/films-copy`;
  const copied = await start("replicate", source, target, "--create-target").ended;
  expect(copied).toMatchObject({ code: 0, text: expect.stringMatching(/200 documents.*MB\/s/) });
  expect((await start("verify", source, target).ended).code).toBe(0);
  const one = JSON.parse(films[0] as string)._id;
  const path = `/films/${encodeURIComponent(one)}`;
  const { body } = await server.call("GET", path);
  await server.call("PUT", path, { ...body, changed: true });
  await server.call("PUT", "/films/new", {});
  const differing = await start("verify", source, target).ended;
  expect(differing).toMatchObject({ code: 1, text: expect.stringContaining("2 differences") });
  const repaired = await start("verify", source, target, "--repair").ended;
  expect(repaired).toMatchObject({ code: 0, text: expect.stringContaining("2 documents copied") });
});

test("an interrupted copy says how to go on, and goes on", async () => {
  const target = `${proxy.url}/films-late`;
  let isHeld = true;
  proxy.intercept(async (request, forward) => {
    while (isHeld && request.path.endsWith("/_bulk_docs")) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return forward(request);
  });
  const first = start("replicate", `${server.url}/films`, target, "--create-target");
  await until(
    async () => proxy.requests.some(({ path }) => path.endsWith("/_bulk_docs")),
    (isThere) => isThere,
  );
  first.child.kill("SIGINT");
  expect(await first.ended).toMatchObject({ code: 1, text: expect.stringContaining("goes on") });
  isHeld = false;
  expect((await start("replicate", `${server.url}/films`, target).ended).code).toBe(0);
});

test("a password is never printed", async () => {
  const source = "http://user:word-4711@127.0.0.1:1/films";
  const { code, text } = await start("replicate", source, `${server.url}/none`).ended;
  expect(code).toBe(1);
  expect(text).not.toContain("4711");
}, 60_000);
