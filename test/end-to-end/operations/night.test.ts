/**
 * An incident at night: jobs fail in eighteen ways, while other jobs are healthy. The causes of the
 * failures are found, and the failing jobs are reported in groups. One command fixes each group.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";
import { closedPort } from "../../support/closed-port.ts";
import { type HttpProxy, type Intercept, openHttpProxy } from "../../support/faults/http-proxy.ts";
import { call, Processes, type TandemProcess } from "../../support/open-process.ts";
import { patience } from "../../support/runner/patience.ts";
import { tandem as run } from "../../support/tandem-command.ts";

const support = (name: string) =>
  fileURLToPath(new URL(`../../support/faults/${name}`, import.meta.url));
const fixture = (name: string) =>
  fileURLToPath(new URL(`../../fixtures/tls/${name}`, import.meta.url));

const GOOD_COUNT = 20;
const COUNT_OF_EACH = 3;
/** Number of jobs with a wrong password. A server locks an account after fewer failed logins. */
const COUNT_OF_LOGINS = 8;
const DOCUMENT_COUNT = 8;
/** Number of groups that are fixed concurrently. */
const FIXED_AT_ONCE = 6;
/**
 * Failure classes for which the node probes the server. Jobs with such failures can recover before
 * the command is run.
 */
const PROBED = new Set(["dns", "unreachable", "timeout", "tls"]);
const ADMIN = "admin:of-admin";
const RIGHT = "right-password";

/** One of the ways in which jobs fail. */
interface Fault {
  readonly class: string;
  readonly side: "source" | "target";
  readonly host: string;
  /** Pattern of the status and message of the cause, as shown to operators. */
  readonly words: RegExp;
  readonly job: (number: number) => Readonly<Record<string, unknown>>;
  /** Number of jobs with this fault. Default: `COUNT_OF_EACH`. */
  readonly count?: number;
  heal(): Promise<unknown> | unknown;
  /** Command that fixes the group after `heal`. By default, the command retries the group. */
  readonly command?: readonly string[];
}

/** Body of a message with alerts. */
interface Message {
  readonly status: string;
  readonly count: number;
  readonly alerts: readonly { readonly job: { readonly doc_id: string } | null }[];
}

const processes = new Processes();
const directory = processes.directory();
const resolvedNames = join(directory, "resolved");
const newPassword = join(directory, "password.txt");
const proxies: HttpProxy[] = [];
const servers: RunningServer[] = [];
const children: ChildProcess[] = [];
const sockets: Socket[] = [];
const faults = new Map<string, Fault>();
const messages: Message[] = [];
/** A server without accounts. */
let remote: TandemProcess;
/** A server with accounts. It locks an account after wrong passwords, as CouchDB 3.5 does. */
let peer: TandemProcess;
let node: TandemProcess;

afterAll(async () => {
  for (const server of servers) await server.stop();
  for (const socket of sockets) socket.destroy();
  for (const child of children) {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
  await processes.close();
  for (const proxy of proxies) await proxy.close();
});

const countOf = ({ count = COUNT_OF_EACH }: Fault): number => count;

const refusal =
  (status: number, body: string, type = "application/json"): Intercept =>
  async () => ({ status, headers: { "content-type": type, "retry-after": "0" }, body });
const errorOf = (error: string, reason: string): string => JSON.stringify({ error, reason });

/** Adds a fault of the server at `url`, or of one database on that server. */
function addFault(
  name: string,
  url: string,
  fault: Pick<Fault, "class" | "words" | "heal"> &
    Partial<Fault> & { readonly database?: string; readonly more?: object; readonly auth?: object },
): void {
  const { side = "source", database = "films", more = {}, auth, ...others } = fault;
  const at = (path: string) =>
    auth === undefined ? `${url}/${path}` : { url: `${url}/${path}`, auth };
  faults.set(name, {
    side,
    host: new URL(url).host,
    job: (number) =>
      side === "source"
        ? { source: at(database), target: `${name}-${number}`, ...more }
        : { source: "here", target: at(`${name}-${number}`), ...more },
    ...others,
  });
}

async function openProxy(): Promise<HttpProxy> {
  const proxy = await openHttpProxy(remote.url);
  proxies.push(proxy);
  return proxy;
}

/**
 * Opens a proxy in front of the remote server. Until the fault is fixed, the proxy returns this
 * response.
 */
async function openFault(
  name: string,
  failureClass: string,
  words: RegExp,
  intercept: Intercept,
  side: Fault["side"] = "source",
): Promise<void> {
  const proxy = await openProxy();
  proxy.intercept(intercept);
  const heal = () => proxy.intercept((request, forward) => forward(request));
  addFault(name, proxy.url, { class: failureClass, side, words, heal });
}

/**
 * Simulates a server with a full disk, which creates databases and stores checkpoints, but accepts
 * no documents.
 */
const withoutRoom: Intercept = (request, forward) => {
  const isDocument = /\/_bulk_docs/.test(request.path) || /^\/[^/]+\/[^_]/.test(request.path);
  const isWrite = isDocument && request.method !== "GET";
  return isWrite ? refuseRoom(request, forward) : forward(request);
};
const refuseRoom = refusal(507, errorOf("insufficient_storage", "no space left"));

/** A filter that keeps all documents except design documents. */
const KEEP = "function (doc) { return !doc._id.startsWith('_'); }";
const LOGIN_PAGE = "<html><head><title>Welcome</title></head><body>Please log in</body></html>";
const BAD_GATEWAY = "<html><body><h1>502 Bad Gateway</h1><hr>nginx</body></html>";

beforeAll(async () => {
  [remote, peer] = await Promise.all([
    processes.open(),
    processes.open({
      ini: "[admins]\nadmin = of-admin\n[chttpd_auth_lockout]\nmode = enforce\nthreshold = 5\n",
    }),
  ]);
  await fill(remote.call, "films");
  await fill(atPeer, "films");
  await fill(atPeer, "private");
  for (const name of ["copier", "stranger"]) {
    const user = { name, password: RIGHT, roles: [], type: "user" };
    await atPeer("PUT", `/_users/org.couchdb.user:${name}`, user);
  }
  await openTo("films", "copier");
  await openFault("silent", "timeout", /./, () => new Promise(() => {}));
  await openFault(
    "busy",
    "rate_limited",
    /429.*Slow down/,
    refusal(429, errorOf("too_many_requests", "Slow down.")),
  );
  await openFault("full", "storage_full", /507.*no space left/, withoutRoom, "target");
  await openFault(
    "down",
    "server_error",
    /503.*maintenance/,
    refusal(503, errorOf("unavailable", "in maintenance")),
  );
  await openFault("partial", "server_error", /501/, refusal(501, "Not here", "text/plain"));
  await openFault(
    "gateway",
    "server_error",
    /502.*Bad Gateway/,
    refusal(502, BAD_GATEWAY, "text/html"),
  );
  await openFault("portal", "other", /200.*Please log in/, refusal(200, LOGIN_PAGE, "text/html"));
  addFault("gone", remote.url, {
    ...{ class: "not_found", words: /could not open .*absent/, database: "absent" },
    heal: () => fill(remote.call, "absent"),
  });
  addFault("password", peer.url, {
    ...{ class: "unauthorized", words: /401.*Name or password is incorrect/ },
    auth: { basic: { username: "copier", password: "mistyped" } },
    count: COUNT_OF_LOGINS,
    heal: () => writeFileSync(newPassword, `${RIGHT}\n`),
    command: ["secrets", "replace", "--host", `${peer.url}/`, "--username", "copier"].concat(
      "--password-file",
      newPassword,
    ),
  });
  const stranger = { auth: { basic: { username: "stranger", password: RIGHT } } };
  addFault("rights", peer.url, {
    ...{ class: "forbidden", words: /403.*not allowed to access this db/, database: "private" },
    ...stranger,
    heal: () => openTo("private", "stranger"),
  });
  addFault("creation", peer.url, {
    ...{ class: "forbidden", words: /not a server admin/i, side: "target", ...stranger },
    heal: async () => {
      for (let number = 0; number < COUNT_OF_EACH; number++) {
        await atPeer("PUT", `/creation-${number}`);
        await openTo(`creation-${number}`, "stranger");
      }
    },
  });
  for (const [name, filter, words] of [
    ["throws", "function () { throw new Error('at night'); }", /at night/],
    ["absent-filter", undefined, /_design\/f/],
  ] as const) {
    await fill(remote.call, name);
    const filters = filter === undefined ? {} : { keep: filter };
    const path = `/${name}/_design/f`;
    const { body } = await remote.call("PUT", path, { filters });
    addFault(name, (await openProxy()).url, {
      ...{ class: "filter", words, database: name, more: { filter: "f/keep" } },
      heal: () =>
        remote.call("PUT", `${path}?rev=${body.rev}`, {
          filters: { keep: KEEP },
        }),
    });
  }
  await remote.call("PUT", "/strict");
  const validate = 'function () { throw { forbidden: "not at night" }; }';
  const { body: design } = await remote.call("PUT", "/strict/_design/v", {
    validate_doc_update: validate,
  });
  const strict = (await openProxy()).url;
  addFault("strict", strict, {
    ...{ class: "refused_document", words: /not at night/, side: "target" },
    job: (number) => ({
      source: "here",
      target: `${strict}/strict`,
      failure_policy: "crash",
      doc_ids: ["film-0", `film-${number}`],
    }),
    heal: () => remote.call("DELETE", `/strict/_design/v?rev=${design.rev}`),
  });
  const { port } = new URL(remote.url);
  // The reported cause is the unresolvable host name, although the step that fails is reading the
  // filter.
  await fill(remote.call, "filtered");
  await remote.call("PUT", "/filtered/_design/f", { filters: { keep: KEEP } });
  addFault("name", `http://films.localhost:${port}`, {
    ...{ class: "dns", words: /nxdomain.*films\.localhost/s },
    ...{ database: "filtered", more: { filter: "f/keep" } },
    heal: () => writeFileSync(resolvedNames, ""),
  });
  const free = await closedPort();
  addFault("refused", `http://127.0.0.1:${free}`, {
    ...{ class: "unreachable", words: /refused/i },
    heal: () => openMemory(readConfig({ port: free, store: "memory" }, {})),
  });
  const secure = await openSecure();
  addFault("certificate", secure, {
    ...{ class: "tls", words: /certificate/ },
    heal: () => configure("replicator", "ssl_trusted_certificates_file", fixture("ca.pem")),
  });
  const hole = await openBlackHole(port);
  addFault("hole", `http://127.0.0.1:${hole.port}`, {
    ...{ class: "timeout", words: /./ },
    heal: () => hole.child.kill("SIGCONT"),
  });

  node = await processes.open({
    directory,
    ini: `[replicator]
connection_timeout = 2000
checkpoint_interval = 500
retries_per_request = 1
health_threshold_sec = 60
min_backoff_penalty_sec = 300
max_backoff_penalty_sec = 600
[alerts]
url = ${await openReceiver()}
events = failing
group_sec = 5
`,
    environment: {
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
  const bad = [...faults].flatMap(([name, fault]) =>
    Array.from({ length: countOf(fault) }, (_, number) => ({
      _id: `${name}-${number}`,
      ...fault.job(number),
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

async function atPeer(method: string, path: string, body?: unknown, user = ADMIN) {
  const response = await fetch(`${peer.url}${path}`, {
    method,
    headers: { "content-type": "application/json", authorization: `Basic ${btoa(user)}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}

/** Adds the user `name` to the members of a database. */
function openTo(database: string, name: string): Promise<unknown> {
  const members = { names: [name], roles: [] };
  return atPeer("PUT", `/${database}/_security`, { members });
}

async function openMemory(config: ReturnType<typeof readConfig>): Promise<RunningServer> {
  const server = await openServer(config, { event: () => {} });
  servers.push(server);
  await fill((method, path, body) => call(`${server.url}${path}`, method, body), "films");
  return server;
}

/** Opens a server over TLS. Its certificate is not trusted at first. */
async function openSecure(): Promise<string> {
  const configFile = join(directory, "secure.ini");
  const [certificate, key] = ["server.pem", "server-key.pem"].map(fixture);
  writeFileSync(
    configFile,
    `[ssl]\nenable = true\nport = 0\ncert_file = ${certificate}\nkey_file = ${key}\n`,
  );
  const { tlsUrl } = await openMemory(readConfig({ port: 0, store: "memory", configFile }, {}));
  return `https://localhost:${new URL(String(tlsUrl)).port}`;
}

let onMessage = (): void => {};

/** Opens a receiver of alerts, and returns its URL. */
async function openReceiver(): Promise<string> {
  const receiver = createServer(async (request, response) => {
    let text = "";
    for await (const piece of request) text += piece;
    messages.push(JSON.parse(text));
    response.end();
    onMessage();
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  processes.onClose(async () => {
    receiver.closeAllConnections();
    receiver.close();
  });
  return `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
}

/**
 * Resolves once messages with this status have reported this number of jobs. Returns the messages.
 */
async function reported(status: string, count: number): Promise<readonly Message[]> {
  for (;;) {
    const found = messages.filter((message) => message.status === status);
    if (found.reduce((sum, message) => sum + message.count, 0) >= count) return found;
    await patience.until(
      `an alert: ${status}`,
      new Promise<void>((resolve) => {
        onMessage = resolve;
      }),
    );
  }
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
  // Fills the accept queue; two connections suffice. The connections are not awaited, because those
  // beyond the queue are only established when the process resumes.
  for (let number = 0; number < 4; number++) {
    const socket = connect({ port, host: "127.0.0.1" });
    socket.on("error", () => {});
    sockets.push(socket);
  }
  return { child, port };
}

async function tandem(...flags: readonly string[]): Promise<string> {
  const { code, output, errors } = await run([...flags, "--server", node.url]);
  if (code !== 0) throw new Error(errors);
  return output;
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
const jobsWith = async (query: string): Promise<any> =>
  (await node.call("GET", `/_tandem/jobs?limit=200&${query}`)).body;

const placeOf = ({ class: failureClass, side, host }: Omit<Fault, "job" | "heal" | "words">) =>
  `${failureClass} ${side} ${host}`;

/** Lists class, side and host of each failing job, in order. */
async function failures(): Promise<readonly string[]> {
  const { jobs } = await jobsWith("failing=true");
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  return jobs.map(({ last_failure: last }: any) => placeOf(last)).toSorted();
}

const ofGroup = (fault: Fault) => Array.from({ length: countOf(fault) }, () => placeOf(fault));
const isAbout = (name: string, documentId: string) => documentId.replace(/-\d+$/, "") === name;

test("every failing job is found with its cause, and one command fixes each group", async () => {
  const all = [...faults.values()];
  const expected = all.flatMap(ofGroup).toSorted();
  const badCount = expected.length;
  await node.onceAnswered(failures, (found) => isDeepStrictEqual(found, expected));
  await expectCauses();
  await expectGroups();
  await expectProof();
  await expectMetricsToAgree();
  const firing = await reported("firing", badCount);
  // Each job is reported once. One message covers all jobs with the same cause.
  expect(firing.flatMap(({ alerts }) => alerts)).toHaveLength(badCount);
  expect(firing.length).toBeLessThan(badCount);
  for (const { alerts } of firing) {
    const kinds = new Set(alerts.map(({ job }) => String(job?.doc_id).replace(/-\d+$/, "")));
    expect(kinds.size).toBe(1);
  }

  // Retrying with the wrong password does not lock the account.
  await tandem("jobs", "retry", "--error", "unauthorized", "--yes");
  await node.onceAnswered(failures, (found) => isDeepStrictEqual(found, expected));
  expect((await atPeer("GET", "/films", undefined, `copier:${RIGHT}`)).status).toBe(200);

  let left = badCount;
  for (let first = 0; first < all.length; first += FIXED_AT_ONCE) {
    const some = all.slice(first, first + FIXED_AT_ONCE);
    await Promise.all(some.map(fix));
    left -= some.reduce((sum, fault) => sum + countOf(fault), 0);
    await node.onceAnswered(failures, (failing) => failing.length === left);
  }
  await expectProof();
  await expectMetricsToAgree();
  expect((await tandem("jobs", "failing")).trim()).toBe("no failing jobs");
  await reported("resolved", badCount);
});

/**
 * Removes the cause of a fault. Then runs the one command for the group of failing jobs, which must
 * find exactly these jobs.
 */
async function fix(fault: Fault): Promise<void> {
  await fault.heal();
  const group = ["--error", fault.class, "--side", fault.side, "--host", fault.host];
  const printed = await tandem(...(fault.command ?? ["jobs", "retry", ...group, "--yes"]));
  if (!PROBED.has(fault.class)) expect(printed).toContain(`${countOf(fault)} jobs found`);
}

/** Checks the class, status and message of each job's failure. */
async function expectCauses(): Promise<void> {
  const { jobs, total_rows: total } = await jobsWith("failing=true");
  const listed = await tandem("jobs", "list", "--failing", "--limit", "200");
  expect(listed.match(/_replicator\//g)).toHaveLength(total);
  for (const [name, fault] of faults) {
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    const own = jobs.filter(({ doc_id: id }: any) => isAbout(name, id));
    expect([name, own.length]).toEqual([name, countOf(fault)]);
    for (const { last_failure: last } of own) {
      expect([name, placeOf(last)]).toEqual([name, placeOf(fault)]);
      const shown = `${last.error}: ${last.reason}`;
      expect(`${name}: ${shown}`).toMatch(fault.words);
      expect(shown).not.toMatch(/mistyped|right-password/);
    }
  }
}

/** Checks the groups in the API and on the command line. */
async function expectGroups(): Promise<void> {
  const { body } = await node.call("GET", "/_tandem/failing");
  const printed = (await tandem("jobs", "failing")).replaceAll(/\s+/g, " ");
  expect(body.groups).toHaveLength(faults.size);
  for (const fault of faults.values()) {
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    const group = body.groups.find((each: any) => placeOf(each) === placeOf(fault));
    expect(group.count).toBe(countOf(fault));
    expect(`${group.error}: ${group.reason}`).toMatch(fault.words);
    const words = group.reason.replace(/^.*?[:(] ?(?=[^:(]*$)/s, "").replaceAll(/\s+/g, " ");
    expect(printed).toContain(words.replace(/\)$/, ""));
    const fix =
      fault.class === "unauthorized"
        ? "secrets replace --failing"
        : `jobs retry --error ${fault.class}`;
    expect(printed).toContain(`tandem ${fix} --side ${fault.side} --host`);
    expect(printed).toContain(`${fault.host}`);
  }
}

/** Checks that each job reported as caught up has copied everything. */
async function expectProof(): Promise<void> {
  const { jobs } = await jobsWith("behind=false");
  for (const { doc_id: id, failing, target } of jobs) {
    expect([id, failing]).toEqual([id, false]);
    const { pathname, port } = new URL(target);
    if (Number(port) !== node.port) continue;
    const { body } = await node.call("GET", pathname);
    expect([id, body.doc_count]).toEqual([id, DOCUMENT_COUNT]);
  }
}

/**
 * Compares the metrics with the list of jobs. Jobs continue during the scrape, so the comparison is
 * repeated until the lists before and after the scrape are equal.
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
  const pairs = before.map((place) => place.replace(/ (source|target) /, " "));
  expect(shown.toSorted()).toEqual(pairs.toSorted());
  expect(text).toMatch(new RegExp(`^tandem_jobs_failing ${before.length}$`, "m"));
}
