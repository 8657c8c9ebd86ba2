/** The commands of README and of pages that have no test of their own, run by a shell as they stand there. */
import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../support/open-process.ts";

const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));

const processes = new Processes();
const folder = processes.directory();
const programs = join(folder, "programs");
/** The node of the page, and the servers that it calls couch.example, a.example and b.example. */
let node: TandemProcess;
let couch: TandemProcess;
let source: TandemProcess;
let target: TandemProcess;
let data: string;

beforeAll(async () => {
  const user = { COUCHDB_USER: "user", COUCHDB_PASSWORD: "password" };
  data = processes.directory();
  [node, couch, source, target] = await Promise.all([
    processes.open({ directory: data }),
    processes.open({ environment: user }),
    processes.open({ environment: user }),
    processes.open({ environment: user }),
  ]);
  mkdirSync(programs);
  const run = `exec ${process.execPath} ${MAIN} "$@"`;
  writeFileSync(join(programs, "tandem"), `#!/bin/sh\n${run}\n`);
  writeFileSync(join(programs, "npx"), `#!/bin/sh\n[ "$1" = tandem ] || exit 9\nshift\n${run}\n`);
  for (const name of readdirSync(programs)) chmodSync(join(programs, name), 0o755);
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

/** Runs the lines of a block one by one, so that each has to succeed. What the shell printed. */
async function run(block: string): Promise<string> {
  const env = {
    ...process.env,
    PATH: `${programs}:${process.env.PATH}`,
    TANDEM_SERVER: node.url,
    NETRC: join(folder, "none"),
  };
  const script = block.replaceAll("curl ", "curl --silent --show-error --fail ");
  return new Promise((resolve, reject) => {
    execFile(
      "bash",
      ["-euo", "pipefail", "-c", script],
      { env, cwd: folder },
      (error, out, errors) => {
        if (error === null) resolve(out);
        else reject(new Error(`${script}\n${out}${errors}`));
      },
    );
  });
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
  const output = await run(found(blocks, "/_replicate"));
  expect(output).toContain('"docs_written":1');
  expect((await node.call("GET", "/films-copy/1902:a-trip-to-the-moon")).status).toBe(200);
  expect(await run(found(blocks, "tandem replicate http"))).toContain("the same on both sides");
});

test("the commands of README about jobs, servers and backups end well", async () => {
  const blocks = blocksOf("README.md");
  // It goes on until it is stopped (`command-line.test.ts`).
  const endless = /^.*jobs watch.*\n/m;
  expect(found(blocks, "jobs failing")).toMatch(endless);
  expect(await run(found(blocks, "jobs failing").replace(endless, ""))).not.toBe("");
  await createDatabase(source, "user-1");
  expect(await run(found(blocks, "replicate --all"))).toContain("1 databases get a job: user-1");
  mkdirSync(join(folder, "backups"), { recursive: true });
  const backups = found(blocks, "tandem backup");
  const [make = "", restore = ""] = backups.trim().split("\n");
  await run(make);
  const [file = ""] = readdirSync(join(folder, "backups"));
  await run(restore.replace(/tandem-\d+T\d+Z\.backup/, file));
  expect(readdirSync(join(folder, "data-2"))).toContain("data.mdb");
});

test("the commands about budgets and secrets end well", async () => {
  const [budget = ""] = blocksOf("docs/api/budgets.md");
  await run(budget);
  const { body: budgets } = await node.call("GET", "/_tandem/budgets");
  expect(JSON.stringify(budgets)).toContain('"requests_per_sec":50');
  const [rotate = "", others = ""] = blocksOf("docs/security.md");
  expect(await run(rotate)).not.toBe("");
  expect(await run(others)).toContain("0 jobs found");
});

test("the commands about backups end well", async () => {
  const [block = ""] = blocksOf("docs/backup.md");
  mkdirSync(join(folder, "backups"), { recursive: true });
  rmSync(join(folder, "data-2"), { recursive: true, force: true });
  await run(block);
  expect(readdirSync(join(folder, "data-2"))).toContain("data.mdb");
});
