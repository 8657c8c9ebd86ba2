/**
 * `/_tandem/rules` on a node that runs no jobs: which rules are accepted, how they are shown, and
 * dry runs.
 */
import { expect, test } from "vitest";
import { openVirtualNode } from "../../support/virtual-node.ts";
import { openWholeApi } from "../whole-api.fixture.ts";

const BASIC = { Authorization: `Basic ${Buffer.from("root:secret").toString("base64")}` };
const RULE = { source: "local", target: "https://b.example/{db}", databases: ["user-*"] };

async function open() {
  const { ask } = await openWholeApi();
  return async (request: string, body?: unknown) => {
    const { status, json } = await ask(request, {
      headers: BASIC,
      ...(body === undefined ? {} : { body }),
    });
    return { status, json };
  };
}

test("a rule is created, shown with its status, changed and removed", async () => {
  const ask = await open();
  expect(await ask("GET /_tandem/rules/users")).toMatchObject({ status: 404 });
  expect(await ask("PUT /_tandem/rules/users", RULE)).toEqual({ status: 201, json: { ok: true } });
  expect(await ask("PUT /_tandem/rules/users", RULE)).toEqual({
    status: 200,
    json: { ok: true, no_changes: true },
  });
  const { json } = await ask("GET /_tandem/rules/users");
  expect(json).toEqual({
    name: "users",
    ...RULE,
    status: {
      owner: "root",
      changed: expect.stringMatching(/^20/),
      databases: null,
      jobs: 0,
      states: { running: 0, pending: 0, crashing: 0, completed: 0, failed: 0 },
      failing: 0,
      parked: 0,
      left_behind: 0,
      lag_sec: 0,
      listed: null,
      followed_by: null,
      last_error: {
        error: "no_replication_node",
        reason: expect.stringMatching(/^No repl.*Start/),
      },
      cannot_copy: 0,
      faults: [],
    },
  });
  expect(await ask("PUT /_tandem/rules/users", { ...(json as object), delete: "stop" })).toEqual({
    status: 200,
    json: { ok: true },
  });
  expect(await ask("DELETE /_tandem/rules/users")).toMatchObject({ status: 200 });
  expect(await ask("DELETE /_tandem/rules/users")).toMatchObject({ status: 404 });
});

test("a rule that exceeds the maximum length is refused, and no part of it is stored", async () => {
  const ask = await open();
  const long = { ...RULE, databases: ["x".repeat(1_000_000)] };
  expect(await ask("PUT /_tandem/rules/users", long)).toMatchObject({
    status: 413,
    json: { error: "too_large" },
  });
  expect(await ask("GET /_tandem/rules/users")).toMatchObject({ status: 404 });
});

test("numbers in a rule's parameters keep their digits when the rule is shown or changed", async () => {
  const { ask } = await openWholeApi();
  const request = (text: string, body?: string) =>
    ask(text, { headers: BASIC, ...(body === undefined ? {} : { body }) });
  const parameters = '"create_target_params":{"x":369553424691494913,"y":1.0,"z":-0.0}';
  const rule = (databases: string) =>
    `{"source":"local","target":"https://b.example/{db}","databases":["${databases}"],${parameters}}`;
  const put = (body: string) => request("PUT /_tandem/rules/users", body);
  expect(await put(rule("a-*"))).toMatchObject({ status: 201 });
  expect(await put(rule("a-*"))).toMatchObject({ json: { no_changes: true } });
  const otherNumber = rule("a-*").replace("913", "914");
  expect((await put(otherNumber)).json).toEqual({ ok: true });
  expect((await put(rule("b-*"))).json).toEqual({ ok: true });
  const { text } = await request("GET /_tandem/rules/users");
  expect(text).toContain(parameters);
  expect((await put(text)).json).toMatchObject({ no_changes: true });
  expect((await request("GET /_tandem/rules")).text).toContain(parameters);
});

test("the list of rules is ordered by name, and split into pages", async () => {
  const ask = await open();
  for (const name of ["c", "a", "b"]) await ask(`PUT /_tandem/rules/${name}`, RULE);
  const first = (await ask("GET /_tandem/rules?limit=2")).json as {
    readonly bookmark: string;
    readonly rules: readonly { readonly name: string }[];
  };
  expect(first).toMatchObject({ total_rows: 3, bookmark: "b" });
  expect(first.rules.map(({ name }) => name)).toEqual(["a", "b"]);
  const second = await ask(`GET /_tandem/rules?limit=2&bookmark=${first.bookmark}`);
  expect(second.json).toMatchObject({ total_rows: 3, bookmark: null, rules: [{ name: "c" }] });
});

test("secrets in rules are masked, and a mask in a written rule stands for the stored secret", async () => {
  const ask = await open();
  const source = {
    url: "https://a.example/",
    auth: { basic: { username: "joe", password: "hid1" } },
  };
  const target = { url: "https://ann:hid2@b.example/{db}", headers: { "X-Key": "hid3" } };
  await ask("PUT /_tandem/rules/users", { ...RULE, source, target });
  const { json } = await ask("GET /_tandem/rules/users");
  expect(JSON.stringify(json)).not.toContain("hid");
  const edited = { ...(json as object), databases: ["user-*", "team-*"] };
  expect(await ask("PUT /_tandem/rules/users", edited)).toMatchObject({ status: 200 });
  const again = { ...edited, source, target };
  expect((await ask("PUT /_tandem/rules/users", again)).json).toMatchObject({ no_changes: true });
  const elsewhere = {
    ...edited,
    source: {
      ...source,
      url: "https://evil.example/",
      auth: { basic: { username: "joe", password: "*****" } },
    },
  };
  expect(await ask("PUT /_tandem/rules/users", elsewhere)).toMatchObject({
    status: 403,
    json: { error: "forbidden", reason: expect.stringContaining("`source` is masked") },
  });
  expect(
    await ask("PUT /_tandem/rules/new", json && { ...(json as object), name: "new" }),
  ).toMatchObject({ status: 403 });
});

test.each<[string, unknown, string]>([
  ["PUT /_tandem/rules/users", { ...RULE, target: undefined }, "`target` must be a URL with {db}"],
  [
    "PUT /_tandem/rules/users",
    { ...RULE, name: "other" },
    "`name` must equal the name in the path",
  ],
  ["PUT /_tandem/rules/a%20b", RULE, "The name of a rule must have 1 to 100 letters"],
  ["PUT /_tandem/rules/users?x=1", RULE, "Unknown parameter x. Choose from: dry_run"],
  ["PUT /_tandem/rules/users?dry_run=x", RULE, "Invalid boolean parameter"],
  [
    "PUT /_tandem/rules/users",
    { ...RULE, headers: { x: "y".repeat(40_000) } },
    " bytes; at most 32768 are allowed",
  ],
  ["GET /_tandem/rules?x=1", undefined, "Unknown parameter x. Choose from: limit, bookmark"],
])("%s with %j gets status 400 and a reason", async (request, body, reason) => {
  const ask = await open();
  expect(await ask(request, body)).toMatchObject({
    status: 400,
    json: { reason: expect.stringContaining(reason) },
  });
});

test("a dry run reports the changes to databases and jobs without making them", async () => {
  const node = openVirtualNode({ config: { parkAfterSec: 2 } });
  const { world, replicator, rulePlans } = node;
  const owner = { userName: "root" };
  const { signal } = new AbortController();
  await node.start();
  try {
    for (const name of ["user-a", "user-b", "team-c"]) await node.createDatabase(name);
    const rule = { source: "local", target: "copy-{db}", databases: ["user-*"] };
    const made = await world.until(rulePlans.ofPut("users", rule, owner, signal));
    expect(made.made).toMatchObject({ count: 2, first: ["user-a", "user-b"] });
    expect(await world.until(replicator.rules.get("users"))).toBeUndefined();
    await world.until(replicator.rules.put("users", rule, owner));
    await world.time.run(world.time.nowMs + 20_000);
    const other = { ...rule, target: "other-{db}", databases: ["team-*", "user-a"] };
    const changed = await world.until(rulePlans.ofPut("users", other, owner, signal));
    expect(changed).toMatchObject({
      matched: { count: 2 },
      made: { first: ["team-c"] },
      changed: { first: ["user-a"] },
      ended: { first: ["user-b"] },
      faulty: { count: 0 },
    });
    const removed = await world.until(rulePlans.ofRemoval("users"));
    expect(removed?.ended).toMatchObject({ count: 2, first: ["user-a", "user-b"] });
    expect((await world.until(replicator.rules.get("users")))?.summary.jobCount).toBe(2);
  } finally {
    await node.stop();
  }
});

test("a dry run of a rule lists the targets whose security objects the rule would overwrite", async () => {
  const node = openVirtualNode({ config: { parkAfterSec: 2 } });
  const { world, kv, databases, rulePlans } = node;
  const names = ["user-a", "user-b", "user-c", "copy-user-a", "copy-user-b"];
  for (const name of names) await node.createDatabase(name);
  const of = (member: string) => JSON.stringify({ members: { names: [member], roles: [] } });
  const set = (name: string, member: string) =>
    world.until(
      kv.transact(async (tx) => (await databases.open(tx, name)).setSecurity(tx, of(member))),
    );
  for (const name of ["user-a", "user-b", "copy-user-b", "user-c"]) await set(name, "joe");
  await set("copy-user-a", "ann");
  const plan = (security: unknown) => {
    const rule = { source: "local", target: "copy-{db}", databases: ["user-*"], security };
    const { signal } = new AbortController();
    return world.until(rulePlans.ofPut("users", rule, { userName: "root" }, signal));
  };
  expect((await plan(false)).overwritten).toBeUndefined();
  expect((await plan(true)).overwritten).toMatchObject({ count: 0 });
  expect((await plan(["copy-*"])).overwritten).toMatchObject({ count: 1, first: ["copy-user-a"] });
});

test("a dry run over the API lists new jobs and overwritten security objects", async () => {
  const ask = await open();
  await ask("PUT /user-a");
  const { json } = await ask("PUT /_tandem/rules/users?dry_run=true", RULE);
  expect(json).toEqual({
    ok: true,
    dry_run: true,
    databases: { count: 1, first: ["user-a"] },
    create: { count: 1, first: ["user-a"] },
    replace: { count: 0, first: [] },
    cancel: { count: 0, first: [] },
    cannot_copy: { count: 0, first: [] },
  });
  const named = { ...RULE, target: "copy-{db}", security: ["copy-*"] };
  await ask("PUT /copy-user-a");
  await ask("PUT /copy-user-a/_security", { members: { names: ["ann"], roles: [] } });
  expect((await ask("PUT /_tandem/rules/users?dry_run=true", named)).json).toMatchObject({
    overwrite_security: { count: 1, first: ["copy-user-a"] },
  });
  expect(await ask("GET /_tandem/rules/users")).toMatchObject({ status: 404 });
  const source = { url: "https://a.example/", auth: { bearer: "env:NOBODY" } };
  const far = { ...RULE, source };
  expect(await ask("PUT /_tandem/rules/users?dry_run=true", far)).toMatchObject({
    status: 502,
    json: { error: "secret_missing" },
  });
});
