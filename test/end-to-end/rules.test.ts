/**
 * Rules between servers, with every command of docs/whole-servers.md: databases that are created and deleted meanwhile, security objects
 * that change, nodes that are killed. Larger with `TANDEM_DATABASES=500`.
 */
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Answer,
  onceAnswered,
  Processes,
  type TandemProcess,
} from "../support/open-process.ts";

const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));
const PAGE = readFileSync(new URL("../../docs/whole-servers.md", import.meta.url), "utf8");
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

/** Asks a server as its administrator. */
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

function tandem(
  flags: readonly string[],
): Promise<{ readonly code: number; readonly output: string }> {
  const [node] = nodes as [TandemProcess];
  const env = { ...process.env, NETRC: join(folder, "none"), TANDEM_SERVER: node.url };
  return new Promise((resolve) => {
    const options = { env, cwd: folder };
    const child = execFile(process.execPath, [MAIN, ...flags], options, (_, output, errors) =>
      resolve({ code: child.exitCode ?? -1, output: output + errors }),
    );
  });
}

/** Waits until the rule's status is so. */
function onceStatus(expected: Readonly<Record<string, unknown>>) {
  return onceAnswered(
    nodes,
    async () => (await (nodes[0] as TandemProcess).call("GET", "/_tandem/rules/users")).body,
    ({ status }) => Object.entries(expected).every(([name, value]) => status?.[name] === value),
  );
}

/** The page with the addresses of the servers of this test. */
const page = () =>
  PAGE.replaceAll("https://a.example/", `${source.url}/`).replaceAll(
    "https://b.example/",
    `${target.url}/`,
  );

/** The words of the commands in the page's blocks for a shell, block by block. */
function commands(): readonly (readonly (readonly string[])[])[] {
  const withSecrets = page()
    .replaceAll(`--all ${source.url}/`, `--all ${withCredentials(source)}/`)
    .replaceAll(` ${target.url}/ `, ` ${withCredentials(target)}/ `);
  return [...withSecrets.matchAll(/```sh\n(.*?)```/gs)].map(([, block = ""]) =>
    block
      .trim()
      .split("\n")
      .map((line) => {
        const words = line.replace(/ +#.*/, "").match(/'[^']*'|\S+/g) ?? [];
        return words.map((word) => word.replaceAll("'", "")).slice(1);
      }),
  );
}

const name = (number: number) => `user-${number}x`;
const securityOf = (member: string) => ({ members: { names: [member], roles: [] } });

test("the commands of the page copy, follow, show, change and end what they say", async () => {
  const rule = /```json\n(.*?)```/s.exec(page())?.[1] ?? "";
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
  expect(outputs[1]).toContain(`${COUNT} databases compared: the same on both servers`);
  expect((await ask(target, "GET", "/user-test7")).status).toBe(404);
  await run(put);
  expect(outputs[2]).toContain(`${COUNT} databases get a job`);
  await onceStatus({ jobs: COUNT, parked: COUNT });
  await run(steer);
  expect(outputs.at(-1)).toContain(`${COUNT} jobs found`);

  // Databases come and go, security objects change, and no node that began this is left.
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
  expect(outputs.at(-1)).toContain(`${count} databases compared: the same on both servers`);

  await run(end);
  await onceAnswered(
    nodes,
    async () => (await (nodes[0] as TandemProcess).call("GET", "/_tandem/jobs")).body.total_rows,
    (total) => total === 0,
  );
  expect((await ask(target, "GET", `/${name(last)}`)).status).toBe(200);
});
