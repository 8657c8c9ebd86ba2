/**
 * Runs every command of docs/per-user-databases.md between processes, with the JSON examples of the
 * page.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemNode } from "../../support/open-process.ts";
import { pageCommands, pageJson } from "../../support/pages/page-commands.ts";
import { tandem } from "../../support/tandem-command.ts";

const PAGE = readFileSync(new URL("../../../docs/per-user-databases.md", import.meta.url), "utf8");
const COUNT = 5;

const processes = new Processes();
const folder = processes.directory();
let source: TandemNode;
let target: TandemNode;
let node: TandemNode;

beforeAll(async () => {
  const environment = { COUCHDB_USER: "admin", COUCHDB_PASSWORD: "secret" };
  const ini = "[replicator]\npark_after_sec = 1\n";
  [source, target, node] = await Promise.all([
    processes.openHere({ environment }),
    processes.openHere({ environment }),
    processes.openHere({ ini }),
  ]);
});
afterAll(() => processes.close());

/** Returns the page, with the addresses of the servers in this test. */
const page = () =>
  PAGE.replaceAll("https://a.example/", `${source.url}/`).replaceAll(
    "https://b.example/",
    `${target.url}/`,
  );

async function askSource(method: string, path: string, body?: object): Promise<void> {
  const authorization = `Basic ${Buffer.from("admin:secret").toString("base64")}`;
  const { status } = await fetch(source.url + path, {
    method,
    headers: { authorization, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  expect([method, path, status]).toEqual([method, path, 201]);
}

/** Runs commands one after the other, and returns the output of each command. */
async function run(block: readonly (readonly string[])[]): Promise<readonly string[]> {
  const environment = { TANDEM_SERVER: node.url };
  const outputs: string[] = [];
  for (const words of block) {
    const { code, output, errors } = await tandem(words, { environment, directory: folder });
    const text = output + errors;
    expect([words.join(" "), code, text]).toEqual([words.join(" "), 0, text]);
    outputs.push(text);
  }
  return outputs;
}

const onceParked = (filter: string, count: number) =>
  node.onceAnswered(
    async () => (await node.call("GET", `/_tandem/jobs?${filter}&parked=true&limit=1`)).body,
    ({ total_rows: total }) => total === count,
  );

test("the commands of docs/per-user-databases.md create, show and repair the jobs of a rule", async () => {
  const [rule = "", documents = ""] = pageJson(page());
  writeFileSync(join(folder, "users.json"), rule);
  for (let number = 0; number < COUNT; number++) {
    await askSource("PUT", `/userdb-${number}`);
    await askSource("PUT", `/userdb-${number}/first`, {});
  }
  const [put = [], own = [], wrong = [], password = []] = pageCommands(page());
  const [planned] = await run(put);
  expect(planned).toContain(`${COUNT} databases get a job`);
  await onceParked("rule=users", COUNT);

  const body = JSON.parse(documents);
  await askSource("PUT", `/${body.docs[0]._id}`);
  await node.call("PUT", "/tenants%2F_replicator");
  expect((await node.call("POST", "/tenants%2F_replicator/_bulk_docs", body)).status).toBe(201);
  await onceParked("database=tenants/_replicator", 1);
  // The source of the job in `tenants/_replicator` also matches the rule.
  await onceParked("rule=users", COUNT + 1);
  for (const output of await run(own)) expect(output).not.toBe("");

  await run(wrong);
  writeFileSync(join(folder, "password.txt"), "next\n");
  const [counted, replaced] = await run(password);
  const found = `${COUNT + 2} jobs found: 1 with a document, ${COUNT + 1} without, and the rule users`;
  expect(counted).toBe(`${found}; nothing was changed\n`);
  expect(replaced).toBe(`${found}; ${COUNT + 2} changed, 0 refused\n`);
});
