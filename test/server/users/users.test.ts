/** Users, sessions and tokens, tested with a whole node. */
import { createHmac, generateKeyPairSync } from "node:crypto";
import { SignJWT } from "jose";
// @ts-expect-error: the package brings no types.
import PouchDB from "pouchdb";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";

let server: RunningServer;
let count = 0;
/** User name that no other test uses. */
let name = "";

beforeAll(async () => {
  const config = readConfig(
    { port: 0, store: "memory" },
    { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret" },
  );
  config.configuration.set("chttpd_auth", "iterations", "10");
  config.configuration.set("couchdb", "users_db_security_editable", "true");
  server = await openServer(config, { event() {} });
  // Lets everyone create a user, as before CouchDB 3.
  await ask("PUT", "/_users/_security", { as: ROOT, body: {} });
});

afterAll(() => server.stop());

beforeEach(() => {
  name = `user${count++}`;
});

const ROOT = "root:secret";

interface Asked {
  readonly as?: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

async function ask(method: string, path: string, { as, body, headers = {} }: Asked = {}) {
  const authorization = as && { Authorization: `Basic ${Buffer.from(as).toString("base64")}` };
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { "Content-Type": "application/json", ...authorization, ...headers },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const cookie = response.headers.get("set-cookie");
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  return { status: response.status, json: (await response.json()) as any, cookie };
}

const pathOf = (user: string): string => `/_users/org.couchdb.user:${user}`;

function document(more: object = {}): object {
  return { name, type: "user", roles: [], password: "pw", ...more };
}

async function signUp(more: object = {}): Promise<string> {
  const { status, json } = await ask("PUT", pathOf(name), { as: ROOT, body: document(more) });
  expect(status).toBe(201);
  return json.rev;
}

describe("user documents", () => {
  test("store a hash instead of the password", async () => {
    await signUp();
    const { json } = await ask("GET", pathOf(name), { as: `${name}:pw` });
    expect(json).toMatchObject({
      password_scheme: "pbkdf2",
      pbkdf2_prf: "sha256",
      iterations: 10,
      salt: expect.stringMatching(/^[0-9a-f]{32}$/),
      derived_key: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(json).not.toHaveProperty("password");
  });

  test("do not store a password from the body of a deletion", async () => {
    const _rev = await signUp();
    const body = document({ _rev, _deleted: true, password: "later" });
    const { status, json } = await ask("PUT", pathOf(name), { as: ROOT, body });
    expect(status).toBe(200);
    const left = await ask("GET", `${pathOf(name)}?rev=${json.rev}`, { as: ROOT });
    expect(left.json).toMatchObject({ _deleted: true });
    expect(left.json).not.toHaveProperty("password");
  });

  test("can be created by anonymous clients, without roles", async () => {
    expect((await ask("PUT", pathOf(name), { body: document() })).status).toBe(201);
    expect((await ask("GET", "/_session", { as: `${name}:pw` })).json.userCtx.name).toBe(name);
  });

  test.each([
    [{ type: "x" }, "doc.type must be user"],
    [{ roles: undefined }, "doc.roles must exist"],
    [{ roles: "x" }, "doc.roles must be an array"],
    [{ roles: [1] }, "doc.roles can only contain strings"],
    [{ roles: ["x"] }, "Only _admin may set roles"],
    [{ password: 123456 }, "Password value of '123456' is invalid."],
    [{ password: ["pw"] }, "Password value of '[\"pw\"]' is invalid."],
    [{ password: false }, "Password value of 'false' is invalid."],
    [{ name: "other" }, "Doc ID must be of the form org.couchdb.user:name"],
    [{ password: undefined, password_scheme: "md5" }, "Password scheme `md5` not supported."],
    [{ password: undefined, password_scheme: "pbkdf2" }, "iterations must be a number."],
  ])("with %j are refused", async (more, reason) => {
    const answer = await ask("PUT", pathOf(name), { body: document(more) });
    expect(answer).toMatchObject({ status: 403, json: { error: "forbidden", reason } });
  });

  test("cannot have a system role, even if an administrator writes them", async () => {
    const body = document({ roles: ["_admin"] });
    expect(await ask("PUT", pathOf(name), { as: ROOT, body })).toMatchObject({
      status: 403,
      json: { reason: "No system roles (starting with underscore) in users db." },
    });
  });

  test("get the role of a read-only operator only from server administrators, and keep the role when others edit them", async () => {
    const chief = name;
    await signUp();
    await ask("PUT", "/_users/_security", { as: ROOT, body: { admins: { names: [chief] } } });
    try {
      name = `${chief}-reader`;
      const rev = await signUp();
      const promoted = document({ _rev: rev, roles: ["_tandem_reader"] });
      for (const as of [`${chief}:pw`, `${name}:pw`]) {
        expect(await ask("PUT", pathOf(name), { as, body: promoted })).toMatchObject({
          status: 403,
          json: { error: "forbidden" },
        });
      }
      const { json } = await ask("PUT", pathOf(name), { as: ROOT, body: promoted });
      const changed = { ...promoted, _rev: json.rev, password: "new" };
      const kept = await ask("PUT", pathOf(name), { as: `${name}:pw`, body: changed });
      expect(kept.status).toBe(201);
      const byChief = { ...changed, _rev: kept.json.rev };
      expect((await ask("PUT", pathOf(name), { as: `${chief}:pw`, body: byChief })).status).toBe(
        201,
      );
      const { userCtx } = (await ask("GET", "/_session", { as: `${name}:new` })).json;
      expect(userCtx.roles).toEqual(["_tandem_reader"]);
    } finally {
      await ask("PUT", "/_users/_security", { as: ROOT, body: {} });
    }
  });

  test("can be changed and deleted by their users, who cannot grant themselves roles", async () => {
    const rev = await signUp({ roles: ["a"] });
    const as = `${name}:pw`;
    const promoted = document({ _rev: rev, roles: ["a", "b"] });
    expect(await ask("PUT", pathOf(name), { as, body: promoted })).toMatchObject({
      status: 403,
      json: { reason: "Only _admin may edit roles" },
    });
    const changed = document({ _rev: rev, roles: ["a"], password: "new" });
    const { json } = await ask("PUT", pathOf(name), { as, body: changed });
    expect((await ask("GET", "/_session", { as })).status).toBe(401);
    const renewed = await ask("DELETE", `${pathOf(name)}?rev=${json.rev}`, { as: `${name}:new` });
    expect(renewed.status).toBe(200);
    expect((await ask("GET", "/_session", { as: `${name}:new` })).status).toBe(401);
  });

  test("are hidden from other users, who can neither change nor delete them", async () => {
    const rev = await signUp();
    const path = pathOf(name);
    name = `${name}-other`;
    await signUp();
    const as = `${name}:pw`;
    const missing = { status: 404, json: { error: "not_found", reason: "missing" } };
    expect(await ask("GET", path, { as })).toMatchObject(missing);
    expect(await ask("GET", path)).toMatchObject(missing);
    expect(await ask("DELETE", `${path}?rev=${rev}`, { as })).toMatchObject(missing);
    expect(await ask("DELETE", `${path}?rev=${rev}`)).toMatchObject(missing);
    expect(await ask("GET", "/_users/_all_docs", { as })).toMatchObject({ status: 401 });
    const docs = [{ id: path.replace("/_users/", "") }];
    expect((await ask("POST", "/_users/_bulk_get", { as, body: { docs } })).json).toMatchObject({
      results: [{ docs: [{ error: { error: "not_found", reason: "missing" } }] }],
    });
    expect((await ask("GET", "/_users/_design/x", { as })).status).toBe(403);
    expect((await ask("GET", "/_users/_local/x", { as })).status).toBe(403);
    expect((await ask("PUT", "/_users/_local%2Fx", { as, body: {} })).status).toBe(403);
    expect((await ask("GET", "/_users/_local%2Fx")).status).toBe(401);
    for (const method of ["GET", "POST"]) {
      const body = method === "POST" ? { body: {} } : {};
      const byMember = await ask(method, "/_users/_local_docs", { as, ...body });
      expect([method, byMember.status]).toEqual([method, 403]);
      const byRoot = await ask(method, "/_users/_local_docs", { as: ROOT, ...body });
      expect([method, byRoot.status]).toEqual([method, 200]);
    }
    const queries = { body: { queries: [{}] } };
    expect((await ask("POST", "/_users/_local_docs/queries", { as, ...queries })).status).toBe(403);
    const local = { docs: [{ _id: "_local/x" }] };
    expect(await ask("POST", "/_users/_bulk_docs", { as, body: local })).toMatchObject(missing);
    const found = await ask("POST", "/_users/_find", { as, body: { selector: {}, limit: 1_000 } });
    expect(found.json.docs.map((each: { name: string }) => each.name)).toEqual([name]);
  });

  test.each([
    [
      "simple",
      { password_scheme: "simple", password_sha: "92d8a25a4bf8c3a9bd0c6ac6f3ee5d4d3f8d3e38" },
    ],
  ])("with an invalid %s hash do not authenticate their users", async (_, members) => {
    await signUp({ password: undefined, salt: "s", ...members });
    expect((await ask("GET", "/_session", { as: `${name}:pw` })).status).toBe(401);
  });

  test("with a hash from an older server (simple, or PBKDF2 with SHA-1) authenticate their users", async () => {
    const { createHash, pbkdf2Sync } = await import("node:crypto");
    const sha = createHash("sha1").update("pwsalt").digest("hex");
    await signUp({
      password: undefined,
      password_scheme: "simple",
      salt: "salt",
      password_sha: sha,
    });
    expect((await ask("GET", "/_session", { as: `${name}:pw` })).status).toBe(200);
    name = `${name}-sha`;
    const key = pbkdf2Sync("pw", "salt", 10, 20, "sha1").toString("hex");
    const hash = { password_scheme: "pbkdf2", iterations: 10, salt: "salt", derived_key: key };
    await signUp({ password: undefined, ...hash });
    expect((await ask("GET", "/_session", { as: `${name}:pw` })).status).toBe(200);
  });
});

describe("an excessively expensive hash", () => {
  const high = "Iteration count is too high for this server";

  test.each([
    [{ iterations: 2_000_000_000 }, high],
    [{ iterations: 2_000_001 }, high],
    [{ derived_key: "ab".repeat(65) }, "derived_key must be at most 64 bytes in hex digits"],
  ])("is not stored: %j", async (more, reason) => {
    const hash = { password_scheme: "pbkdf2", iterations: 10, salt: "salt", derived_key: "abcd" };
    const body = document({ password: undefined, ...hash, ...more });
    for (const who of [{}, { as: ROOT }]) {
      expect(await ask("PUT", pathOf(name), { ...who, body })).toMatchObject({
        status: 403,
        json: { error: "forbidden", reason },
      });
    }
    const docs = [{ ...body, _id: `org.couchdb.user:${name}`, _rev: "1-a" }];
    const replicated = { new_edits: false, docs };
    const { json } = await ask("POST", "/_users/_bulk_docs", { as: ROOT, body: replicated });
    expect(json).toMatchObject([{ error: "forbidden", reason }]);
  });

  test("is not verified after the limit is lowered", async () => {
    const setting = "/_node/_local/_config/chttpd_auth/max_iterations";
    await signUp();
    await ask("PUT", setting, { as: ROOT, body: '"9"' });
    try {
      expect(await ask("GET", "/_session", { as: `${name}:pw` })).toMatchObject({
        status: 403,
        json: { error: "forbidden", reason: high },
      });
    } finally {
      await ask("DELETE", setting, { as: ROOT });
    }
    expect((await ask("GET", "/_session", { as: `${name}:pw` })).status).toBe(200);
  });
});

test("after five wrong passwords a client is refused, even with the correct password", async () => {
  await signUp();
  const logIn = (password: string) => ask("POST", "/_session", { body: { name, password } });
  for (let count = 0; count < 5; count++) expect((await logIn("wrong")).status).toBe(401);
  const refused = {
    status: 403,
    json: {
      error: "forbidden",
      reason: "Account is temporarily locked due to multiple authentication failures",
    },
  };
  expect(await logIn("pw")).toMatchObject(refused);
  expect(await ask("GET", "/_session", { as: `${name}:pw` })).toMatchObject(refused);
  expect((await ask("GET", "/_session", { as: ROOT })).status).toBe(200);
});

test("wrong passwords sent through a trusted proxy lock out only the client that sent them", async () => {
  const setting = "/_node/_local/_config/tandem/trusted_proxies";
  await signUp();
  const logIn = (client: string, password: string) =>
    ask("POST", "/_session", {
      body: { name, password },
      headers: { "X-Forwarded-For": `${client}, 127.0.0.1` },
    });
  expect((await ask("PUT", setting, { as: ROOT, body: '"127.0.0.0/8, ::1"' })).status).toBe(200);
  try {
    for (let count = 0; count < 6; count++) await logIn("192.0.2.1", "wrong");
    expect((await logIn("192.0.2.1", "pw")).status).toBe(403);
    expect((await logIn("192.0.2.2", "pw")).status).toBe(200);
    // Failures are counted per /64 network, because an IPv6 user typically controls a whole network
    // of this size.
    for (let count = 0; count < 6; count++) await logIn(`2001:db8::${count}:1`, "wrong");
    expect((await logIn("2001:db8::ffff:1", "pw")).status).toBe(403);
    expect((await logIn("2001:db8:0:1::1", "pw")).status).toBe(200);
  } finally {
    await ask("DELETE", setting, { as: ROOT });
  }
  const refused = await ask("PUT", setting, { as: ROOT, body: '"proxy.example"' });
  expect(refused).toMatchObject({ status: 400, json: { error: "bad_request" } });
});

test("concurrent logins with wrong passwords do not bypass the limit of attempts", async () => {
  await signUp();
  const guesses = Array.from({ length: 20 }, (_, number) =>
    ask("POST", "/_session", { body: { name, password: `wrong-${number}` } }),
  );
  const statuses = (await Promise.all(guesses)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 401).length).toBeLessThanOrEqual(6);
  expect(statuses.filter((status) => status === 403).length).toBeGreaterThanOrEqual(14);
});

test("logins of one user do not delay logins of another user", async () => {
  const setting = "/_node/_local/_config/chttpd_auth/iterations";
  const lockout = "/_node/_local/_config/chttpd_auth_lockout/mode";
  await ask("PUT", setting, { as: ROOT, body: '"100000"' });
  await ask("PUT", lockout, { as: ROOT, body: '"off"' });
  try {
    const busy = name;
    await signUp();
    name = `${busy}-other`;
    await signUp();
    const ended: string[] = [];
    const logIn = async (user: string): Promise<void> => {
      expect((await ask("GET", "/_session", { as: `${user}:wrong` })).status).toBe(401);
      ended.push(user);
    };
    await Promise.all([...Array.from({ length: 8 }, () => logIn(busy)), logIn(name)]);
    expect(ended.at(-1)).toBe(busy);
    expect(ended.indexOf(name)).toBeLessThan(4);
  } finally {
    await ask("PUT", setting, { as: ROOT, body: '"10"' });
    await ask("DELETE", lockout, { as: ROOT });
  }
});

describe("the public fields of users", () => {
  const setting = "/_node/_local/_config/chttpd_auth";
  afterEach(async () => {
    await ask("DELETE", `${setting}/public_fields`, { as: ROOT });
    await ask("DELETE", `${setting}/users_db_public`, { as: ROOT });
  });

  test("can be read by all users, who can read no other fields", async () => {
    await signUp({ city: "Oslo", note: 1.5 });
    const path = pathOf(name);
    expect((await ask("GET", path)).status).toBe(404);
    await ask("PUT", `${setting}/public_fields`, { as: ROOT, body: '"name, note"' });
    const { json } = await ask("GET", path);
    expect(json).toEqual({ _id: path.slice(8), _rev: json._rev, name, note: 1.5 });
    expect((await ask("GET", path, { as: `${name}:pw` })).json).toHaveProperty("derived_key");
    expect((await ask("PUT", path, { body: document({ _rev: json._rev }) })).status).toBe(403);
  });

  test.each(["_revs_diff", "_missing_revs"])(
    "are not revealed by %s: another user's document looks like a missing one",
    async (question) => {
      const rev = await signUp();
      const id = `org.couchdb.user:${name}`;
      const missing = async (user: string) => {
        const body = { [id]: [rev, "9-abc"] };
        const { json } = await ask("POST", `/_users/${question}`, { as: `${user}:pw`, body });
        return json.missing_revs ?? json;
      };
      const own = question === "_revs_diff" ? { possible_ancestors: [rev] } : undefined;
      const owner = name;
      name = `${name}-other`;
      await signUp();
      const whole = JSON.stringify(await missing(name));
      expect(whole).toContain(rev);
      expect(whole).not.toContain("possible_ancestors");
      const seen = await missing(owner);
      expect(JSON.stringify(seen)).toContain("9-abc");
      if (own !== undefined) expect(seen[id]).toMatchObject({ missing: ["9-abc"], ...own });
    },
  );

  test("are included in lists if the configuration permits this", async () => {
    await signUp({ city: "Oslo" });
    await ask("PUT", `${setting}/public_fields`, { as: ROOT, body: '"city"' });
    const list = `/_users/_all_docs?include_docs=true&key="org.couchdb.user:${name}"`;
    expect((await ask("GET", list)).status).toBe(401);
    await ask("PUT", `${setting}/users_db_public`, { as: ROOT, body: '"true"' });
    const [row] = (await ask("GET", list)).json.rows;
    expect(row.doc).toEqual({ _id: row.id, _rev: row.value.rev, city: "Oslo" });
  });
});

describe("passwords", () => {
  const configure = (key: string, value: string) =>
    ask("PUT", `/_node/_local/_config/chttpd_auth/${key}`, {
      as: ROOT,
      body: JSON.stringify(value),
    });

  test("that do not meet the requirements are refused with a reason", async () => {
    expect(await configure("password_regexp", '[".{3,}"')).toMatchObject({
      status: 400,
      json: { reason: expect.stringContaining("[chttpd_auth] password_regexp") },
    });
    await configure("password_regexp", '[{".{3,}", "Three characters."}, "\\\\d"]');
    const put = async (password: string) =>
      (await ask("PUT", pathOf(name), { body: document({ password }) })).json.reason;
    expect(await put("pw")).toBe("Password does not conform to requirements. Three characters.");
    expect(await put("pass")).toBe("Password does not conform to requirements.");
    expect(await put("passw0rd")).toBeUndefined();
    await ask("DELETE", "/_node/_local/_config/chttpd_auth/password_regexp", { as: ROOT });
  });

  /** Creates a user before a change of the password settings. Returns the user's document. */
  async function signUpBefore(): Promise<Record<string, unknown>> {
    await configure("iterations", "20");
    await signUp({ extra: "kept" });
    await configure("iterations", "10");
    return stored();
  }
  const stored = async () => (await ask("GET", pathOf(name), { as: ROOT })).json;
  const logIn = (password: string) => ask("POST", "/_session", { body: { name, password } });

  test("are rehashed with the current scheme when the user logs in, and the session remains valid", async () => {
    const before = await signUpBefore();
    await logIn("wrong");
    expect(await stored()).toEqual(before);
    const { cookie } = await logIn("pw");
    const after = await stored();
    expect(after).toMatchObject({ iterations: 10, extra: "kept", salt: before.salt });
    expect(after.derived_key).not.toBe(before.derived_key);
    const headers = { Cookie: cookie?.split(";")[0] ?? "" };
    expect((await ask("GET", "/_session", { headers })).json.userCtx.name).toBe(name);
    expect((await ask("GET", "/_session", { as: `${name}:pw` })).status).toBe(200);
    expect(await stored()).toEqual(after);
  });

  test("keep their hashes if the configuration disables rehashing", async () => {
    const before = await signUpBefore();
    await configure("upgrade_hash_on_auth", "false");
    expect((await logIn("pw")).status).toBe(200);
    expect(await stored()).toEqual(before);
    await configure("upgrade_hash_on_auth", "true");
  });
});

describe("a replication into _users", () => {
  test("skips user documents whose password is neither a string nor null", async () => {
    const copies = `copies-${name}`;
    await ask("PUT", `/${copies}`, { as: ROOT });
    for (const [user, password] of [
      ["number", 123456],
      ["nothing", null],
    ]) {
      const body = { type: "user", name: `${name}-${user}`, roles: [], password };
      await ask("PUT", `/${copies}/org.couchdb.user:${name}-${user}`, { as: ROOT, body });
    }
    const body = { source: copies, target: "_users" };
    const replicated = await ask("POST", "/_replicate", { as: ROOT, body });
    expect(replicated.json).toMatchObject({ ok: true });
    expect((await ask("GET", pathOf(`${name}-number`), { as: ROOT })).status).toBe(404);
    expect((await ask("GET", pathOf(`${name}-nothing`), { as: ROOT })).status).toBe(200);
  });
});

describe("replications of users", () => {
  test("read and write only databases that their users may read or write", async () => {
    await signUp();
    for (const database of ["own", "target", "secret"]) {
      await ask("PUT", `/${name}-${database}`, { as: ROOT });
      await ask("PUT", `/${name}-${database}/doc`, { as: ROOT, body: {} });
      if (database === "secret") continue;
      const members = { names: [name] };
      await ask("PUT", `/${name}-${database}/_security`, { as: ROOT, body: { members } });
    }
    const replicate = (source: string, target: string, more: object = {}) =>
      ask("POST", "/_replicate", {
        as: `${name}:pw`,
        body: { source: `${name}-${source}`, target: `${name}-${target}`, ...more },
      });
    expect((await replicate("own", "target")).status).toBe(200);
    const creating = { create_target: true };
    expect((await replicate("own", "target", creating)).status).toBe(200);
    expect((await replicate("own", "new", creating)).json.reason).toContain("not a server admin");
    expect((await replicate("none", "new", creating)).json.reason).toContain("could not open");
    expect((await replicate("secret", "target")).json.reason).toContain("not allowed");
    expect((await replicate("own", "secret")).json.reason).toContain("not allowed");
    const body = { source: "_users", target: `${name}-target` };
    const listed = await ask("POST", "/_replicate", { as: `${name}:pw`, body });
    expect(listed.json.reason).toContain("You are not a server admin.");
  });
});

test("a local replication skips documents that exceed the size limit", async () => {
  await ask("PUT", `/${name}`, { as: ROOT });
  await ask("PUT", `/${name}/small`, { as: ROOT, body: {} });
  await ask("PUT", `/${name}/large`, { as: ROOT, body: { text: "ä".repeat(100) } });
  const attachment = { content_type: "text/plain", data: "YQ==" };
  const body = { text: "ä".repeat(100), _attachments: { a: attachment } };
  await ask("PUT", `/${name}/large-too`, { as: ROOT, body });
  const setting = "/_node/_local/_config/couchdb/max_document_size";
  await ask("PUT", setting, { as: ROOT, body: '"150"' });
  const { json } = await ask("POST", "/_replicate", {
    as: ROOT,
    body: { source: name, target: `${name}-copy`, create_target: true },
  });
  expect(json.history[0]).toMatchObject({ docs_written: 1, doc_write_failures: 2 });
  await ask("DELETE", setting, { as: ROOT });
});

describe("sessions", () => {
  const form = { "Content-Type": "application/x-www-form-urlencoded" };
  const cookieOf = (cookie: string | null): string => cookie?.split(";")[0] ?? "";

  test.each([
    ["a form that is not UTF-8", form, [0x6e, 0x61, 0x6d, 0x65, 0x3d, 0xff], "not UTF-8"],
    ["a form without a name", form, "password=pw", "username"],
    ["JSON without a password", {}, { name: "x" }, "password"],
    ["JSON with a name that is not a string", {}, { name: 1, password: "pw" }, "username"],
  ] as const)(
    "are refused with a reason if the request contains %s",
    async (_, headers, given, reason) => {
      const body = Array.isArray(given) ? new Uint8Array(given) : given;
      const response = await fetch(`${server.url}/_session`, {
        method: "POST",
        headers: { "Content-Type": "application/json", ...headers },
        body: typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body),
      });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        error: "bad_request",
        reason: expect.stringContaining(reason),
      });
    },
  );

  test("begin with a login by form or JSON, and end when the password is changed", async () => {
    const rev = await signUp({ roles: ["a"] });
    const byForm = await ask("POST", "/_session", {
      body: `name=${name}&password=pw`,
      headers: form,
    });
    expect(byForm.json).toEqual({ ok: true, name, roles: ["a"] });
    expect(byForm.cookie).toMatch(
      /^AuthSession=[\w-]+; Version=1; Expires=\w{3}, \d\d-\w{3}-\d{4} [\d:]{8} GMT; Max-Age=600; Path=\/; HttpOnly$/,
    );
    const { cookie } = await ask("POST", "/_session", { body: { name, password: "pw" } });
    const headers = { Cookie: cookieOf(cookie) };
    expect((await ask("GET", "/_session", { headers })).json).toEqual({
      ok: true,
      userCtx: { name, roles: ["a"] },
      info: { authentication_handlers: ["cookie", "default"], authenticated: "cookie" },
    });
    const body = document({ _rev: rev, roles: ["a"], password: "new" });
    await ask("PUT", pathOf(name), { as: ROOT, body });
    expect((await ask("GET", "/_session", { headers })).json.userCtx.name).toBeNull();
  });

  test("of administrators in the configuration have the rights of a server admin", async () => {
    const { cookie } = await ask("POST", "/_session", {
      body: { name: "root", password: "secret" },
    });
    const headers = { Cookie: cookieOf(cookie) };
    expect((await ask("GET", "/_all_dbs", { headers })).status).toBe(200);
  });

  test("end on request", async () => {
    const { status, cookie } = await ask("DELETE", "/_session");
    expect(status).toBe(200);
    expect(cookie).toMatch(/^AuthSession=; Version=1; .*Max-Age=0; Path=\/; HttpOnly$/);
  });

  test.each([
    [{ name: "root", password: "no" }, 401, "Name or password is incorrect."],
    [{ name: "nobody", password: "no" }, 401, "Name or password is incorrect."],
    [{ password: "no" }, 400, "request body must contain a username"],
    [null, 400, "request body must contain a username"],
  ])("do not begin after a login with %j", async (body, status, reason) => {
    expect(await ask("POST", "/_session", { body: JSON.stringify(body) })).toMatchObject({
      status,
      json: { reason },
    });
  });

  test("are not accepted if the cookie is forged or malformed", async () => {
    await signUp();
    const time = Math.floor(Date.now() / 1000)
      .toString(16)
      .toUpperCase();
    const forged = Buffer.from(`${name}:${time}:forged`).toString("base64url");
    const headers = { Cookie: `AuthSession=${forged}` };
    expect((await ask("GET", "/_session", { headers })).json.userCtx.name).toBeNull();
    const malformed = { Cookie: "AuthSession=zz" };
    expect(await ask("GET", "/_session", { headers: malformed })).toMatchObject({
      status: 400,
      json: { reason: "Malformed AuthSession cookie. Please clear your cookies." },
    });
  });

  test("begin with a new cookie, even if the request with the password contained another cookie", async () => {
    await signUp();
    const planted = await ask("POST", "/_session", { body: { name: "root", password: "secret" } });
    const headers = { Cookie: cookieOf(planted.cookie) };
    const login = { headers, body: { name, password: "pw" } };
    const { cookie } = await ask("POST", "/_session", login);
    expect(cookieOf(cookie)).not.toBe(cookieOf(planted.cookie));
    const session = await ask("GET", "/_session", { headers: { Cookie: cookieOf(cookie) } });
    expect(session.json.userCtx.name).toBe(name);
    // A login with a wrong password does not extend the session of the cookie sent with it.
    const wrong = await ask("POST", "/_session", { headers, body: { name, password: "no" } });
    expect([wrong.status, cookieOf(wrong.cookie)]).toEqual([401, "AuthSession="]);
    const unknown = {
      Cookie: `AuthSession=${Buffer.from(`${name}:69000000:x`).toString("base64url")}`,
    };
    const fresh = await ask("POST", "/_session", { headers: unknown, body: login.body });
    expect(fresh.status).toBe(200);
    expect(cookieOf(fresh.cookie)).not.toBe(unknown.Cookie);
  });

  test("wrong credentials are refused in every kind of request", async () => {
    for (const path of ["/", "/_session", "/_up"]) {
      expect((await ask("GET", path, { as: "root:no" })).status).toBe(401);
    }
  });

  test("invalid base64 credentials are refused rather than treated as absent", async () => {
    const headers = { Authorization: "Basic root:secret" };
    expect(await ask("GET", "/_session", { headers })).toMatchObject({
      status: 400,
      json: { error: "bad_request", reason: "Authorization header has invalid base64 value" },
    });
  });
});

test("nano logs in, and sends its session cookie with each request", async () => {
  await signUp({ roles: ["a"] });
  const { default: nano } = await import("nano");
  const client = nano(server.url ?? "");
  expect(await client.auth(name, "pw")).toEqual({ ok: true, name, roles: ["a"] });
  expect((await client.session()).userCtx).toEqual({ name, roles: ["a"] });
  await expect(client.db.list()).rejects.toMatchObject({ statusCode: 401 });
});

test("PouchDB logs in with a name and a password", async () => {
  await signUp();
  await ask("PUT", `/${name}`, { as: ROOT });
  await ask("PUT", `/${name}/_security`, { as: ROOT, body: { members: { names: [name] } } });
  const open = (password: string) =>
    new PouchDB(`${server.url}/${name}`, { auth: { username: name, password }, skip_setup: true });
  await open("pw").put({ _id: "x", n: 1 });
  expect(await open("pw").get("x")).toMatchObject({ n: 1 });
  await expect(open("no").get("x")).rejects.toMatchObject({ status: 401 });
});

describe("other ways to authenticate", () => {
  const configure = (section: string, key: string, value: string) =>
    ask("PUT", `/_node/_local/_config/${section}/${key}`, {
      as: ROOT,
      body: JSON.stringify(value),
    });
  const reset = (section: string, key: string) =>
    ask("DELETE", `/_node/_local/_config/${section}/${key}`, { as: ROOT });
  const handlers = (first: string): string =>
    [first, "cookie", "default"]
      .map((kind) => `{chttpd_auth, ${kind}_authentication_handler}`)
      .join(", ");
  const session = async (headers: Readonly<Record<string, string>>) =>
    ask("GET", "/_session", { headers });

  test("a proxy names the user, and authenticates itself with the secret", async () => {
    const claims = { "X-Auth-CouchDB-UserName": "pat", "X-Auth-CouchDB-Roles": "a, b" };
    expect((await session(claims)).json.userCtx.name).toBeNull();
    await configure("chttpd", "authentication_handlers", handlers("proxy"));
    expect((await session(claims)).json).toMatchObject({
      userCtx: { name: "pat", roles: ["a", "b"] },
      info: { authenticated: "proxy" },
    });
    await configure("chttpd_auth", "proxy_use_secret", "true");
    await configure("chttpd_auth", "secret", "shared");
    expect((await session(claims)).json.userCtx.name).toBeNull();
    const token = createHmac("sha256", "shared").update("pat").digest("hex");
    const proved = { ...claims, "X-Auth-CouchDB-Token": token };
    expect((await session(proved)).json.userCtx.name).toBe("pat");
    await reset("chttpd", "authentication_handlers");
    await reset("chttpd_auth", "secret");
  });

  test("a token must be signed with a configured key, and must have the required claims", async () => {
    const key = Buffer.from("a key that is long enough for SHA-256");
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const pem = pair.publicKey.export({ type: "spki", format: "pem" }).toString();
    await configure("chttpd", "authentication_handlers", handlers("jwt"));
    await configure("jwt_keys", "hmac:_default", key.toString("base64"));
    await configure("jwt_keys", "ec:one", pem.trim().replaceAll("\n", "\\n"));
    const token = (claims: Record<string, unknown>, header = {}) =>
      new SignJWT({ sub: "tom", ...claims }).setProtectedHeader({ alg: "HS256", ...header });
    const bearer = (text: string) => session({ Authorization: `Bearer ${text}` });

    const whole = await token({ "_couchdb.roles": ["a"] })
      .setExpirationTime("1h")
      .sign(key);
    expect((await bearer(whole)).json).toMatchObject({
      userCtx: { name: "tom", roles: ["a"] },
      info: { authenticated: "jwt" },
    });
    const byCurve = await token({}, { alg: "ES256", kid: "one" })
      .setExpirationTime("1h")
      .sign(pair.privateKey);
    expect((await bearer(byCurve)).json.userCtx.name).toBe("tom");

    const endless = await token({}).sign(key);
    const past = await token({}).setExpirationTime(1).sign(key);
    const foreign = await token({})
      .setExpirationTime("1h")
      .sign(Buffer.from("x".repeat(32)));
    // A forged token, which is signed with the public key as if that key were a shared secret.
    const confused = await token({}, { kid: "one" }).setExpirationTime("1h").sign(Buffer.from(pem));
    for (const text of [endless, past, foreign, confused]) {
      expect((await bearer(text)).status).toBe(401);
    }
    expect((await bearer("nonsense")).status).toBe(400);

    await configure("jwt_auth", "required_claims", 'exp, {iss, "us"}');
    await configure("jwt_auth", "roles_claim_path", "my.nested\\.roles");
    expect((await bearer(whole)).status).toBe(401);
    const ours = await token({ iss: "us", my: { "nested.roles": ["b"] } })
      .setExpirationTime("1h")
      .sign(key);
    expect((await bearer(ours)).json.userCtx.roles).toEqual(["b"]);
    await reset("chttpd", "authentication_handlers");
  });

  test("a login may be sent as a form or as JSON", async () => {
    for (const type of ["text/plain", "application/octet-stream"]) {
      const headers = { "Content-Type": type };
      const body = { name: "root", password: "secret" };
      expect(await ask("POST", "/_session", { body, headers })).toMatchObject({
        status: 415,
        json: { error: "bad_content_type" },
      });
    }
    const untyped = await fetch(`${server.url}/_session`, { method: "POST" });
    expect(untyped.status).toBe(415);
    const headers = { "Content-Type": "application/x-www-form-urlencoded; charset=utf-8" };
    const form = await ask("POST", "/_session", { body: "name=root&password=secret", headers });
    expect(form.status).toBe(200);
  });

  test("anonymous users are refused if the configuration requires a valid user", async () => {
    await configure("chttpd", "require_valid_user", "true");
    expect(await ask("GET", "/")).toMatchObject({
      status: 401,
      json: { error: "unauthorized", reason: "Authentication required." },
    });
    expect((await ask("GET", "/_up")).status).toBe(401);
    const challenge = async () => (await fetch(`${server.url}/`)).headers.get("www-authenticate");
    expect(await challenge()).toBe('Basic realm="server"');
    await configure("chttpd", "WWW-Authenticate", "Negotiate");
    expect(await challenge()).toBe("Negotiate");
    await reset("chttpd", "WWW-Authenticate");
    // The login page remains public.
    expect((await fetch(`${server.url}/_dashboard/`)).status).toBe(200);
    expect(
      (await ask("POST", "/_session", { body: { name: "root", password: "secret" } })).status,
    ).toBe(200);
    await configure("chttpd", "require_valid_user_except_for_up", "true");
    expect((await ask("GET", "/_up")).status).toBe(200);
    await reset("chttpd", "require_valid_user");
    await reset("chttpd", "require_valid_user_except_for_up");
    expect((await ask("GET", "/")).status).toBe(200);
  });
});
