import { expect, test } from "vitest";
import { REPLICATOR_CONFIG_DEFAULT as CONFIG } from "../replicator-config.ts";
import type { Members } from "../request/parse-fields.ts";
import { maskedRule } from "./masked-rule.ts";
import { matchRule, parseRule, ruleReplication } from "./rule.ts";

const USERS = {
  source: "https://a.example/",
  target: "https://b.example/{db}",
  databases: ["user-*"],
};

/**
 * Returns the URL of the database's target, or the reason why the database cannot be copied.
 * Returns undefined if the rule does not match.
 */
function targetOf(members: Members, name: string): string | undefined {
  const match = matchRule(parseRule(members, CONFIG), name);
  if (match.kind === "none") return undefined;
  return match.target.kind === "target" ? match.target.url : match.target.reason;
}

test("a rule applies to names that match a pattern in `databases` and no pattern in `except`", () => {
  const rule = { ...USERS, databases: ["user-*", "orders"], except: ["user-test*"] };
  expect(targetOf(rule, "user-joe")).toBe("https://b.example/user-joe");
  expect(targetOf(rule, "orders")).toBe("https://b.example/orders");
  expect(targetOf(rule, "orders2")).toBeUndefined();
  expect(targetOf(rule, "user-test7")).toBeUndefined();
  const { databases: _, ...all } = USERS;
  expect(targetOf(all, "anything")).toBe("https://b.example/anything");
});

test.each([
  "_users",
  "_replicator",
  "_global_changes",
  "evil/_replicator",
  "a/b/_users",
  "evil/_replicator/",
  "evil/_replicator/x",
  "evil%2f_replicator",
  "evil%252F_Replicator",
  "evil/_replicator.couch",
])("the system database %s is copied only if a pattern names it in full", (name) => {
  for (const databases of [["*"], ["_*"], ["evil*", "a*"], ["*_users", "*_replicator"]]) {
    const rule = { ...USERS, databases };
    expect(targetOf(rule, name)).toBeUndefined();
  }
  const target = targetOf({ ...USERS, databases: [name] }, name);
  const isName = !/[%.]/.test(name);
  expect(target).toBe(
    isName
      ? `https://b.example/${encodeURIComponent(name)}`
      : `${JSON.stringify(name)} is not a valid database name, but would be the target`,
  );
});

test.each([
  [["*"], "{db}/_replicator", "joe", "joe/_replicator"],
  [["joe"], "{db}/_users", "joe", "joe/_users"],
  [["x*"], "{1}", "x_replicator", "_replicator"],
  [["x*"], "https://b.example/{1}", "x_users", "_users"],
  [["*-*"], "{1}/_{2}", "joe-replicator", "joe/_replicator"],
  [["*-*"], "https://b.example/{1}%2F_{2}", "joe-users", "joe/_users"],
  [["*"], "{db}_changes", "a/_global", "a/_global_changes"],
  [["*", "joe/_users"], "{db}/_users", "joe", "joe/_users"],
])(
  "databases %j with target %s create no system database from %s",
  (databases, target, name, made) => {
    expect(targetOf({ ...USERS, databases, target }, name)).toBe(
      `${JSON.stringify(made)} would be the target, but is a system database; to permit this, list its full name in \`databases\``,
    );
  },
);

test("names that only resemble system databases are copied", () => {
  const all = { ...USERS, databases: ["*"] };
  for (const name of ["users", "joe/replicator", "joe/_replicator2", "a_users", "joe/_notes"]) {
    expect(targetOf(all, name)).toBe(`https://b.example/${encodeURIComponent(name)}`);
  }
});

test("inserts the captures and the database name, encoded, into the target's name", () => {
  const rule = { ...USERS, databases: ["*/user-*"], target: "https://b.example/x/{2}-of-{1}" };
  expect(targetOf(rule, "eu/user-joe")).toBe("https://b.example/x/joe-of-eu");
  expect(targetOf({ ...rule, target: "https://b.example/copy/" + "{db}" }, "eu/user-a")).toBe(
    "https://b.example/copy/eu%2Fuser-a",
  );
  expect(targetOf({ ...rule, target: "copy-{2}" }, "eu/user-joe")).toBe("copy-joe");
});

test("reports an invalid target name without rejecting the rule", () => {
  const rule = { ...USERS, target: "https://b.example/{1}" };
  expect(targetOf(rule, "user-7")).toBe(
    '"7" is not a valid database name, but would be the target',
  );
  expect(targetOf(rule, "user-")).toBe('"" is not a valid database name, but would be the target');
});

test("the replication of a database has the endpoints, credentials and options of the rule", () => {
  const rule = parseRule(
    {
      ...USERS,
      source: { url: "https://joe:pa%20ss@a.example/couch", headers: { "X-Trace": "1" } },
      design_documents: false,
      security: true,
      options: { worker_processes: 2, weight: 300 },
    },
    CONFIG,
  );
  const target = "https://b.example/user-joe";
  expect(ruleReplication(rule, "user-joe/x", target, CONFIG)).toMatchObject({
    source: {
      kind: "http",
      url: "https://a.example/couch/user-joe%2Fx/",
      basic: { username: "joe", password: "pa ss" },
      headers: { "X-Trace": "1" },
    },
    target: { kind: "http", url: `${target}/` },
    continuous: true,
    createTarget: true,
    copiesSecurity: true,
    selection: { kind: "selector", selector: JSON.stringify({ _id: { $regex: "^[^_]" } }) },
    weight: 300,
    options: { workerProcesses: 2 },
  });
});

test.each([
  ["every 1h", false],
  ["between 22:00 and 06:00", true],
])("options of a rule include a schedule (%s) and omissions", (schedule, continuous) => {
  const options = { schedule, deleted: "skip", documents: { max_bytes: 9 } };
  const rule = parseRule({ ...USERS, options }, CONFIG);
  const target = "https://b.example/user-joe";
  expect(ruleReplication(rule, "user-joe", target, CONFIG)).toMatchObject({
    continuous,
    schedule,
    omissions: { deleted: true, documentBytesMax: 9 },
  });
});

test("the replication of a rule with local databases has a local source", () => {
  const rule = parseRule({ ...USERS, source: { url: "local" }, create_target: false }, CONFIG);
  const replication = ruleReplication(rule, "user-joe", "https://b.example/user-joe", CONFIG);
  expect(replication.source).toEqual({ kind: "local", database: "user-joe" });
  expect(replication.createTarget).toBe(false);
  expect(replication.copiesSecurity).toBeUndefined();
});

test.each<[Members, string]>([
  [{ source: undefined }, '`source` must be a server\'s URL, or "local"'],
  [{ source: 7 }, "but is a value of type number"],
  [{ source: "ftp://a/" }, "`source.url` must be the http:// or https:// URL of a server"],
  [{ source: "https://a/?x=1" }, "`source.url` must be the http:// or https:// URL of a server"],
  [{ source: { url: "https://a/", user: "x" } }, "`source.user` is not known. Choose from: url"],
  [{ source: { url: "https://a/", auth: { x: 1 } } }, "`source.auth.x` is not known"],
  [{ target: "https://b/all" }, "`target.url` must be an address that contains {db} or {1}"],
  [{ target: "https://joe:secret@b/{x}" }, 'not {x}, but is "https://b/{x}"'],
  [{ target: "https://{db}.example/x" }, "with placeholders only in its last part"],
  [{ target: "https://b/{db}?q=1" }, "with placeholders only in its last part"],
  [{ target: "https://b/{db" }, "braces occur only in placeholders"],
  [{ target: "https://b/{2}" }, '`target.url` has {2}, but the pattern "user-*"'],
  [{ databases: "user-*" }, '`databases` must be an array of up to 100 patterns such as "user-*"'],
  [{ databases: [] }, "`databases` must have a pattern"],
  [{ databases: ["a", ""] }, "`databases[1]` must be a pattern of 1 to 238 characters"],
  [{ except: [7] }, "`except[0]` must be a pattern of 1 to 238 characters"],
  [{ delete: "drop" }, '`delete` must be "keep" or "stop", but is "drop"'],
  [{ concurrency: 0 }, "`concurrency` must be an integer of at least 1, but is 0"],
  [{ security: "yes" }, "`security` must be a boolean"],
  [{ design_documents: 1 }, "`design_documents` must be a boolean"],
  [{ options: { worker_batch_size: 0 } }, "`worker_batch_size` must be an integer of at least 1"],
  [{ options: { filter: "a/b" } }, "`options.filter` is not known. Choose from: use_checkpoints"],
  [{ options: { schedule: "daily" } }, "`schedule` must be like"],
  [{ options: { documents: 1 } }, "`documents` must be an object like"],
  [{ options: [] }, "`options` must be an object, but is []"],
  [{ continuous: true }, "`continuous` is not known. Choose from: source, target"],
])("%j is rejected with an error that lists the accepted values", (members, reason) => {
  expect(() => parseRule({ ...USERS, ...members }, CONFIG)).toThrow(
    expect.objectContaining({ reason: expect.stringContaining(reason) }),
  );
});

test("rejects a rule that would copy its own targets on the source server", () => {
  const here = { source: "local", target: "copy-{db}" };
  expect(() => parseRule({ ...here, databases: ["*"] }, CONFIG)).toThrow(
    expect.objectContaining({ reason: expect.stringContaining('"except": ["copy-*"]') }),
  );
  expect(() => parseRule({ ...here, databases: ["*"], except: ["copy-*"] }, CONFIG)).not.toThrow();
  expect(() => parseRule({ ...here, databases: ["user-*"] }, CONFIG)).not.toThrow();
  const there = { source: "https://a.example", target: "https://a.example/{db}-copy" };
  expect(() => parseRule({ ...there, databases: ["user-*"] }, CONFIG)).toThrow();
  const elsewhere = { ...there, target: "https://b.example/{db}-copy" };
  expect(() => parseRule({ ...elsewhere, databases: ["*"] }, CONFIG)).not.toThrow();
});

test("secrets of a rule are hidden, and references are shown", () => {
  const client = {
    token_url: "https://idp.example/token",
    client_id: "c",
    client_secret: "hidden6",
    scope: "s",
    auth_method: "client_secret_post",
    client_assertion: "identity:a",
  };
  const shown = maskedRule({
    ...USERS,
    source: {
      url: "https://joe:hidden1@a.example/",
      auth: { basic: { username: "joe", password: "hidden2" } },
      headers: { "X-Key": "hidden3", Authorization: "Bearer env:TOKEN" },
      password: "file:/run/key",
    },
    target: { url: "https://joe:hidden4@b.example/{db}", auth: { oauth2: client } },
    source_proxy: "http://joe:hidden5@proxy.example/",
  });
  expect(JSON.stringify(shown)).not.toContain("hidden");
  expect(shown).toMatchObject({
    source: {
      url: "https://joe:*****@a.example/",
      auth: { basic: { username: "joe", password: "*****" } },
      headers: { "X-Key": "*****", Authorization: "Bearer env:TOKEN" },
      password: "file:/run/key",
    },
    target: { auth: { oauth2: { ...client, client_secret: "*****" } } },
  });
});
