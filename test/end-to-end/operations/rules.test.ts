/**
 * Rules between servers, with every command of docs/whole-servers.md. Meanwhile, databases are
 * created and deleted, security objects change, and nodes are killed. `TANDEM_DATABASES=500` runs a
 * larger test.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Answer,
  onceAnswered,
  Processes,
  type TandemProcess,
} from "../../support/open-process.ts";
import { pageCommands, pageJson } from "../../support/pages/page-commands.ts";
import { tandem as run } from "../../support/tandem-command.ts";

const PAGE = readFileSync(new URL("../../../docs/whole-servers.md", import.meta.url), "utf8");
const COUNT = Number(process.env.TANDEM_DATABASES ?? 20);

const processes = new Processes();
const folder = processes.directory();
const store = processes.directory();
const ini = "[replicator]\npark_after_sec = 1\ncheckpoint_interval = 1000\n";
let source: TandemProcess;
let target: TandemProcess;
let nodes: TandemProcess[];

beforeAll(async () => {
  const environment = { COUCHDB_USER: "admin", COUCHDB_PASSWORD: "secret" };
  [source, target] = await Promise.all([
    processes.open({ environment }),
    processes.open({ environment }),
  ]);
  nodes = [await openNode(), await openNode()];
});
afterAll(() => processes.close());

const openNode = () => processes.open({ directory: store, ini });

const withCredentials = ({ url }: TandemProcess) => url.replace("://", "://admin:secret@");

/** Sends a request to a server as its administrator. */
async function ask(
  { url }: TandemProcess,
  method: string,
  path: string,
  body?: unknown,
): Promise<Answer> {
  const authorization = `Basic ${Buffer.from("admin:secret").toString("base64")}`;
  const response = await fetch(url + path, {
    method,
    headers: { authorization, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}

async function fill(name: string): Promise<void> {
  await ask(source, "PUT", `/${name}`);
  await ask(source, "PUT", `/${name}/first`, { of: name });
}

async function tandem(
  flags: readonly string[],
): Promise<{ readonly code: number; readonly output: string }> {
  const environment = { TANDEM_SERVER: (nodes[0] as TandemProcess).url };
  const { code, output, errors } = await run(flags, { environment, directory: folder });
  return { code, output: output + errors };
}

/** Waits until the status of the rule matches. */
function onceStatus(expected: Readonly<Record<string, unknown>>) {
  return onceAnswered(
    nodes,
    async () => (await (nodes[0] as TandemProcess).call("GET", "/_tandem/rules/users")).body,
    ({ status }) => Object.entries(expected).every(([name, value]) => status?.[name] === value),
  );
}

/** Returns the page, with the addresses of the servers in this test. */
const page = () =>
  PAGE.replaceAll("https://a.example/", `${source.url}/`).replaceAll(
    "https://b.example/",
    `${target.url}/`,
  );

/** Returns the words of the shell commands on the page, by code block. */
function commands(): readonly (readonly (readonly string[])[])[] {
  const withSecrets = page()
    .replaceAll(`--all ${source.url}/`, `--all ${withCredentials(source)}/`)
    .replaceAll(` ${target.url}/ `, ` ${withCredentials(target)}/ `);
  return pageCommands(withSecrets);
}

const name = (number: number) => `user-${number}x`;
const securityOf = (member: string) => ({ members: { names: [member], roles: [] } });

test("the commands of docs/whole-servers.md copy a server, and create, show, change and remove a rule for the server", async () => {
  const [rule = ""] = pageJson(page());
  writeFileSync(join(folder, "users.json"), rule);
  for (let number = 0; number < COUNT; number++) await fill(name(number));
  await fill("user-test7");
  await ask(source, "PUT", `/${name(0)}/_security`, securityOf("joe"));
  const [once = [], put = [], steer = [], end = []] = commands();
  const outputs: string[] = [];
  const run = async (block: readonly (readonly string[])[]) => {
    for (const words of block) {
      const { code, output } = await tandem(words);
      expect([words.join(" "), code, code === 0 ? "" : output]).toEqual([words.join(" "), 0, ""]);
      outputs.push(output);
    }
  };
  await run(once);
  expect(outputs[0]).toContain(`${COUNT} databases, ${COUNT} documents written`);
  expect(outputs[1]).toContain(`${COUNT} databases compared: no differences`);
  expect((await ask(target, "GET", "/user-test7")).status).toBe(404);
  await run(put);
  expect(outputs[2]).toContain(`${COUNT} databases get a job`);
  await onceStatus({ jobs: COUNT, parked: COUNT });
  await run(steer);
  expect(outputs.at(-1)).toContain(`${COUNT} jobs found`);

  // Databases are created and deleted, security objects change, and every original node is
  // replaced.
  for (let number = 0; number < COUNT / 4; number++) {
    await ask(source, "DELETE", `/${name(number)}`);
    await fill(name(COUNT + number));
    await ask(source, "PUT", `/${name(COUNT - 1 - number)}/_security`, securityOf("ann"));
  }
  for (let index = 0; index < 2; index++) {
    await (nodes[index] as TandemProcess).kill();
    nodes[index] = await openNode();
  }
  for (let number = 0; number < COUNT / 4; number++) await fill(name(2 * COUNT + number));
  const count = COUNT + COUNT / 4;
  await onceStatus({ jobs: count, parked: count, failing: 0, databases: count });
  const last = COUNT - 1;
  await onceAnswered(
    nodes,
    async () => (await ask(target, "GET", `/${name(last)}/_security`)).body,
    ({ members }) => members?.names?.[0] === "ann",
  );
  await onceStatus({ parked: count });
  await run([once[1] ?? []]);
  expect(outputs.at(-1)).toContain(`${count} databases compared: no differences`);

  await run(end);
  await onceAnswered(
    nodes,
    async () => (await (nodes[0] as TandemProcess).call("GET", "/_tandem/jobs")).body.total_rows,
    (total) => total === 0,
  );
  expect((await ask(target, "GET", `/${name(last)}`)).status).toBe(200);
});

test("verify reports each of several differing databases, and verify --repair repairs them", async () => {
  const sides = [withCredentials(source), withCredentials(target)];
  const chosen = ["--all", ...sides, "--databases", "shop-*", "--except", "shop-old", "--security"];
  for (const database of ["shop-a", "shop-b", "shop-old"]) await fill(database);
  await ask(target, "PUT", "/shop-gone");
  expect(await tandem(["replicate", ...chosen, "--json"])).toMatchObject({ code: 0 });
  await ask(source, "PUT", "/shop-a/second", {});
  await ask(source, "PUT", "/shop-b/_security", securityOf("joe"));
  await fill("shop-c");
  await ask(source, "PUT", "/shop-c/_security", securityOf("ann"));
  const { code, output } = await tandem(["verify", ...chosen]);
  expect([code, output]).toEqual([1, expect.stringContaining("3 databases compared: 3 differ")]);
  expect(output).toMatch(/shop-a: .*second/);
  expect(output).toContain("security: the security objects differ");
  expect(output).toMatch(
    /shop-c: db_not_found: missing at the target; use --repair or `tandem replicate --all` to create it/,
  );
  expect(output).toContain("shop-gone: only at the target");
  const repaired = await tandem(["verify", ...chosen, "--repair"]);
  // Missing databases are created and filled. The remaining difference is the security object of a
  // database that already existed: it is not changed.
  expect(repaired.output).toContain("3 databases compared: 1 differs");
  expect((await ask(target, "GET", "/shop-c/first")).body).toMatchObject({ of: "shop-c" });
  const copied = { databases: 3, docs_written: 0 };
  const kept = { database: "shop-b", error: "security", reason: expect.stringContaining("keeps") };
  const unnamed = await tandem(["replicate", ...chosen, "--json"]);
  expect(JSON.parse(unnamed.output)).toEqual({ ...copied, ok: false, not_whole: [kept] });
  const other = await tandem(["replicate", ...chosen, "--json", "--overwrite-security", "shop-a"]);
  expect(JSON.parse(other.output)).toEqual({ ...copied, ok: false, not_whole: [kept] });
  expect((await ask(target, "GET", "/shop-b/_security")).body).not.toEqual(securityOf("joe"));
  const named = await tandem(["replicate", ...chosen, "--json", "--overwrite-security", "*-b"]);
  expect(JSON.parse(named.output)).toEqual({ ...copied, ok: true, not_whole: [] });
  expect((await ask(target, "GET", "/shop-b/_security")).body).toEqual(securityOf("joe"));
  expect(await tandem(["verify", ...chosen])).toMatchObject({ code: 0 });
});

test("a database that cannot be copied is reported by name, and the others are copied", async () => {
  const sides = [withCredentials(source), `${withCredentials(target)}/{1}`];
  for (const database of ["odd-7", "odd-x"]) await fill(database);
  const ran = await tandem(["replicate", "--all", ...sides, "--databases", "odd-*"]);
  expect(ran.code).toBe(1);
  expect(ran.output).toContain("2 databases, 1 document written; 1 database is incomplete");
  expect(ran.output).toContain('odd-7: invalid_name: "7" is not a valid database name');
  expect((await ask(target, "GET", "/x/first")).status).toBe(200);
});

test.each([
  ["replicate", ["nosuch*"], [], "no database matches 'nosuch*'"],
  ["verify", ["nosuch*"], [], "no database matches 'nosuch*'"],
  ["verify", ["no*", "shop-a"], ["shop-*"], "no database matches 'no*', 'shop-a', except 'shop-*'"],
])("%s --all fails if --databases %j --except %j matches no database", async (...given) => {
  const [command, databases, except, reason] = given;
  const sides = [withCredentials(source), withCredentials(target)];
  const exceptions = except.length === 0 ? [] : ["--except", ...except];
  const flags = ["--all", ...sides, "--databases", ...databases, ...exceptions];
  expect(await tandem([command, ...flags])).toEqual({ code: 1, output: `tandem: ${reason}\n` });
});

test.each([
  [["--databases", "a*"], "--databases requires --all"],
  [["--overwrite-security", "a*"], "--overwrite-security requires --all"],
  [["--all", "--since", "7"], "--since cannot be combined with --all"],
])("replicate %j is reported as wrong usage", async (flags, reason) => {
  const ran = await tandem(["replicate", source.url, target.url, ...flags]);
  expect([ran.code, ran.output]).toEqual([2, expect.stringContaining(reason)]);
});
