/**
 * The `tandem` command from a user's view: error messages, exit codes, and commands that talk to a
 * server.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Processes, type TandemNode } from "../../support/open-process.ts";
import { MAIN, type Ran, tandem as run, tandemProcess } from "../../support/tandem-command.ts";

const processes = new Processes();
const folder = mkdtempSync(join(tmpdir(), "tandem-test-"));
let node: TandemNode;
/** A node without administrators. */
let open: TandemNode;
let environment: Record<string, string>;

beforeAll(async () => {
  [node, open] = await Promise.all([
    processes.openHere({ environment: { COUCHDB_USER: "adm", COUCHDB_PASSWORD: "pass" } }),
    processes.openHere(),
  ]);
  await open.call("PUT", "/a");
  environment = { TANDEM_SERVER: node.url, TANDEM_USER: "adm", TANDEM_PASSWORD: "pass" };
});
afterAll(async () => {
  await processes.close();
  rmSync(folder, { recursive: true });
});

const tandem = (flags: readonly string[], more: Record<string, string> = {}): Promise<Ran> =>
  run(flags, { environment: more });

describe("failures are reported in a sentence", () => {
  test("a port used by another program", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => other.once("listening", resolve));
    const { port } = other.address() as { port: number };
    const ran = await tandemProcess([
      "serve",
      "--port",
      String(port),
      "--data-dir",
      join(folder, "a"),
    ]);
    other.close();
    expect(ran).toMatchObject({
      code: 1,
      errors: `tandem: port ${port} of 127.0.0.1: another program listens there; choose another port with --port or [chttpd] port, 0 for any free port\n`,
    });
  });

  test.each([["file"], ["file/below"]])("a data folder whose path is %s", async (path) => {
    writeFileSync(join(folder, "file"), "");
    const dataDirectory = join(folder, path);
    expect(await tandemProcess(["serve", "--port", "0", "--data-dir", dataDirectory])).toEqual({
      code: 2,
      output: "",
      errors: `tandem: data folder ${dataDirectory}: the path or one of its parents is a file\n`,
    });
  });

  test.each<[string[], number, string]>([
    [
      ["--bind-address", "192.0.2.1", "--port", "0"],
      // The exit code is 1, because the address might become available once the network is up.
      1,
      "bind address 192.0.2.1: no network interface of this machine has this address; choose one with --bind-address or [chttpd] bind_address",
    ],
    [["--data-dir", "/proc/a/b"], 2, "the data folder /proc/a/b cannot be made"],
    [
      ["--store", "foundationdb", "--cluster-file", "/none/fdb.cluster"],
      2,
      "FoundationDB's cluster file cannot be read at /none/fdb.cluster: set --cluster-file",
    ],
  ])(
    "serve %j ends with exit code %i, which is 2 if a restart cannot help",
    async (flags, code, sentence) => {
      const ran = await tandemProcess(["serve", "--data-dir", join(folder, "b"), ...flags], {
        environment: { COUCHDB_USER: "adm", COUCHDB_PASSWORD: "pass" },
      });
      expect(ran.code).toBe(code);
      expect(ran.errors).toContain(sentence);
    },
  );

  test.each<[string[], number, string]>([
    [["nodes", "drain", ""], 2, "argument 'name' is empty: expected a value"],
    [["shares", "set", "", "5"], 2, "argument 'group' is empty"],
    [["config", "unset", "log", ""], 2, "argument 'key' is empty"],
    [["shares", "set", "group", "abc"], 2, "[replicator.shares] group = abc: expected an integer"],
    [["jobs", "list", "--state", "foo"], 2, "Unknown state foo"],
    [["nodes", "drain", "nope"], 1, "There is no node nope: use a name or id shown by"],
    [["rules", "show", "nope"], 1, "There is no rule nope: /_tandem/rules and"],
    [["rules", "delete", "nope"], 1, "There is no rule nope: /_tandem/rules and"],
    [["budgets", "remove", "nope"], 1, "There is no budget nope: /_tandem/budgets and"],
  ])("%j ends with exit code %i", async (flags, code, sentence) => {
    const ran = await tandem(flags, environment);
    expect(ran.errors).toContain(sentence);
    expect(ran.code).toBe(code);
  });

  test("an unreachable server", async () => {
    expect(await tandem(["nodes", "list", "--server", "http://127.0.0.1:1"])).toEqual({
      code: 1,
      output: "",
      errors:
        "tandem: could not reach http://127.0.0.1:1/_tandem/nodes: the connection was refused\n",
    });
  });

  test("a request without credentials", async () => {
    const ran = await tandem(["nodes", "list", "--server", node.url]);
    expect(ran.code).toBe(1);
    expect(ran.errors).toMatch(/^tandem: 401 unauthorized: .*TANDEM_USER and TANDEM_PASSWORD/);
    expect(ran.errors).toContain(`no credentials were sent to ${node.url}`);
  });

  test.each<[string, Record<string, string>, string]>([
    [
      "",
      {},
      "no credentials were sent to SERVER; specify a user and password in the URL, in TANDEM_FROM_USER",
    ],
    [
      "",
      { TANDEM_FROM_USER: "eve", TANDEM_FROM_PASSWORD: "no" },
      "the credentials of eve from TANDEM_FROM_USER were sent to SERVER",
    ],
    ["una:no@", {}, "the credentials of una from the URL were sent to SERVER"],
    [
      "",
      { TANDEM_USER: "eve", TANDEM_PASSWORD: "no" },
      "the credentials of eve from TANDEM_USER were sent to SERVER",
    ],
  ])("a move whose old server refuses %j with %j", async (inUrl, variables, words) => {
    const from = node.url.replace("//", `//${inUrl}`);
    const ran = await tandem(["move", "--from", from, "--server", open.url], variables);
    expect(ran.code).toBe(1);
    expect(ran.errors).toContain("tandem: 401 unauthorized: ");
    expect(ran.errors).toContain(`(${words.replace("SERVER", node.url)}`);
    expect(ran.errors).toContain("TANDEM_FROM_PASSWORD");
  });

  test.each<[string[], Record<string, string>, string]>([
    [
      ["replicate", "--all", "SERVER", "OPEN"],
      {},
      "no credentials were sent to SERVER; specify a user and password in the URL, in TANDEM_SOURCE_USER",
    ],
    [
      ["replicate", "SERVER/a", "SERVER/b"],
      { TANDEM_SOURCE_USER: "eve", TANDEM_SOURCE_PASSWORD: "no-secret" },
      "the credentials of eve from TANDEM_SOURCE_USER were sent to SERVER",
    ],
    [
      ["verify", "OPEN/a", "SERVER/a"],
      { TANDEM_TARGET_USER: "eve", TANDEM_TARGET_PASSWORD: "no-secret" },
      "the credentials of eve from TANDEM_TARGET_USER were sent to SERVER",
    ],
    [["verify", "UNA/a", "OPEN/a"], {}, "the credentials of una from the URL were sent to SERVER"],
    [
      ["replicate", "SERVER/a", "OPEN/a"],
      { NETRC: "NETRC" },
      "the credentials of nora from ~/.netrc were sent to SERVER",
    ],
    [
      ["replicate", "--all", "UNA", "OPEN"],
      {},
      "the credentials of una from the URL were sent to SERVER",
    ],
    [
      ["verify", "--all", "UNA", "OPEN"],
      {},
      "the credentials of una from the URL were sent to SERVER",
    ],
    [
      ["replicate", "--all", "OPEN", "UNA/{db}"],
      {},
      "the credentials of una from the URL were sent to SERVER",
    ],
  ])(
    "the message about a rejected login names the user and where the credentials come from: %j with %j",
    async (words, given, cause) => {
      const netrc = join(folder, "netrc");
      writeFileSync(netrc, "default login nora password no-secret\n");
      const una = node.url.replace("//", "//una:no-secret@");
      const flags = words.map((word) =>
        word.replace("SERVER", node.url).replace("OPEN", open.url).replace("UNA", una),
      );
      const variables = given.NETRC === undefined ? given : { NETRC: netrc };
      const { code, errors } = await tandem(flags, variables);
      expect(code).toBe(1);
      expect(errors).toContain(cause.replace("SERVER", node.url));
      expect(errors).not.toContain("no-secret");
    },
  );

  // These tests run concurrently, because each of them retries for eight seconds.
  test.concurrent.each([["replicate"], ["verify"]])(
    "%s reports an unknown host immediately, and again at the end",
    async (command) => {
      const ran = await tandem([command, "http://nowhere.invalid/a", "http://nowhere.invalid/b"]);
      expect(ran.code).toBe(1);
      const [first, ...more] = ran.errors.split("\n").filter((line) => line.startsWith("tandem:"));
      expect(first).toMatch(
        /could not reach http:\/\/nowhere\.invalid\/\S*: the name of the host \S+.*; retrying$/,
      );
      expect(more.at(-1)).toMatch(
        /could not reach http:\/\/nowhere\.invalid\/\S*: the name of the/,
      );
      expect(ran.errors).not.toMatch(/ENOTFOUND|EAI_AGAIN|UND_ERR|\bat .*\.js:/);
    },
  );

  test.each<[string[], string]>([
    [["serve", "--prot", "1"], "Did you mean --port?"],
    [["jobs", "lst"], "Did you mean list?"],
    [["serve", "--port", "65536"], "expected 0 to 65535"],
    [["jobs", "list", "--server", "ftp://x"], "--server ftp://x: expected http://HOST:PORT"],
    [
      ["nodes", "list", "--server", "http://h/prefix"],
      "--server http://h/prefix: expected http://HOST:PORT without a path",
    ],
    [["nodes", "list", "--server", "http://h/?a=b"], "--server http://h/?a=*****: expected"],
    [
      ["jobs", "watch", "--server", "http://u:100%@h"],
      "--server http://u:*****@h: write a percent sign in a user or password as %25",
    ],
    [["move", "--from", "http://50%:p@h"], "--from http://50%:*****@h: write a percent sign"],
    [["budgets", "set", "x"], "budgets set: expected limits, such as --read requests_per_sec=50"],
    [["budgets", "set", "x", "--read", "many"], "expected a limit such as requests_per_sec=50"],
    [["replicate", "http://h/a", "/x"], "TARGET /x: expected the http:// or https:// URL of a"],
    [["replicate", "a", "http://h/a"], "SOURCE a: expected the http:// or https:// URL of a"],
    [["verify", "http://h/a", "u:secret@h/a"], "TARGET u:*****@h/a: expected the http:// or"],
    [
      ["replicate", "http://h/a", "http://h/b", "--connect-to", "h:443"],
      "option '--connect-to <address>' argument 'h:443' is invalid. expected HOST:PORT:TARGET:PORT",
    ],
    [
      ["verify", "http://h/a", "http://h/b", "--target-auth-file", "/none/such.json"],
      "--target-auth-file /none/such.json: ENOENT",
    ],
    [["serve", "--config", "/none/such.ini"], "config file /none/such.ini: no such file"],
  ])("wrong usage ends with exit code 2: %j", async (flags, sentence) => {
    const ran = await tandem(flags);
    expect(ran.code).toBe(2);
    expect(ran.errors).toContain(sentence);
  });
});

describe("a password mistyped into another argument is not printed", () => {
  const none = "http://127.0.0.1:1";
  const budget = ["--read", "requests_per_sec=3", "--server", none];
  test.each<[string[], string]>([
    [["jobs", "list", "--server", "u:secret@h"], "--server u:*****@h: expected http://HOST:PORT"],
    [
      ["nodes", "list", "--server", "http://u:se/cret@h:1"],
      "--server http://u:*****@h:1: expected",
    ],
    [["move", "--from", "u:secret@h"], "--from u:*****@h: expected http://HOST:PORT"],
    [["replicate", "--all", none, "http:u:secret@h:1/b"], "TARGET http:u:*****@h:1/b: expected"],
    [["verify", "--all", "http://u:se/cret@h", none], "SOURCE http://u:*****@h: expected"],
    [["budgets", "set", "u:secret@h", ...budget], "budget name u:*****@h: expected HOST"],
    [
      ["budgets", "set", "http://u:secret@h/", ...budget],
      "budget name http://u:*****@h/: expected",
    ],
  ])("%j", async (flags, sentence) => {
    const { code, output, errors } = await tandem(flags);
    expect([code, output]).toEqual([2, ""]);
    expect(errors).toContain(`tandem: ${sentence}`);
    expect(errors).not.toContain("cret");
  });
});

test.each([
  ["completion", "zsh"],
  ["config", "list"],
])(
  "a command prints no error if the reader of its output closes the pipe: tandem %s %s",
  async (...flags) => {
    const child = spawn(process.execPath, [MAIN, ...flags], {
      env: { ...process.env, ...environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.stdout.destroy();
    const ended = once(child, "exit");
    let errors = "";
    for await (const text of child.stderr) errors += text;
    expect([await ended, errors]).toEqual([[1, null], ""]);
  },
);

test("a node whose terminal is closed returns its jobs to the queue before it exits", async () => {
  const { child, log } = await processes.open();
  const closed = once(child, "close");
  child.kill("SIGHUP");
  expect(await closed).toEqual([0, null]);
  expect(log()).toContain("jobs.worker-cleared");
});

test.each([
  ["-", undefined],
  ["empty", ""],
  ["line-break", "\n"],
])(
  "a missing password is an error rather than an empty password: --password-file %s",
  async (name, text) => {
    const file = name === "-" ? name : join(folder, name);
    if (text !== undefined) writeFileSync(file, text);
    const flags = ["--host", "http://couch.example", "--username", "anna", "--password-file", file];
    expect(await tandem(["secrets", "replace", ...flags], environment)).toEqual({
      code: 2,
      output: "",
      errors: `tandem: --password-file ${file}: the file contains no password\n`,
    });
  },
);

test.each([
  [
    "not JSON",
    '{"oauth2": {"client_secret": "s3"',
    'expected a JSON object such as {"oauth2": {…}}',
  ],
  ["a list", '["s3"]', 'expected a JSON object such as {"oauth2": {…}}'],
  ["empty", "", "the file contains no credentials"],
])(
  "an invalid file of credentials is an error that does not repeat them: %s",
  async (_, text, fault) => {
    const file = join(folder, "auth");
    writeFileSync(file, text);
    const flags = ["--host", "http://couch.example", "--username", "c", "--auth-file", file];
    expect(await tandem(["secrets", "replace", ...flags], environment)).toEqual({
      code: 2,
      output: "",
      errors: `tandem: --auth-file ${file}: ${fault}\n`,
    });
  },
);

test("`tandem secrets replace` reads the new secret of an OAuth client from a file", async () => {
  const auth = (client_secret: string) => ({
    oauth2: { token_url: "http://127.0.0.1:1/token", client_id: "client", client_secret },
  });
  const source = { url: "http://127.0.0.1:1/a", auth: auth("old") };
  const job = { source, target: "http://127.0.0.1:1/b", continuous: true };
  expect((await open.call("PUT", "/_replicator/client", job)).status).toBe(201);
  const file = join(folder, "auth");
  writeFileSync(file, JSON.stringify(auth("new")));
  const account = ["--host", "http://127.0.0.1:1", "--username", "client"];
  const flags = ["secrets", "replace", ...account, "--auth-file", file];
  expect(await tandem(flags, { TANDEM_SERVER: open.url })).toEqual({
    code: 0,
    output: "1 job found: 1 with a document, 0 without; 1 changed, 0 refused\n",
    errors: "",
  });
  const { body } = await open.call("GET", "/_replicator/client");
  expect(body.source.auth).toEqual(auth("new"));
});

test("replacing a password fails if no job uses the account", async () => {
  const file = join(folder, "new-password");
  writeFileSync(file, "new\n");
  const account = ["--host", "http://u:p@couch.example", "--username", "anna"];
  const flags = ["secrets", "replace", ...account, "--password-file", file];
  for (const more of [[], ["--dry-run"], ["--failing"], ["--side", "source"]]) {
    expect(await tandem([...flags, ...more], environment)).toEqual({
      code: 1,
      output: "no job logs in to http://u:*****@couch.example as anna; nothing was changed\n",
      errors: "",
    });
  }
});

test("replacing a password in failing jobs reports the number of other jobs with the same account", async () => {
  const job = {
    source: "http://anna:old@127.0.0.1:1/a",
    target: "http://127.0.0.1:1/b",
    continuous: true,
  };
  expect((await open.call("PUT", "/_replicator/others", job)).status).toBe(201);
  const file = join(folder, "new-password");
  writeFileSync(file, "new\n");
  const account = ["--host", "http://127.0.0.1:1", "--username", "anna"];
  const flags = ["secrets", "replace", ...account, "--password-file", file, "--failing"];
  const none = "0 jobs found: 0 with a document, 0 without";
  const other = "1 other job logs in to http://127.0.0.1:1 as anna";
  expect(await tandem([...flags, "--dry-run"], { TANDEM_SERVER: open.url })).toEqual({
    code: 0,
    output: `${none}; nothing was changed\n${other}; it does not match --failing and was not changed\n`,
    errors: "",
  });
  expect(await tandem([...flags, "--side", "source"], { TANDEM_SERVER: open.url })).toEqual({
    code: 0,
    output: `${none}; 0 changed, 0 refused\n${other}; it does not match --failing --side source and was not changed\n`,
    errors: "",
  });
});

test("commands show, change and reset settings", async () => {
  const config = async (...flags: string[]) => {
    const { code, output, errors } = await tandem(["config", ...flags], environment);
    expect([code, errors]).toEqual([0, ""]);
    return output;
  };
  expect(await config("set", "replicator", "max_jobs", "77")).toBe(
    "done; the previous value was 500\n",
  );
  expect(await config("get", "replicator", "max_jobs")).toBe("77\n");
  expect(await config("list", "replicator")).toMatch(/^\[replicator\]\nmax_jobs = 77\n/);
  expect(await config("list")).toContain("max_jobs = 77\n");
  expect(await config("unset", "replicator", "max_jobs")).toBe("done; the previous value was 77\n");
  expect(await config("get", "replicator", "max_jobs")).toBe("500\n");
  const gone = await tandem(["config", "get", "replicator", "max_jbos"], environment);
  expect(gone).toMatchObject({ code: 1, errors: "tandem: 404 not_found: unknown_config_value\n" });
});

test.each([
  [
    "replicator",
    "max_jbos",
    "[replicator] max_jbos is not a setting; did you mean [replicator] max_jobs?",
  ],
  ["chttp", "port", "[chttp] port is not a setting; did you mean [chttpd] port?"],
  ["couchdb", "use_cfile", "[couchdb] use_cfile has no effect: databases are not separate files"],
  ["cors:http://a", "origins", undefined],
  ["vendor", "name", undefined],
])(
  "a change of the setting [%s] %s causes a warning, because the setting has no effect",
  async (section, key, warning) => {
    expect(await tandem(["config", "set", section, key, "3"], environment)).toEqual({
      code: 0,
      output: "done\n",
      errors: warning === undefined ? "" : `tandem: ${warning}\n`,
    });
    await tandem(["config", "unset", section, key], environment);
  },
);

test("commands set and list shares and budgets", async () => {
  const done = async (...flags: string[]) => {
    const { code, output, errors } = await tandem(flags, environment);
    expect([code, errors]).toEqual([0, ""]);
    return output;
  };
  expect(await done("shares", "list")).toBe("every group has 100 shares\n");
  await done("shares", "set", "_replicator", "300");
  expect(await done("shares", "list")).toMatch(/^GROUP\s+SHARES\n_replicator\s+300\n$/);
  const limits = [
    "--read",
    "requests_per_sec=50",
    "documents_per_sec=9",
    "--write",
    "megabytes_per_sec=2",
  ];
  await done("budgets", "set", "couch.example", ...limits);
  const listed = await done("budgets", "list");
  expect(listed).toMatch(
    /couch\.example\s+requests_per_sec=50 documents_per_sec=9\s+megabytes_per_sec=2/,
  );
  await done("budgets", "remove", "couch.example");
  expect(await done("budgets", "list")).toBe("there are no budgets\n");
  expect(await done("endpoints")).toBe("no job copies from or to another server\n");
  expect(await done("shares", "usage")).toMatch(/^GROUP\s+SHARES\s+USAGE\s+RUNNING/);
  expect(await done("nodes", "list")).toMatch(/^NODE\s+ID\s+PROCESS\s+STATE\s+JOBS.*\ntandem@/);
});

test("docs/command-line.md documents every command", async () => {
  const page = readFileSync(new URL("../../../docs/command-line.md", import.meta.url), "utf8");
  const rows = page.split("\n").filter((line) => line.startsWith("| `tandem "));
  const { output } = await tandem(["completion", "bash"]);
  const paths = [...output.matchAll(/'tandem (\S+)(?: (\S+))?'\) words=/g)];
  expect(paths.length).toBeGreaterThan(50);
  const lacking = paths.filter(([, command, step = ""]) => {
    const cells = rows.filter((row) => row.includes(`\`tandem ${command}`));
    return !cells.some((row) => (row.split(" | ")[0] ?? "").split(/[`\s|\\,]+/).includes(step));
  });
  expect(lacking.map(([path]) => path)).toEqual([]);
});

test("the shell completion offers commands and options", async () => {
  const { output: script } = await tandem(["completion", "bash"]);
  const complete = (...words: string[]): string[] => {
    const line = words.map((word) => `'${word}'`).join(" ");
    const program = `${script}\nCOMP_WORDS=(${line}); COMP_CWORD=${words.length - 1}; _tandem; echo "\${COMPREPLY[@]}"`;
    return spawnSync("bash", ["-c", program], { encoding: "utf8" }).stdout.trim().split(" ");
  };
  expect(complete("tandem", "")).toEqual(expect.arrayContaining(["serve", "jobs", "completion"]));
  expect(complete("tandem", "jobs", "re")).toEqual(["resume", "retry", "reset", "retry-failures"]);
  expect(complete("tandem", "jobs", "list", "--se")).toEqual(["--server"]);
  for (const shell of ["zsh", "fish"]) {
    expect((await tandem(["completion", shell])).output).toContain("start-from");
  }
});

test("the help of every command fits in 80 columns", async () => {
  const check = async (path: readonly string[]): Promise<void> => {
    const { code, output } = await tandem([...path, "--help"]);
    expect(code).toBe(0);
    for (const line of output.split("\n")) expect(line.length, line).toBeLessThanOrEqual(80);
    const [, listed = ""] = output.split("\nCommands:\n");
    const names = [...listed.matchAll(/^ {2}([a-z]\S*)/gm)].map(([, name = ""]) => name);
    const children = names.filter((name) => name !== "help");
    await Promise.all(children.map((name) => check([...path, name])));
  };
  await check([]);
});

test("replicate and verify read the credentials of both endpoints from the environment or ~/.netrc", async () => {
  const netrc = join(folder, "netrc");
  writeFileSync(
    netrc,
    ["127.0.0.1", "localhost"].map((host) => `machine ${host} login adm password pass\n`).join(""),
  );
  const inEnvironment = {
    TANDEM_SOURCE_USER: "adm",
    TANDEM_SOURCE_PASSWORD: "pass",
    TANDEM_TARGET_USER: "adm",
    TANDEM_TARGET_PASSWORD: "pass",
  };
  const sides = [`${node.url}/_replicator`, `${node.url}/copy`];
  expect((await tandem(["replicate", ...sides, "--create-target"])).code).toBe(1);
  const copied = await tandem(["replicate", ...sides, "--create-target"], inEnvironment);
  expect(copied).toMatchObject({ code: 0 });
  expect(await tandem(["verify", ...sides], { NETRC: netrc })).toMatchObject({ code: 0 });
  const there = node.url.replace("127.0.0.1", "localhost");
  const all = ["verify", "--all", node.url, there, "--databases", "copy"];
  expect((await tandem(all)).code).toBe(1);
  expect(await tandem(all, { NETRC: netrc })).toMatchObject({ code: 0 });
  expect(await tandem(all, inEnvironment)).toMatchObject({ code: 0 });
});
