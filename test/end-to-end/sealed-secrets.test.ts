/** Secrets in every accepted form work, and appear only in responses to authorized users. */
import { readdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { secretsBelow, secretsIn } from "../support/find-secrets.ts";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { tandem, tandemProcess } from "../support/tandem-command.ts";

const processes = new Processes();
const directory = processes.directory();

/** Secrets by the form in which they are stored. The server in `there` accepts only `password`. */
const SECRETS = {
  password: "Kw7-there-password",
  basic: "Kw7-auth-basic-pass",
  basicHeader: "Kw7-authorization-header",
  header: "Kw7-own-header-value",
  cookie: "Kw7-cookie-of-session",
  bearer: "Kw7-bearer-token-text",
  iam: "Kw7-iam-api-key-text",
  client: "Kw7-client+secret&text",
  query: "Kw7-query-token-text",
  proxy: "Kw7-proxy-password-x",
  key: "Kw7-certificate-key-pw",
  user: "Kw7-user-of-this-node",
  setting: "Kw7-secret-of-setting",
  rule: "Kw7-password-of-a-rule",
} as const;
const ALL = Object.values(SECRETS);
const ADMIN_PASSWORD = "admin-of-this-node";
const INI = `[admins]\nadmin = ${ADMIN_PASSWORD}\n[replicator]\nmin_backoff_penalty_sec = 1\n`;
/**
 * Number of entries of `sources()`. Two jobs use each entry: one with a document, and one without.
 */
const FORMS = 12;

let here: TandemProcess;
let there: TandemProcess;

beforeAll(async () => {
  [here, there] = await Promise.all([
    processes.open({
      directory,
      flags: ["--replication-processes", "1"],
      ini: INI,
    }),
    processes.open({ environment: { COUCHDB_USER: "jan", COUCHDB_PASSWORD: SECRETS.password } }),
  ]);
});
afterAll(() => processes.close());

type Asked = { readonly status: number; readonly text: string };

async function ask(
  user: string,
  method: string,
  path: string,
  body?: unknown,
  server: TandemProcess = here,
): Promise<Asked> {
  const response = await fetch(server.url + path, {
    method,
    headers: { "content-type": "application/json", authorization: `Basic ${btoa(user)}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, text: await response.text() };
}

const admin = `admin:${ADMIN_PASSWORD}`;

function sources(): Record<string, object> {
  const gone = "http://127.0.0.1:1/films";
  const there_ = there.url.replace("://", `://jan:${SECRETS.password}@`);
  const basicHeader = { Authorization: `Basic ${btoa(`jan:${SECRETS.basicHeader}`)}` };
  return {
    userinfo: { source: `${there_}/films`, target: "copy", create_target: true },
    basic: {
      source: { url: gone, auth: { basic: { username: "jan", password: SECRETS.basic } } },
    },
    authorization: { source: { url: gone, headers: basicHeader } },
    headers: { source: { url: gone, headers: { "X-Own": SECRETS.header } } },
    cookie: { source: { url: gone, headers: { Cookie: `AuthSession=${SECRETS.cookie}` } } },
    bearer: { source: { url: gone, auth: { bearer: { token: SECRETS.bearer } } } },
    iam: {
      source: {
        url: gone,
        auth: { iam: { api_key: SECRETS.iam, token_url: "http://127.0.0.1:1/token" } },
      },
    },
    client: {
      source: {
        url: gone,
        auth: {
          oauth2: {
            token_url: "http://127.0.0.1:1/token",
            client_id: "c",
            client_secret: SECRETS.client,
          },
        },
      },
    },
    query: { source: `${gone}?token=${SECRETS.query}` },
    proxy: { source: gone, source_proxy: `http://jan:${SECRETS.proxy}@127.0.0.1:1` },
    key: { source: { url: gone, password: SECRETS.key, verify_ssl_certificates: false } },
    refused: {
      source: {
        url: `${there.url}/films`,
        auth: { basic: { username: "jan", password: SECRETS.basic } },
      },
    },
  };
}

test("jobs with secrets of every form can run, fail, change and end", async () => {
  const jan = `jan:${SECRETS.password}`;
  await ask(jan, "PUT", "/films", undefined, there);
  await ask(jan, "PUT", "/films/a", { title: "A" }, there);
  await ask(admin, "PUT", "/_users/org.couchdb.user:sue", {
    name: "sue",
    password: SECRETS.user,
    roles: [],
    type: "user",
  });
  await ask(admin, "PUT", "/_node/_local/_config/proxy/my_secret", SECRETS.setting);
  for (const [form, source] of Object.entries(sources())) {
    const body = { target: `copy-${form}`, continuous: true, ...source };
    expect((await ask(admin, "PUT", `/_replicator/${form}`, body)).status).toBe(201);
    const transient = { ...body, continuous: true, target: `transient-${form}` };
    void (await ask(admin, "POST", "/_replicate", transient));
  }
  const rule = {
    source: {
      url: "http://127.0.0.1:1/",
      auth: { basic: { username: "jan", password: SECRETS.rule } },
    },
    target: `http://jan:${SECRETS.rule}@127.0.0.1:2/{db}`,
  };
  expect((await ask(admin, "PUT", "/_tandem/rules/all", rule)).status).toBe(201);
  const running = () => ask(admin, "GET", "/_tandem/jobs?limit=1000");
  await here.onceAnswered(running, ({ text }) => {
    const { jobs } = JSON.parse(text) as { jobs: { doc_id: string | null; error_count: number }[] };
    const failed = jobs.filter(({ error_count }) => error_count > 0);
    return failed.length >= 2 * (Object.keys(sources()).length - 2);
  });
  const isCopied = () => ask(admin, "GET", "/copy/a");
  await here.onceAnswered(isCopied, ({ status }) => status === 200);
  // Leave superseded bodies in the store: the old body of an edited document, and the last body of
  // a deleted one.
  const stored = JSON.parse((await ask(admin, "GET", "/_replicator/basic")).text);
  await ask(admin, "PUT", "/_replicator/basic", { ...stored, use_checkpoints: false });
  const gone = JSON.parse((await ask(admin, "GET", "/_replicator/bearer")).text);
  await ask(admin, "DELETE", `/_replicator/bearer?rev=${gone._rev}`);
});

test("users who may see a document's secrets get these secrets in responses", async () => {
  const { text } = await ask(admin, "GET", "/_replicator/userinfo");
  expect(text).toContain(SECRETS.password);
  expect((await ask(admin, "GET", "/_replicator/iam")).text).toContain(SECRETS.iam);
});

test("secrets are not in any file of the store, or in any line of the log", async () => {
  expect(secretsBelow(directory, ALL)).toEqual([]);
  expect(secretsIn(here.log(), ALL)).toEqual([]);
});

test("responses do not contain secrets, except responses to authorized users", async () => {
  const views = [
    "/_scheduler/jobs",
    "/_scheduler/docs",
    "/_active_tasks",
    "/_tandem/jobs?limit=1000",
    "/_tandem/rules",
    "/_tandem/rules/all",
    "/_tandem/secrets",
    "/_node/_local/_config",
    "/_node/_local/_stats",
    "/_node/_local/_system",
    "/_node/_local/_prometheus",
  ];
  for (const path of views) {
    const { status, text } = await ask(admin, "GET", path);
    expect([path, status, secretsIn(text, ALL)]).toEqual([path, 200, []]);
  }
  const security = { admins: { names: [], roles: [] }, members: { names: ["sue"], roles: [] } };
  await ask(admin, "PUT", "/_replicator/_security", security);
  const sue = `sue:${SECRETS.user}`;
  const documents = [
    "/_replicator/_all_docs?include_docs=true",
    "/_replicator/_changes?include_docs=true",
    ...Object.keys(sources()).map((form) => `/_replicator/${form}`),
  ];
  for (const path of documents) {
    const { text } = await ask(sue, "GET", path);
    expect([path, secretsIn(text, ALL)]).toEqual([path, []]);
  }
});

test("secrets are not in the arguments or the environment of a node's processes", () => {
  const own = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && isOfNode(pid));
  expect(own.length).toBeGreaterThan(1);
  for (const pid of own) {
    for (const file of ["cmdline", "environ"]) {
      expect(secretsIn(readFileSync(`/proc/${pid}/${file}`), ALL)).toEqual([]);
    }
  }
});

function isOfNode(pid: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(directory);
  } catch {
    return false;
  }
}

test("a command replaces the key while the node serves requests", async () => {
  const before = JSON.parse((await ask(admin, "GET", "/_tandem/secrets")).text);
  const key = readFileSync(join(directory, "data.key"), "utf8");
  const server = here.url.replace("://", `://admin:${ADMIN_PASSWORD}@`);
  const flags = ["secrets", "rotate", "--json", "--server", server];
  const after = JSON.parse((await tandem(flags)).output);
  expect(after.rotation).toMatchObject({ state: "done", unneeded_keys: [before.sealing_key] });
  expect(after.keys_here).toEqual([after.sealing_key]);
  expect(after.sealing_key).not.toBe(before.sealing_key);
  // Minimum number of resealed values: documents, jobs, the session secret and a setting.
  expect(after.rotation.renewed).toBeGreaterThanOrEqual(3 * (FORMS - 1) + 2);
  expect(statSync(join(directory, "data.key")).mode & 0o777).toBe(0o600);
  // The source of the rule can only be shown if the rule was resealed.
  expect((await ask(admin, "GET", "/_tandem/rules/all")).text).toContain('"source"');
  // The replication process uses the new key: it runs a job that only the new key can open.
  await ask(admin, "PUT", "/_replicator/again", {
    source: `${there.url.replace("://", `://jan:${SECRETS.password}@`)}/films`,
    target: "copy-again",
    create_target: true,
  });
  await here.onceAnswered(
    () => ask(admin, "GET", "/copy-again/a"),
    ({ status }) => status === 200,
  );
  expect(
    secretsBelow(directory, [...ALL, ...key.split("\n").filter((line) => line.endsWith("="))]),
  ).toEqual([]);
});

test("a restarted node reads its secrets, but does not start without the key", async () => {
  await here.stop();
  here = await processes.open({ directory, ini: INI });
  expect((await ask(admin, "GET", "/_replicator/userinfo")).text).toContain(SECRETS.password);
  const { text } = await ask(admin, "GET", "/_tandem/jobs?limit=1000");
  expect(JSON.parse(text).jobs.map(({ info }: { info: unknown }) => info)).not.toContain(null);
  await here.stop();
  renameSync(join(directory, "data.key"), join(directory, "kept.key"));
  await expect(processes.open({ directory, ini: INI })).rejects.toThrow(
    /ended with 2: tandem: .*lacks the key [0-9a-f]{8}/,
  );
  const environment = { TANDEM_SECRETS_KEY_FILE: join(directory, "kept.key") };
  here = await processes.open({ directory, ini: INI, environment });
  expect((await ask(admin, "GET", "/_replicator/userinfo")).text).toContain(SECRETS.password);
});

test("a command changes the password of a user's jobs, without the password in its arguments", async () => {
  const server = here.url.replace("://", `://admin:${ADMIN_PASSWORD}@`);
  const replace = (...more: string[]) => {
    const flags = ["secrets", "replace", "--json", "--server", server, "--host", there.url];
    const typed = ["--username", "jan", "--password-file", "-"];
    const input = "Kw7-the-next-password\n";
    return tandemProcess([...flags, ...typed, ...more], { input }).then(({ output }) =>
      JSON.parse(output),
    );
  };
  // Five jobs match. For each of the two forms of the password, one job has a document and one has
  // none. The fifth job has a document.
  const found = { ok: true, matched: 5, documents: 3, transient: 2, rules: [] };
  expect(await replace("--dry-run")).toEqual({ ...found, dry_run: true });
  expect((await ask(admin, "GET", "/_replicator/userinfo")).text).toContain(SECRETS.password);
  expect(await replace("--side", "target")).toMatchObject({ matched: 0 });
  expect(await replace()).toEqual({ ...found, changed: 5, refused: 0 });
  const { text } = await ask(admin, "GET", "/_replicator/userinfo");
  expect(text).toContain("Kw7-the-next-password");
  expect(text).not.toContain(SECRETS.password);
  expect(secretsBelow(directory, ["Kw7-the-next-password"])).toEqual([]);
  expect(secretsIn(here.log(), ["Kw7-the-next-password"])).toEqual([]);
});

test("documents keep their secrets if their database is replicated by a user who may see them, and lose them otherwise", async () => {
  const team = "/team%2f_replicator";
  const ann = "ann:there";
  // The server in `there` locks out the user `jan`, because jobs used wrong passwords.
  const other = await processes.open({
    environment: { COUCHDB_USER: "ann", COUCHDB_PASSWORD: "there" },
  });
  expect((await ask(admin, "PUT", team)).status).toBe(201);
  const members = { members: { names: ["sue"] } };
  expect((await ask(admin, "PUT", `${team}/_security`, members)).status).toBe(200);
  const { source: stored } = sources().basic as { readonly source: object };
  const body = { source: stored, target: "copy", continuous: true };
  expect((await ask(admin, "PUT", `${team}/job`, body)).status).toBe(201);
  const arrived = async (user: string, name: string): Promise<string> => {
    await ask(ann, "PUT", `/${name}`, undefined, other);
    const target = `${other.url.replace("://", `://${ann}@`)}/${name}`;
    const source = `${here.url.replace("://", `://${user}@`)}${team}`;
    const copy = { source, target, checkpoint_interval: 1_000 };
    const { status, text } = await ask(ann, "POST", "/_replicate", copy, other);
    expect([status, text]).toEqual([200, expect.stringContaining('"docs_written":1')]);
    return (await ask(ann, "GET", `/${name}/job`, undefined, other)).text;
  };
  const whole = await arrived(admin, "whole");
  expect(JSON.parse(whole).source).toEqual(stored);
  expect(await arrived(`sue:${SECRETS.user}`, "stripped")).not.toContain(SECRETS.basic);
  // A second copy, by a job on this node. Its source is a local database.
  const target = `${other.url.replace("://", `://${ann}@`)}/local`;
  await ask(ann, "PUT", "/local", undefined, other);
  const copy = { source: "team/_replicator", target };
  expect((await ask(admin, "POST", "/_replicate", copy)).status).toBe(200);
  const local = await ask(ann, "GET", "/local/job", undefined, other);
  expect(JSON.parse(local.text).source).toEqual(stored);
});
