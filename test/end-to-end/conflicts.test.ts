/** `tandem conflicts` on a database of a running node. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemNode } from "../support/open-process.ts";
import { tandem as run } from "../support/tandem-command.ts";

/** More leaves than one request of the command reads. */
const MANY = Array.from({ length: 70 }, (_, at) => `1-${String(at).padStart(2, "0")}`);

const processes = new Processes();
let node: TandemNode;

beforeAll(async () => {
  node = await processes.openHere();
});

afterAll(() => processes.close());

async function tandem(...flags: string[]) {
  const { code, output: out, errors } = await run(flags);
  return { code, out, errors };
}

test("a policy resolves conflicts, and one command undoes the resolutions and removes the policy", async () => {
  await node.call("PUT", "/news");
  const docs = [
    { _id: "one", _rev: "1-a", at: "2026-01-02" },
    { _id: "one", _rev: "1-b", at: "2026-01-01" },
  ];
  await node.call("POST", "/news/_bulk_docs", { new_edits: false, docs });
  const server = ["--server", node.url];
  const policy = (...flags: string[]) => tandem("conflicts", "policy", "news", ...flags, ...server);
  expect(await policy()).toMatchObject({ code: 0, out: "conflicts are not resolved\n" });
  expect(await policy("last_write")).toMatchObject({
    code: 2,
    errors: expect.stringContaining("`field` must be the path of a member"),
  });
  expect(await policy("last_write", "--field", "at")).toMatchObject({ code: 0, out: "done\n" });
  await node.events.event("databases.conflict-resolved");
  expect(await tandem("conflicts", `${node.url}/news`)).toMatchObject({ code: 0 });
  expect((await policy()).out).toMatch(/^last_write at, since /);
  const list = await tandem("conflicts", "resolutions", "news", "--json", ...server);
  expect(JSON.parse(list.out)).toMatchObject({
    resolutions: [{ id: "one", kept: "1-a", removed: ["1-b"] }],
  });
  const shown = await tandem("conflicts", "resolutions", "news", ...server);
  expect(shown.out).toMatch(/one +last_write +2-[0-9a-f]{32} +1-b/);
  expect(await tandem("conflicts", "undo", "news", ...server)).toEqual({
    code: 0,
    out: "1 resolution undone: 1 revision written\n",
    errors: "",
  });
  expect(await policy()).toMatchObject({ out: "conflicts are not resolved\n" });
  expect(await tandem("conflicts", `${node.url}/news`)).toMatchObject({ code: 1 });
});

test("`tandem conflicts` lists each document with several leaves that are not deleted, the winner first, and prints totals", async () => {
  await node.call("PUT", "/films");
  expect(await tandem("conflicts", `${node.url}/films`)).toEqual({
    code: 0,
    out: "0 documents read: 0 have conflicts\n",
    errors: "",
  });
  const docs = [
    { _id: "alone", _rev: "1-a" },
    { _id: "both", _rev: "1-a" },
    { _id: "both", _rev: "1-b" },
    { _id: "longer", _rev: "1-z" },
    { _id: "longer", _rev: "10-a" },
    { _id: "resolved", _rev: "1-a" },
    { _id: "resolved", _rev: "2-b", _deleted: true },
    { _id: "removed", _rev: "1-a", _deleted: true },
    { _id: "removed", _rev: "1-b", _deleted: true },
    ...MANY.map((_rev) => ({ _id: "many\u001b[31m", _rev })),
  ];
  await node.call("POST", "/films/_bulk_docs", { new_edits: false, docs });
  const { code, out } = await tandem("conflicts", `${node.url}/films`);
  const lines = out.split("\n");
  expect(code).toBe(1);
  expect(lines).toContain("both: winner 1-b, conflicts 1-a");
  expect(lines).toContain("longer: winner 10-a, conflicts 1-z");
  expect(lines.find((line) => line.startsWith("many"))).toMatch(
    /^many\ufffd.*: winner 1-69, conflicts 1-68, .*, 1-00$/,
  );
  expect(lines.slice(-2)).toEqual(["6 documents read: 3 have conflicts", ""]);
  expect(out).not.toContain("resolved");
});

test("`tandem conflicts` starts after a given sequence, and prints JSON", async () => {
  const { body } = await node.call("GET", "/films");
  await node.call("POST", "/films/_bulk_docs", {
    new_edits: false,
    docs: ["1-a", "1-b"].map((_rev) => ({ _id: "later", _rev })),
  });
  const { out } = await tandem(
    ...["conflicts", `${node.url}/films`, "--json", "--since", body.update_seq],
  );
  const [first, totals, ...rest] = out.split("\n").map((line) => line && JSON.parse(line));
  expect(first).toEqual({ id: "later", winner: "1-b", conflicts: ["1-a"] });
  expect(totals).toMatchObject({ documents: 1, conflicts: 1, since: expect.any(String) });
  expect(rest).toEqual([""]);
});

test("`tandem conflicts` reads leaves one by one from a server without _bulk_get", async () => {
  const old = createServer(async ({ url = "", headers }, response) => {
    const isKnown = !url.includes("_bulk_get");
    const { accept = "*/*" } = headers;
    const answer = await fetch(node.url + url, { headers: { accept } });
    response.statusCode = isKnown ? answer.status : 404;
    response.setHeader("content-type", answer.headers.get("content-type") ?? "");
    response.end(isKnown ? Buffer.from(await answer.arrayBuffer()) : '{"error":"not_found"}');
  }).listen(0, "127.0.0.1");
  await once(old, "listening");
  try {
    const { port } = old.address() as AddressInfo;
    const { out } = await tandem("conflicts", `http://127.0.0.1:${port}/films`);
    expect(out).toContain("both: winner 1-b, conflicts 1-a\n");
    expect(out).not.toContain("resolved");
    expect(out).toContain("7 documents read: 4 have conflicts");
  } finally {
    old.close();
  }
});

test("`tandem conflicts` reports a missing database, and an address that is not a URL", async () => {
  const missing = await tandem("conflicts", `${node.url}/nothing`);
  expect(missing).toMatchObject({ out: "", errors: expect.stringContaining("nothing") });
  expect(missing.code).not.toBe(0);
  const wrong = await tandem("conflicts", "films");
  expect(wrong.errors).toContain("films");
  expect(wrong.code).not.toBe(0);
});
