/**
 * An incident at night: of two hundred jobs, eighty fail in ten ways. They are found, grouped, and
 * fixed group by group, with one command each.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../src/server/index.ts";
import { type HttpProxy, type Intercept, openHttpProxy } from "../support/faults/http-proxy.ts";
import { call, Processes, type TandemProcess } from "../support/open-process.ts";

const MAIN = fileURLToPath(new URL("../../dist/program/main.js", import.meta.url));
const support = (name: string) =>
  fileURLToPath(new URL(`../support/faults/${name}`, import.meta.url));
const fixture = (name: string) =>
  fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url));

const GOOD_COUNT = 120;
const COUNT_OF_EACH = 8;
const DOCUMENT_COUNT = COUNT_OF_EACH;

/** One of the ten ways to fail. */
interface Fault {
  /** Class of the failure, as shown in the list of jobs. */
  readonly class: string;
  readonly host: string;
  readonly job: (number: number) => Readonly<Record<string, unknown>>;
  heal(): Promise<unknown> | unknown;
}

const processes = new Processes();
const directory = processes.directory();
const resolvedNames = join(directory, "resolved");
const proxies: HttpProxy[] = [];
const children: ChildProcess[] = [];
const sockets: Socket[] = [];
const faults = new Map<string, Fault>();
let remote: TandemProcess;
/** A server over TLS whose certificate is not trusted at first, with its port. */
let secure: RunningServer;
let node: TandemProcess;

afterAll(async () => {
  await secure.stop();
  for (const socket of sockets) socket.destroy();
  for (const child of children) {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
  await processes.close();
  for (const proxy of proxies) await proxy.close();
});

const refusal = (status: number, error: string, reason: string): Intercept => {
  const headers = { "content-type": "application/json", "retry-after": "0" };
  return async () => ({ status, headers, body: JSON.stringify({ error, reason }) });
};

/** A proxy in front of the remote server that returns this response until it is fixed. */
async function openFault(
  name: string,
  failureClass: string,
  intercept: Intercept,
  side: "source" | "target" = "source",
): Promise<void> {
  const proxy = await openHttpProxy(remote.url);
  proxies.push(proxy);
  proxy.intercept(intercept);
  faults.set(name, {
    class: failureClass,
    host: new URL(proxy.url).host,
    job: (number) =>
      side === "source"
        ? { source: `${proxy.url}/films`, target: `${name}-${number}` }
        : { source: "here", target: `${proxy.url}/${name}-${number}` },
    heal: () => proxy.intercept((request, forward) => forward(request)),
  });
}

/**
 * A server with a full disk: it creates databases and stores checkpoints, but accepts no documents.
 */
const withoutRoom: Intercept = (request, forward) => {
  const isDocument = /\/_bulk_docs/.test(request.path) || /^\/[^/]+\/[^_]/.test(request.path);
  const isWrite = isDocument && request.method !== "GET";
  return isWrite ? refuseRoom(request, forward) : forward(request);
};
const refuseRoom = refusal(507, "insufficient_storage", "no space left");

beforeAll(async () => {
  const configFile = join(directory, "secure.ini");
  const [certificate, key] = ["server.pem", "server-key.pem"].map(fixture);
  writeFileSync(
    configFile,
    `[ssl]\nenable = true\nport = 0\ncert_file = ${certificate}\nkey_file = ${key}\n`,
  );
  secure = await openServer(readConfig({ port: 0, store: "memory", configFile }, {}), {
    event: () => {},
  });
  const certified = new URL(String(secure.tlsUrl)).host.replace(/^.*:/, "localhost:");
  await fill((method, path, body) => call(`${secure.url}${path}`, method, body), "films");
  remote = await processes.open();
  await fill(remote.call, "films");
  await remote.call("PUT", "/strict");
  const validate = 'function () { throw { forbidden: "not at night" }; }';
  const { body: design } = await remote.call("PUT", "/strict/_design/v", {
    validate_doc_update: validate,
  });

  await openFault("gone", "not_found", refusal(404, "not_found", "Database does not exist."));
  await openFault(
    "login",
    "unauthorized",
    refusal(401, "unauthorized", "Name or password is incorrect."),
  );
  await openFault(
    "rights",
    "forbidden",
    refusal(403, "forbidden", "You are not allowed to access this db."),
  );
  await openFault("silent", "timeout", () => new Promise(() => {}));
  await openFault("busy", "rate_limited", refusal(429, "too_many_requests", "Slow down."));
  await openFault("full", "storage_full", withoutRoom, "target");
  const strict = await openHttpProxy(remote.url);
  proxies.push(strict);
  faults.set("strict", {
    class: "refused_document",
    host: new URL(strict.url).host,
    job: (number) => ({
      source: "here",
      target: `${strict.url}/strict`,
      failure_policy: "crash",
      doc_ids: ["film-0", `film-${number}`],
    }),
    heal: () => remote.call("DELETE", `/strict/_design/v?rev=${design.rev}`),
  });
  const { port } = new URL(remote.url);
  faults.set("name", {
    class: "dns",
    host: `films.localhost:${port}`,
    job: (number) => ({ source: `http://films.localhost:${port}/films`, target: `name-${number}` }),
    heal: () => writeFileSync(resolvedNames, ""),
  });
  faults.set("certificate", {
    class: "tls",
    host: certified,
    job: (number) => ({
      source: `https://${certified}/films`,
      target: `certificate-${number}`,
    }),
    heal: () => configure("replicator", "ssl_trusted_certificates_file", fixture("ca.pem")),
  });
  const hole = await openBlackHole(port);
  faults.set("hole", {
    class: "timeout",
    host: `127.0.0.1:${hole.port}`,
    job: (number) => ({ source: `http://127.0.0.1:${hole.port}/films`, target: `hole-${number}` }),
    heal: () => hole.child.kill("SIGCONT"),
  });

  node = await processes.open({
    directory,
    ini: `[replicator]
max_jobs = 300
connection_timeout = 3000
checkpoint_interval = 500
retries_per_request = 1
health_threshold_sec = 60
min_backoff_penalty_sec = 1
max_backoff_penalty_sec = 2
`,
    environment: {
      TANDEM_LOG_LEVEL: "info",
      NODE_OPTIONS: `--import ${support("resolve.mjs")}`,
      RESOLVED_NAMES: resolvedNames,
    },
  });
  await fill(node.call, "here");
  await node.call("PUT", "/_replicator");
  const good = Array.from({ length: GOOD_COUNT }, (_, number) => ({
    _id: `good-${number}`,
    source: "here",
    target: `good-${number}`,
    continuous: true,
  }));
  const bad = [...faults].flatMap(([name, { job }]) =>
    Array.from({ length: COUNT_OF_EACH }, (_, number) => ({
      _id: `${name}-${number}`,
      ...job(number),
      continuous: true,
    })),
  );
  const docs = [...good, ...bad].map((doc) => ({ create_target: true, ...doc }));
  expect((await node.call("POST", "/_replicator/_bulk_docs", { docs })).status).toBe(201);
});

async function fill(ask: TandemProcess["call"], database: string): Promise<void> {
  await ask("PUT", `/${database}`);
  const docs = Array.from({ length: DOCUMENT_COUNT }, (_, number) => ({ _id: `film-${number}` }));
  await ask("POST", `/${database}/_bulk_docs`, { docs });
}

async function configure(section: string, key: string, value: string): Promise<void> {
  const path = `/_node/_local/_config/${section}/${key}`;
  expect((await node.call("PUT", path, JSON.stringify(value))).status).toBe(200);
}

async function openBlackHole(behind: string) {
  const child = spawn(process.execPath, [support("black-hole.mjs"), behind]);
  children.push(child);
  const [line] = await once(createInterface({ input: child.stdout }), "line");
  child.kill("SIGSTOP");
  const port = Number(line);
  // Fills the accept queue. Two connections suffice, and later ones wait as well, so they are not
  // awaited.
  for (let number = 0; number < 4; number++) {
    const socket = connect({ port, host: "127.0.0.1" });
    socket.on("error", () => {});
    sockets.push(socket);
  }
  return { child, port };
}

async function tandem(...flags: readonly string[]): Promise<string> {
  const command = [MAIN, ...flags, "--server", node.url];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, command, (error, output) =>
      error === null ? resolve(output) : reject(error),
    );
  });
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
const failing = async (query: string): Promise<any> =>
  (await node.call("GET", `/_tandem/jobs?failing=true&limit=200&${query}`)).body;

/** `CLASS HOST` of each failing job, in order. */
async function failures(): Promise<readonly string[]> {
  const { jobs } = await failing("");
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  return jobs.map(({ last_failure: last }: any) => `${last.class} ${last.host}`).toSorted();
}

const ofGroup = (fault: Fault) =>
  Array.from({ length: COUNT_OF_EACH }, () => `${fault.class} ${fault.host}`);

test("eighty failing jobs are found with their causes, and one command fixes each group", async () => {
  const expected = [...faults.values()].flatMap(ofGroup).toSorted();
  await node.onceAnswered(failures, (found) => isDeepStrictEqual(found, expected));
  const { jobs, total_rows: total } = await failing("");
  expect(total).toBe(expected.length);
  const bad = [...faults.keys()].flatMap((name) =>
    Array.from({ length: COUNT_OF_EACH }, (_, number) => `${name}-${number}`),
  );
  expect(new Set(jobs.map(({ doc_id: id }: { doc_id: string }) => id))).toEqual(new Set(bad));
  const groups = [...faults.values()].map(
    (fault) => `${fault.class} ${fault.host} ${COUNT_OF_EACH}`,
  );
  const { body } = await node.call("GET", "/_tandem/failing");
  expect(body.jobs).toBe(total);
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  const found = body.groups.map((group: any) => `${group.class} ${group.host} ${group.count}`);
  expect(found.toSorted()).toEqual(groups.toSorted());
  const listed = await tandem("jobs", "list", "--failing", "--limit", "200");
  expect(listed.match(/_replicator\//g)).toHaveLength(total);
  const printed = await tandem("jobs", "failing");
  for (const { host } of faults.values()) expect(printed).toContain(host);

  let left = total;
  for (const fault of faults.values()) {
    await fault.heal();
    await tandem("jobs", "retry", "--error", fault.class, "--host", fault.host, "--yes");
    left -= COUNT_OF_EACH;
    await node.onceAnswered(failures, (failing) => failing.length === left);
    await expectMetricsToAgree();
  }
});

/**
 * Jobs continue during the scrape: the lists before and after it have to be equal, or it is
 * repeated.
 */
async function expectMetricsToAgree(): Promise<void> {
  const before = await failures();
  const text = await (await fetch(`${node.url}/_node/_local/_prometheus`)).text();
  const after = await failures();
  if (!isDeepStrictEqual(before, after)) return expectMetricsToAgree();
  const shown: string[] = [];
  const line = /^tandem_jobs_failing_by_cause\{class="([^"]*)",host="([^"]*)"\} (\d+)$/gm;
  for (const [, failureClass, host, count] of text.matchAll(line)) {
    shown.push(...Array.from({ length: Number(count) }, () => `${failureClass} ${host}`));
  }
  expect(shown.toSorted()).toEqual(before);
  expect(text).toMatch(new RegExp(`^tandem_jobs_failing ${before.length}$`, "m"));
}
