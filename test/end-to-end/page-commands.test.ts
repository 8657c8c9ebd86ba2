/** A shell runs the commands of the README, and of pages that have no test of their own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { pageText, shellBlocks } from "../support/pages/page-blocks.ts";
import { pageJson } from "../support/pages/page-commands.ts";
import { type PageShell, pageShell } from "../support/pages/page-shell.ts";
import { openFoundationDbStore } from "../support/shared-stores.ts";

const processes = new Processes();
const folder = processes.directory();
/**
 * The node that the page is about, and the servers that the page calls couch.example, a.example and
 * b.example.
 */
let node: TandemProcess;
let couch: TandemProcess;
let source: TandemProcess;
let target: TandemProcess;
let data: string;
let shell: PageShell;

beforeAll(async () => {
  const user = { COUCHDB_USER: "user", COUCHDB_PASSWORD: "password" };
  data = processes.directory();
  // Jobs can only be moved between servers with the same uuid.
  const ini = `[couchdb]\nuuid = ${"1234".repeat(8)}\n`;
  [node, couch, source, target] = await Promise.all([
    processes.open({ directory: data, ini }),
    processes.open({ environment: user, ini }),
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
  writeFileSync(join(folder, "password.txt"), "password\n");
});
afterAll(() => processes.close());

/** Credentials for commands that read them from ~/.netrc. The entries of this file have no port. */
const CREDENTIALS = ["SOURCE", "TARGET"]
  .map((side) => `export TANDEM_${side}_USER=user TANDEM_${side}_PASSWORD=password\n`)
  .join("");

/** Every block of these pages is run here, unless a reason is given. */
const PAGES = [
  "README.md",
  "docs/backup.md",
  "docs/clusters.md",
  "docs/command-line.md",
  "docs/configuration.md",
  "docs/five-thousand-databases.md",
  "docs/replicating.md",
  "docs/secrets.md",
  "docs/upgrading.md",
];
const ran = new Set<string>();

/**
 * Returns the shell block of `page` that contains `part`, with the addresses and folders of the
 * test.
 */
function take(page: string, part: string): string {
  const block = shellBlocks(page).find(({ text }) => text.includes(part));
  if (block === undefined) throw new Error(`No block of ${page} has ${part}`);
  ran.add(block.text);
  return block.text
    .replaceAll(/http:\/\/(admin:password@)?127\.0\.0\.1:5984/g, node.url)
    .replaceAll(/https:\/\/(couch|a|b)\.example/g, (_, host: string) => serverOf(host).url)
    .replaceAll("http://couch.example:5984", couch.url)
    .replaceAll("couch.example", new URL(couch.url).host)
    .replaceAll("./data-2", join(folder, "data-2"))
    .replaceAll("./data", join(data, "data"))
    .replaceAll("/backups", join(folder, "backups"))
    .replaceAll("~/", `${folder}/`);
}

function withPassword(server: TandemProcess): string {
  return server.url.replace("://", "://user:password@");
}

function serverOf(host: string): TandemProcess {
  return host === "couch" ? couch : host === "a" ? source : target;
}

async function put(
  server: TandemProcess,
  path: string,
  body?: object,
  expected = 201,
): Promise<void> {
  const authorization = `Basic ${Buffer.from("user:password").toString("base64")}`;
  const { status } = await fetch(`${server.url}${path}`, {
    method: "PUT",
    headers: { authorization, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  expect(status).toBe(expected);
}

test("the first examples of docs/replicating.md copy databases to this node and to another server", async () => {
  await put(couch, "/films");
  const [follow = ""] = pageJson(pageText("docs/replicating.md"));
  const job = follow.replace("https://couch.example", couch.url).replace('"secret"', '"password"');
  writeFileSync(join(folder, "follow.json"), job);
  const output = await shell.run(take("docs/replicating.md", "/_replicate"));
  expect(output).toContain('"docs_written":1');
  expect((await node.call("GET", "/films-copy/1902:a-trip-to-the-moon")).status).toBe(200);
  const compared = await shell.run(take("docs/replicating.md", "tandem replicate http"));
  expect(compared).toContain("no differences");
});

test("the commands about jobs and servers in docs/replicating.md succeed", async () => {
  const endless = /^.*jobs watch.*\n/m;
  const follow = { source: `${couch.url}/films`, target: "films", continuous: true };
  await node.call("PUT", "/_replicator/from-couch", follow);
  expect(
    await shell.run(take("docs/replicating.md", "jobs failing").replace(endless, "")),
  ).not.toBe("");
  await put(source, "/user-1");
  const block = take("docs/replicating.md", "replicate --all");
  const servers = await shell.run(`${CREDENTIALS}${block}`);
  expect(servers).toContain("1 database gets a job: user-1");
});

test("`jobs watch` in docs/replicating.md shows events of a job until it is stopped", async () => {
  const [line = ""] = take("docs/replicating.md", "jobs failing").match(/^.*jobs watch.*$/m) ?? [];
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

test("the commands about a move in docs/replicating.md print the plan of a move, and move a document", async () => {
  const films = `${withPassword(couch)}/films`;
  const document = {
    source: films,
    target: `${films}-copy`,
    create_target: true,
    continuous: true,
  };
  await put(couch, "/_replicator/moved", document);
  await couch.events.event("replication.copied");
  const output = await shell.run(take("docs/replicating.md", "tandem move --from"));
  expect(output).toContain("moved");
  const { body } = await node.call("GET", "/_tandem/jobs/_replicator%2Fmoved");
  expect(body).toMatchObject({ doc_id: "moved", paused: true });
});

test("the rules of docs/five-thousand-databases.md copy users and their databases in both directions", async () => {
  const page = "docs/five-thousand-databases.md";
  const ofPage = (part: string) => shell.run(take(page, part));
  const rules = pageJson(pageText(page)).map((rule) =>
    rule
      .replaceAll("https://a.example", source.url)
      .replaceAll("https://b.example", target.url)
      .replaceAll(
        '"username": "tandem", "password": "secret"',
        '"username": "user", "password": "password"',
      ),
  );
  for (const [index, name] of ["accounts", "users", "back"].entries()) {
    writeFileSync(join(folder, `${name}.json`), rules[index] as string);
  }
  const ann = { name: "ann", type: "user", roles: [], password: "of ann" };
  await put(source, "/_users/org.couchdb.user:ann", ann);
  await put(source, "/userdb-ann");
  const members = { members: { names: ["ann"], roles: [] } };
  await put(source, "/userdb-ann/_security", members, 200);
  await put(source, "/userdb-ann/first", {});

  await ofPage("rules put accounts");
  const asAnn = { authorization: `Basic ${Buffer.from("ann:of ann").toString("base64")}` };
  const atTarget = (path: string, headers: Record<string, string>) =>
    node.onceAnswered(
      async () => (await fetch(`${target.url}${path}`, { headers })).status,
      (status) => status === 200,
    );
  await atTarget("/_session", asAnn);
  await ofPage("rules put users");
  // The copied security object grants the user access to the database. The user's document is
  // copied, too.
  await atTarget("/userdb-ann/first", asAnn);
  await ofPage("rules put back");
  await put(target, "/userdb-ann/second", {});
  const asAdmin = { authorization: `Basic ${Buffer.from("user:password").toString("base64")}` };
  await node.onceAnswered(
    async () => (await fetch(`${source.url}/userdb-ann/second`, { headers: asAdmin })).status,
    (status) => status === 200,
  );
  await ofPage("--behind-sec 60");
  const verified = await shell.run(`${CREDENTIALS}${take(page, "tandem verify --all")}`);
  expect(verified).toContain("no differences");
  for (const rule of ["accounts", "users", "back"]) await shell.run(`tandem rules delete ${rule}`);
  await node.onceAnswered(
    async () => (await node.call("GET", "/_tandem/jobs?rule=users")).body.total_rows,
    (total) => total === 0,
  );
});

test("the other commands of docs/five-thousand-databases.md set a budget and create a key", async () => {
  const page = "docs/five-thousand-databases.md";
  expect(await shell.run(take(page, "budgets set"))).toContain("200");
  await shell.run(take(page, "_global_changes").replace("--netrc", "--user user:password"));
  await shell.run(take(page, "openssl rand"));
  const key = readFileSync(join(folder, "tandem.key"), "utf8");
  expect(Buffer.from(key, "base64")).toHaveLength(32);
});

test("the commands about secrets succeed", async () => {
  expect(await shell.run(take("docs/secrets.md", "secrets rotate"))).not.toBe("");
  const replace = take("docs/secrets.md", "secrets replace");
  await expect(shell.run(replace)).rejects.toThrow(
    /no job logs in to http:\S+ as jan; nothing was changed/,
  );
});

test("the commands about upgrades report that the store has the newest format", async () => {
  const check = await shell.run(take("docs/upgrading.md", "upgrade --check"));
  expect(check).toContain("the store has format 3\nthis version is compatible with the store\n");
  expect(check).toContain('"refused":null');
  expect(await shell.run(take("docs/upgrading.md", "upgrade --enable"))).toContain("format 3");
});

test("the commands about backups succeed", async () => {
  mkdirSync(join(folder, "backups"), { recursive: true });
  rmSync(join(folder, "data-2"), { recursive: true, force: true });
  await shell.run(take("docs/backup.md", "tandem backup"));
  const backups = readdirSync(join(folder, "backups"));
  expect(backups.filter((name) => /^tandem-\d+T\d+Z\.backup$/.test(name))).toHaveLength(1);
  await shell.run(take("docs/backup.md", "tandem restore"));
  expect(readdirSync(join(folder, "data-2"))).toContain("data.mdb");
});

test("the commands about the configuration set a value and print a value", async () => {
  const output = await shell.run(take("docs/configuration.md", "tandem config set"));
  expect(output).toContain("200");
});

test("the completion scripts are written to the folders where shells look for them", async () => {
  const scripts = [
    ".local/share/bash-completion/completions/tandem",
    ".config/fish/completions/tandem.fish",
  ];
  for (const script of scripts) mkdirSync(join(folder, script, ".."), { recursive: true });
  await shell.run(take("docs/command-line.md", "tandem completion"));
  for (const script of scripts) {
    expect(readFileSync(join(folder, script), "utf8")).toContain("tandem");
  }
});

test("the commands for many jobs can be previewed, confirmed and undone", async () => {
  await node.call("PUT", "/paged-one");
  const rule = { source: "local", target: "copy-of-{db}", databases: ["paged-*"] };
  await node.call("PUT", "/_tandem/rules/users", rule);
  await node.onceAnswered(
    () => node.call("GET", "/_tandem/jobs?rule=users"),
    ({ body }) => body.total_rows === 1,
  );
  const output = await shell.run(take("docs/command-line.md", "tandem jobs undo"));
  expect(output).toContain("would pause 1 job:\n  users/paged-one");
  expect(output).toContain("1 job found, 1 changed");
  await node.call("DELETE", "/_tandem/rules/users");
});

test("the commands about nodes show a node, drain it, and undrain it", async () => {
  expect(await shell.run(take("docs/clusters.md", "tandem shares usage"))).toContain("_replicator");
  await shell.run(take("docs/clusters.md", "tandem nodes drain"));
  const { body } = await node.call("GET", "/_tandem/nodes");
  expect(body.nodes).toMatchObject([{ draining: false }]);
});

const clusterFile = process.env.FDB_CLUSTER_FILE;
if (clusterFile === undefined) {
  test.skip("a node starts on FoundationDB (skipped if FDB_CLUSTER_FILE does not name a live cluster)", () => {});
} else {
  test.each(["docs/clusters.md", "docs/configuration.md"])(
    "the command of %s starts a node on FoundationDB",
    async (page) => {
      const [, words = ""] = take(page, "--store foundationdb").match(/^tandem serve (.*)$/m) ?? [];
      const flags = words
        .replace("/etc/foundationdb/fdb.cluster", clusterFile)
        .replace("0.0.0.0", "127.0.0.1")
        .split(" ");
      const opened = await processes.open({ ...openFoundationDbStore(processes), flags });
      expect((await opened.call("GET", "/_up")).status).toBe(200);
    },
  );

  test("the commands of docs/clusters.md copy a store to FoundationDB and back", async () => {
    const { directory: clusterFolder, storeIni = "" } = openFoundationDbStore(processes);
    const config = join(clusterFolder, "copied.ini");
    writeFileSync(config, storeIni);
    const [there = "", back = ""] = take("docs/clusters.md", "tandem store copy")
      .replaceAll("/etc/foundationdb/fdb.cluster", clusterFile)
      .trim()
      .split("\n");
    const run = (line: string): Promise<string> => shell.run(`${line} --config ${config}`);
    const [first, second] = [processes.directory(), processes.directory()];
    const before = await processes.open({ directory: first });
    await before.call("PUT", "/films");
    await before.call("PUT", "/films/a", {});
    await before.stop();
    const copied = await run(there.replace(join(data, "data"), join(first, "data")));
    expect(copied).toContain("copied to foundationdb and compared");
    cpSync(join(first, "data.key"), join(clusterFolder, "data.key"));
    const onCluster = await processes.open({ directory: clusterFolder, storeIni });
    await onCluster.call("PUT", "/films/b", {});
    await onCluster.stop();
    await run(back.replace(join(folder, "data-2"), join(second, "data")));
    cpSync(join(first, "data.key"), join(second, "data.key"));
    const after = await processes.open({ directory: second });
    await after.call("PUT", "/films/c", {});
    const { body } = await after.call("GET", "/films/_changes");
    expect(body.results.map(({ id }: { id: string }) => id)).toEqual(["a", "b", "c"]);
  });
}

test("every block of the tested pages was run, or has a reason not to be run", () => {
  const left = PAGES.flatMap(shellBlocks).filter(
    ({ text, whyNotRun }) => whyNotRun === undefined && !ran.has(text),
  );
  expect(left).toEqual([]);
});
