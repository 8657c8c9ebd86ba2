/** `/_tandem/jobs`, `/_tandem/budgets` and `tandem jobs`, from a user's view. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../../support/open-process.ts";
import { MAIN, type Ran, tandem as run } from "../../support/tandem-command.ts";

const ADMIN = { COUCHDB_USER: "adm", COUCHDB_PASSWORD: "pass" };
const FOLLOW = "_replicator/follow";
const processes = new Processes();
let node: TandemProcess;
let server: string;

beforeAll(async () => {
  await open();
  await ask("PUT", "/a");
  await ask("PUT", "/a/one", {});
  const follow = { source: "a", target: "b", create_target: true, continuous: true };
  await ask("PUT", "/_replicator/follow", follow);
  await ask("PUT", "/_replicator/broken", { source: "nowhere", target: "b" });
});
afterAll(() => processes.close());

const directory = processes.directory();

async function open(): Promise<void> {
  node = await processes.open({ directory, environment: ADMIN });
  server = node.url.replace("http://", "http://adm:pass@");
}

async function ask(method: string, path: string, body?: unknown) {
  const response = await fetch(node.url + path, {
    method,
    headers: {
      "content-type": "application/json",
      authorization: `Basic ${Buffer.from("adm:pass").toString("base64")}`,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
  return { status: response.status, body: (await response.json()) as any };
}

const tandem = (...flags: readonly string[]): Promise<Ran> => run(["jobs", ...flags]);
const narrow = { environment: { COLUMNS: "60" } };

/** Runs a command that treats its pipes as a terminal, which echoes and edits what is typed. */
function onTerminal(input: string, ...flags: readonly string[]): Promise<Ran> {
  const pretend = "for (const s of [process.stdin, process.stderr]) s.isTTY = true;";
  const load = ["--import", `data:text/javascript,${encodeURIComponent(pretend)}`];
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      [...load, MAIN, "jobs", ...flags, "--server", server],
      (_error, output, errors) => resolve({ code: child.exitCode ?? -1, output, errors }),
    );
    child.stdin?.end(input);
  });
}

function stateOnce(documentId: string, state: string) {
  return node.onceAnswered(
    () => ask("GET", `/_tandem/jobs/${encodeURIComponent(documentId)}`),
    ({ body }) => body.state === state,
  );
}

test("jobs can be listed and filtered", async () => {
  await stateOnce(FOLLOW, "running");
  await stateOnce("_replicator/broken", "crashing");
  const all = await tandem("list", "--server", server);
  expect(all).toMatchObject({ code: 0, errors: "" });
  expect(all.output).toContain("_replicator/follow");
  expect(all.output).toContain("_replicator/broken");
  const crashing = await tandem("list", "--server", server, "--error", "not_found", "--json");
  expect(JSON.parse(crashing.output)).toMatchObject({
    total_rows: 1,
    jobs: [{ doc_id: "broken", failing: true, paused: false, control: [] }],
  });
  const failing = await tandem("list", "--server", server, "--failing", "--sort", "tries");
  expect(failing.output).toContain("_replicator/broken");
  expect(failing.output).toContain("db_not_found");
  const others = await tandem("list", "--server", server, "--no-failing");
  expect(others.output).not.toContain("_replicator/broken");
  expect(others.output).toContain("_replicator/follow");
});

test("a list that filters by name or server ends with exit code 1 if no job matches", async () => {
  const list = (...flags: readonly string[]) => tandem("list", "--server", server, ...flags);
  const unknown = ["--source", "nowhere.example", "--name", "typo/*"];
  expect(await list(...unknown)).toEqual({
    code: 1,
    output: "no jobs match --name typo/* --source nowhere.example\n",
    errors: "",
  });
  const { code, output } = await list(...unknown, "--json");
  expect([code, JSON.parse(output).jobs]).toEqual([1, []]);
  // The exit code is 0, because it is good news that no job is in a bad state.
  const stalled = await list("--stalled", "--no-left-behind");
  expect(stalled).toMatchObject({ code: 0, output: "no jobs match --no-left-behind --stalled\n" });
  expect(await list("--source", "a")).toMatchObject({ code: 0 });
});

test.each([
  [["list", "--source", "nowhere.example", "--failing"], "--failing", 1],
  [["list", "--host", "nowhere.example"], "--host nowhere.example", 1],
  [["list", "--source", "a", "--stalled"], "--source a --stalled", 0],
  [["list", "--source", "a", "--name", "_replicator/broken"], "--source a", 0],
  [["pause", "--source", "nowhere.example", "--yes"], "--source nowhere.example", 1],
  [["cancel", "--name", "typo/*", "--dry-run"], "--name typo/*", 1],
  [["cancel", "--rule", "typo"], "--rule typo", 1],
  [["retry", "--stalled", "--yes"], "--stalled", 0],
  [["events", "--job", "typo/x"], "--job typo/x", 1],
  [["events", "--endpoint", "nowhere.example"], "--endpoint nowhere.example", 1],
  [["events", "--job", FOLLOW, "--kind", "lost"], `--kind lost --job ${FOLLOW}`, 0],
])(
  "%j finds nothing: the output says so, and the exit code is 1 if no job has the name",
  async (flags, words, code) => {
    const ran = await tandem(...flags, "--server", server);
    expect(ran).toMatchObject({ code, errors: "" });
    expect(ran.output).toMatch(/^no (jobs|events) match [^\n]+\n$/);
    expect(ran.output).toContain(words);
  },
);

test("settings and errors fit into the width of the output", async () => {
  const lines = async (...flags: string[]) => {
    const ran = await run([...flags, "--server", server], narrow);
    return (ran.output + ran.errors).split("\n");
  };
  const settings = await lines("config", "list");
  expect(settings).toContain("[replicator]");
  // Whether a line should have been wrapped. A single long word is not wrapped, so that it can be
  // copied.
  const isBroken = (line: string) => line.length > 60 && line.trim().includes(" ");
  expect(settings.filter(isBroken)).toEqual([]);
  const error = await lines("jobs", "pause", "--failing", "--why", "x".repeat(2_000), "--yes");
  expect(error.length).toBeGreaterThan(1);
  expect(error.filter(isBroken)).toEqual([]);
});

test("events fit into the width of the output", async () => {
  const flags = ["jobs", "events", "--job", "_replicator/broken", "--server", server];
  const { output } = await run(flags, narrow);
  expect(output).toMatch(/_replicator\/broken\S* *\n {4}\S/);
  expect(output.split("\n").filter((line) => line.length > 60)).toEqual([]);
});

test("failing jobs are shown in groups, each with the command that applies to the group", async () => {
  const { code, output } = await tandem("failing", "--server", server);
  expect(code).toBe(0);
  const [head = "", row = "", ...rest] = output.split("\n");
  expect(head).toMatch(/^JOBS +ERROR +SIDE +HOST +SINCE \(UTC\) +NEXT$/);
  expect(row).toMatch(/^1 +not_found +source +- +\d{4}-\d\d-\d\d \d\d:\d\d +(\d\d:\d\d|-)$/);
  expect(output.split("\n").every((line) => line.length <= 80)).toBe(true);
  const command = rest.find((line) => line.startsWith("    tandem jobs ")) ?? "";
  const [, , ...flags] = command.trim().split(" ");
  expect(flags.slice(0, 3)).toEqual(["retry", "--error", "not_found"]);
  const steered = await tandem(...flags, "--yes", "--server", server);
  expect(steered.output).toMatch(/^1 job found, /);
});

test("a paused job stays paused after a restart, and still shows the user who paused it", async () => {
  const paused = await tandem("pause", FOLLOW, "--server", server);
  expect(paused).toMatchObject({ code: 0, output: "done\n" });
  await stateOnce(FOLLOW, "pending");
  await node.stop();
  await open();
  const shown = await tandem("show", FOLLOW, "--server", server);
  expect(shown.output).toMatch(/state +paused \(pending\)/);
  expect(shown.output).toMatch(/pause +by adm/);
  const all = await tandem("resume", "--source", "a", "--yes", "--server", server);
  expect(all.output).toMatch(/^1 job found, 1 changed\nTo undo: tandem jobs undo [0-9a-f]{32}\n$/);
  await stateOnce(FOLLOW, "running");
});

test("a command for several jobs can be previewed, confirmed and undone", async () => {
  const preview = await tandem("pause", "--all", "--dry-run", "--server", server);
  expect(preview).toMatchObject({ code: 0, errors: "" });
  expect(preview.output).toBe("would pause 2 jobs:\n  _replicator/broken\n  _replicator/follow\n");
  const refused = await tandem("pause", "--name", "_replicator/", "--server", server);
  expect(refused.code).toBe(2);
  expect(refused.errors).toContain("add --yes to pause 2 jobs, such as _replicator/");
  expect((await ask("GET", "/_tandem/jobs?paused=true")).body.total_rows).toBe(0);
  const paused = await tandem("pause", "--name", "*/follow", "--yes", "--server", server);
  expect(paused.output).toMatch(/^1 job found, 1 changed\n/);
  // A job that a user has paused remains paused.
  expect((await tandem("pause", "--all", "--yes", "--server", server)).output).toMatch(
    /^2 jobs found, 1 changed, 1 needed no change\n/,
  );
  for (let count = 0; count < 25; count++) await ask("POST", "/_tandem/jobs/_retry?name=none");
  const undone = await tandem("undo", "--server", server);
  expect(undone).toMatchObject({
    code: 0,
    output: "2 jobs found, 1 changed, 1 needed no change\n",
  });
  const { body } = await ask("GET", "/_tandem/jobs?paused=true");
  expect(body.jobs.map(({ name }: { readonly name: string }) => name)).toEqual([FOLLOW]);
  const [, , id = ""] = /undo ((\w+))/.exec(paused.output) ?? [];
  expect((await tandem("undo", id, "--server", server)).output).toMatch(/^1 job found, 1 changed/);
  const listed = await tandem("commands", "--server", server);
  expect(listed.output.split("\n")[1]).toMatch(/^[0-9a-f]{32} +resume .* completed +1\/1 +adm$/);
  await stateOnce(FOLLOW, "running");
});

test("a command that is cancelled meanwhile is not reported as done", async () => {
  const id = "0".repeat(32);
  const cancelled = { id, state: "cancelled", matched: 3000, done: 260, changed: 250, failed: 0 };
  const stub = createServer((request, response) => {
    const isStart = request.method === "POST";
    response.writeHead(isStart ? 202 : 200, {
      "Content-Type": "application/json",
      Location: `/_tandem/commands/${id}`,
    });
    response.end(JSON.stringify(isStart ? { ok: true, id, matched: 3000 } : cancelled));
  }).listen(0, "127.0.0.1");
  await once(stub, "listening");
  const { port } = stub.address() as AddressInfo;
  try {
    const ran = await tandem("reset", "--all", "--yes", "--server", `http://127.0.0.1:${port}`);
    expect([ran.code, ran.output]).toEqual([
      1,
      "cancelled after 260 of 3000 jobs, 250 changed, 10 needed no change\n",
    ]);
  } finally {
    stub.close();
  }
});

test("the confirmation prompt on a terminal contains no control codes", async () => {
  const question = "This would pause 2 jobs:\n  _replicator/broken\n  _replicator/follow\n";
  expect(await onTerminal("n\n", "pause", "--all")).toEqual({
    code: 2,
    output: "",
    errors: `${question}pause them? [y/N] tandem: not confirmed: nothing has changed\n`,
  });
  const { errors, output } = await onTerminal("y\n", "retry", "--name", "*/broken");
  expect(errors).toBe("This would retry 1 job:\n  _replicator/broken\nretry them? [y/N] ");
  expect(output).toMatch(/^1 job found/);
});

test("past events, including those of a removed job, can be filtered and read page by page", async () => {
  const job = { source: "a", target: "gone", create_target: true, continuous: true };
  const { body } = await ask("PUT", "/_replicator/gone", job);
  await ask("DELETE", `/_replicator/gone?rev=${body.rev}`);
  const asked = ["events", "--job", "_replicator/gone", "--kind", "added,removed"];
  const list = (...flags: string[]) => tandem(...asked, "--server", server, ...flags);
  const line = (change: string) =>
    new RegExp(`^\\d{4}-\\S+Z {2}${change} +_replicator/gone\\n`, "m");
  const first = await list("--limit", "1");
  expect(first.output).toMatch(line("removed"));
  const [, place = ""] = /^More: --before (\w{24})\n$/m.exec(first.output) ?? [];
  const second = await list("--before", place);
  expect(second.output).toMatch(line("added"));
  expect(second.output).not.toContain("removed");
  const none = await list("--endpoint", "elsewhere.example");
  expect(none.code).toBe(1);
  expect(none.output).toMatch(/^no events match .*--endpoint elsewhere.example\n$/);
  const wrong = await list("--kind", "fainted");
  expect([wrong.code, wrong.errors]).toEqual([2, expect.stringContaining("Unknown kind fainted")]);
});

test("if no documents have failed, the command says so", async () => {
  const { output } = await tandem("failures", FOLLOW, "--server", server);
  expect(output).toBe("no documents failed\n");
});

test.each([
  [["pause"], 2, "expected the id of one job"],
  [["cancel", "--name", "", "--paused", "--dry-run"], 2, "--name must not be empty"],
  [["pause", ""], 2, "argument 'id' is empty: expected a value"],
  [["start-from", FOLLOW, ""], 2, "argument 'sequence' is empty"],
  [
    ["pause", "_replicator/unknown"],
    1,
    "There is no job _replicator/unknown: use DATABASE/DOCUMENT, RULE/DATABASE",
  ],
  [
    ["show", "j4"],
    1,
    "There is no job j4: use DATABASE/DOCUMENT, RULE/DATABASE, or an id shown by",
  ],
  [["list", "--limit", "x"], 2, "query_parse_error"],
  [["list", "--sort", "foo"], 2, "sort"],
  [["watch", "--error", "foo"], 2, "error"],
  [["retry", "--state"], 2, "argument missing"],
])("tandem jobs %j ends with exit code %i: %s", async (flags, code, text) => {
  const ran = await tandem(...flags, ...(flags.includes("--state") ? [] : ["--server", server]));
  expect(ran.code).toBe(code);
  expect(ran.errors).toContain(text);
  expect(ran.errors).not.toContain("pass@");
});

test("the message about an unresponsive server does not contain the password", async () => {
  const ran = await tandem("list", "--server", "http://adm:secret@127.0.0.1:9");
  expect(ran.code).toBe(1);
  expect(ran.errors).not.toContain("secret");
});

test.each([
  ["GET", "/_tandem/budgets", undefined, 200, { total_rows: 0, budgets: [] }],
  ["PUT", "/_tandem/budgets/a.example", { read: { requests_per_sec: 5 } }, 201, { ok: true }],
  ["PUT", "/_tandem/budgets/a.example", { read: { megabytes_per_sec: 1.5 } }, 200, { ok: true }],
  [
    "GET",
    "/_tandem/budgets/A.example",
    undefined,
    200,
    { read: { megabytes_per_sec: 1.5 }, write: {} },
  ],
  ["DELETE", "/_tandem/budgets/a.example", undefined, 200, { ok: true }],
  [
    "DELETE",
    "/_tandem/budgets/a.example",
    undefined,
    404,
    {
      error: "not_found",
      reason:
        "There is no budget a.example: /_tandem/budgets and `tandem budgets list` show the names",
    },
  ],
  [
    "PUT",
    "/_tandem/budgets/a.example",
    { read: { requests_per_sec: "5" } },
    400,
    {
      error: "bad_request",
      reason: '`read.requests_per_sec` = "5": expected a number above 0',
    },
  ],
  [
    "POST",
    "/_tandem/jobs/_pause",
    undefined,
    400,
    {
      error: "bad_request",
      reason:
        "Select jobs by name, state, database, rule, error, side, failing, left_behind, paused, parked, stalled, owner, tag, source, target, source_database, target_database, host, reason, behind, behind_sec, unknown, or select all jobs with all=true",
    },
  ],
  [
    "POST",
    "/_tandem/jobs/_replicator%2Ffollow/_start_from",
    {},
    400,
    {
      error: "bad_request",
      reason:
        '`since` must be an update sequence of the source, like 12, "12-g1AA" or [12,"g1AA"], or an existing time like 2026-01-31T12:00:00Z, but is null',
    },
  ],
  ["POST", "/_tandem/jobs/_replicator%2Ffollow/_start_from", { since: 0 }, 200, { ok: true }],
])("%s %s %j gets status %i", async (method, path, body, status, expected) => {
  expect(await ask(method, path, body)).toEqual({ status, body: expected });
});

test("job events are shown as they occur, even after the server was temporarily unreachable", async () => {
  const child = spawn(process.execPath, [MAIN, "jobs", "watch", "--paused", "--server", server]);
  const ended = once(child, "exit");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const errors = createInterface({ input: child.stderr })[Symbol.asyncIterator]();
  const decide = (command: string) => ask("POST", `/_tandem/jobs/_replicator%2Ffollow/_${command}`);
  // Resolves when `change` is reported. Skips other events of the running job, because its stops
  // and starts can be reported before or after `change`.
  const reported = async (change: string): Promise<void> => {
    const { value, done } = await lines.next();
    expect(done, "the command goes on").toBe(false);
    if (!new RegExp(`^2.*Z  ${change} +_replicator/follow$`).test(value)) await reported(change);
  };
  expect((await errors.next()).value).toBe("tandem: watching");
  await decide("pause");
  await reported("paused");
  await node.stop();
  expect((await errors.next()).value).toMatch(/reconnecting$/);
  node = await processes.open({ directory, port: node.port, environment: ADMIN });
  await decide("resume");
  await reported("resumed");
  child.kill("SIGINT");
  expect(await ended).toEqual([0, null]);
});
