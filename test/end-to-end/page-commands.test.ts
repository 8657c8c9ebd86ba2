/** The commands of README and of pages that have no test of their own, run by a shell as they stand there. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { type PageShell, pageShell } from "../support/page-shell.ts";

const processes = new Processes();
const folder = processes.directory();
/** The node of the page, and the servers that it calls couch.example, a.example and b.example. */
let node: TandemProcess;
let couch: TandemProcess;
let source: TandemProcess;
let target: TandemProcess;
let data: string;
let shell: PageShell;

beforeAll(async () => {
  const user = { COUCHDB_USER: "user", COUCHDB_PASSWORD: "password" };
  data = processes.directory();
  [node, couch, source, target] = await Promise.all([
    processes.open({ directory: data }),
    processes.open({ environment: user }),
    processes.open({ environment: user }),
    processes.open({ environment: user }),
  ]);
  shell = pageShell(folder, node.url);
  writeFileSync(
    join(folder, "users.json"),
    JSON.stringify({
      source: {
        url: `${source.url}/`,
        auth: { basic: { username: "user", password: "password" } },
      },
      target: {
        url: `${target.url}/{db}`,
        auth: { basic: { username: "user", password: "password" } },
      },
      databases: ["user-*"],
    }),
  );
  writeFileSync(join(folder, "new.txt"), "another\n");
});
afterAll(() => processes.close());

/** The blocks for a shell of a page, with the addresses and folders of this test. */
function blocksOf(name: string): readonly string[] {
  const text = readFileSync(new URL(`../../${name}`, import.meta.url), "utf8");
  return [...text.matchAll(/```sh\n(.*?)```/gs)].map(([, block = ""]) =>
    block
      .replaceAll(/http:\/\/(admin:password@)?127\.0\.0\.1:5984/g, node.url)
      .replaceAll(/https:\/\/user:password@(couch|a|b)\.example/g, (_, host: string) =>
        serverOf(host).url.replace("://", "://user:password@"),
      )
      .replaceAll("couch.example", new URL(couch.url).host)
      .replaceAll("./data-2", join(folder, "data-2"))
      .replaceAll("./data", join(data, "data"))
      .replaceAll("/backups", join(folder, "backups")),
  );
}

function serverOf(host: string): TandemProcess {
  return host === "couch" ? couch : host === "a" ? source : target;
}

async function createDatabase(server: TandemProcess, name: string): Promise<void> {
  const authorization = `Basic ${Buffer.from("user:password").toString("base64")}`;
  const { status } = await fetch(`${server.url}/${name}`, {
    method: "PUT",
    headers: { authorization },
  });
  expect(status).toBe(201);
}

const found = (blocks: readonly string[], part: string): string => {
  const block = blocks.find((each) => each.includes(part));
  if (block === undefined) throw new Error(`No block has ${part}`);
  return block;
};

test("the first replication of README arrives on this node and on another server", async () => {
  await createDatabase(couch, "films");
  const blocks = blocksOf("README.md");
  const output = await shell.run(found(blocks, "/_replicate"));
  expect(output).toContain('"docs_written":1');
  expect((await node.call("GET", "/films-copy/1902:a-trip-to-the-moon")).status).toBe(200);
  expect(await shell.run(found(blocks, "tandem replicate http"))).toContain(
    "the same on both sides",
  );
});

test("the commands of README about jobs, servers and backups end well", async () => {
  const blocks = blocksOf("README.md");
  const endless = /^.*jobs watch.*\n/m;
  expect(await shell.run(found(blocks, "jobs failing").replace(endless, ""))).not.toBe("");
  await createDatabase(source, "user-1");
  expect(await shell.run(found(blocks, "replicate --all"))).toContain(
    "1 databases get a job: user-1",
  );
  mkdirSync(join(folder, "backups"), { recursive: true });
  const backups = found(blocks, "tandem backup");
  const [make = "", restore = ""] = backups.trim().split("\n");
  await shell.run(make);
  const [file = ""] = readdirSync(join(folder, "backups"));
  await shell.run(restore.replace(/tandem-\d+T\d+Z\.backup/, file));
  expect(readdirSync(join(folder, "data-2"))).toContain("data.mdb");
});

test("the command of README that goes on until it is stopped shows what happens to a job", async () => {
  const [line = ""] = found(blocksOf("README.md"), "jobs failing").match(/^.*jobs watch.*$/m) ?? [];
  const child = spawn("bash", ["-c", `exec ${line}`], { env: shell.environment });
  const ended = once(child, "exit");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const errors = createInterface({ input: child.stderr })[Symbol.asyncIterator]();
  expect((await errors.next()).value).toBe("tandem: watching");
  await node.call("PUT", "/_replicator/watched", { source: "films", target: "films-copy" });
  expect((await lines.next()).value).toMatch(/^2.*Z {2}added +_replicator\/watched$/);
  child.kill("SIGINT");
  expect(await ended).toEqual([0, null]);
});

test("the commands about budgets and secrets end well", async () => {
  const [budget = ""] = blocksOf("docs/api/budgets.md");
  await shell.run(budget);
  const { body: budgets } = await node.call("GET", "/_tandem/budgets");
  expect(JSON.stringify(budgets)).toContain('"requests_per_sec":50');
  const [rotate = "", others = ""] = blocksOf("docs/security.md");
  expect(await shell.run(rotate)).not.toBe("");
  expect(await shell.run(others)).toContain("0 jobs found");
});

test("the commands about backups end well", async () => {
  const [block = ""] = blocksOf("docs/backup.md");
  mkdirSync(join(folder, "backups"), { recursive: true });
  rmSync(join(folder, "data-2"), { recursive: true, force: true });
  await shell.run(block);
  expect(readdirSync(join(folder, "data-2"))).toContain("data.mdb");
});
