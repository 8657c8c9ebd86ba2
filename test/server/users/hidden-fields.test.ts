/**
 * Queries by users who see only parts of the documents. Indexes contain fields that must stay
 * hidden from these users.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";

const ROOT = "root:secret";
const MEMBER = "eve:pw";

let server: RunningServer;

beforeAll(async () => {
  const admin = { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret" };
  const config = readConfig({ port: 0, store: "memory" }, admin);
  config.configuration.set("chttpd_auth", "iterations", "10");
  config.configuration.set("chttpd_auth", "public_fields", "name");
  config.configuration.set("couchdb", "users_db_security_editable", "true");
  server = await openServer(config, { event() {} });
  await ask("PUT", "/_users/_security", ROOT, {});
  for (const [name, email] of [
    ["ann", "zoe@a.example"],
    ["ben", "mia@b.example"],
    ["eve", "eve@c.example"],
  ] as const) {
    const body = { name, type: "user", roles: [], password: "pw", email };
    expect((await ask("PUT", `/_users/org.couchdb.user:${name}`, ROOT, body)).status).toBe(201);
  }
  for (const [name, index] of [
    ["email", { fields: ["email"] }],
    ["partial", { fields: ["name"], partial_filter_selector: { email: { $gt: "m" } } }],
  ] as const) {
    const made = await ask("POST", "/_users/_index", ROOT, { index, name, ddoc: name });
    expect(made.status).toBe(200);
  }
});

afterAll(() => server.stop());

async function ask(method: string, path: string, as: string, body?: object) {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { "Content-Type": "application/json", Authorization: `Basic ${btoa(as)}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it as they like.
  return { status: response.status, json: (await response.json()) as any };
}

const find = async (body: object, as = MEMBER) =>
  (await ask("POST", "/_users/_find", as, { execution_stats: true, ...body })).json;

const namesIn = (answer: { docs: { name: string }[] }) => answer.docs.map(({ name }) => name);

test("a query by an administrator uses the index and returns execution statistics", async () => {
  const answer = await find({ selector: { email: { $gt: "m" } } }, ROOT);
  expect(namesIn(answer)).toEqual(["ben", "ann"]);
  expect(answer.execution_stats).toMatchObject({ total_keys_examined: 2 });
});

test.each([
  ["a range over a hidden field", { selector: { email: { $gt: "zoe@", $lt: "zoe@b" } } }],
  ["an empty range over a hidden field", { selector: { email: { $gt: "zoe@b", $lt: "zoe@c" } } }],
  ["the name of an index", { selector: { email: "mia@b.example" }, use_index: "email" }],
])(
  "a query with %s gets the same response whatever the hidden field contains",
  async (_, query) => {
    const answer = await find({ ...query, limit: 1, skip: 0 });
    expect(answer).toEqual({ docs: [], bookmark: "nil", warning: expect.anything() });
    expect(answer.warning).toContain("No matching index found");
  },
);

test("a partial index does not reveal which documents it contains", async () => {
  const answer = await find({ selector: { name: { $gt: null } }, use_index: "partial" });
  expect(namesIn(answer).sort()).toEqual(["ann", "ben", "eve"]);
  expect(answer).not.toHaveProperty("execution_stats");
  expect(answer.bookmark).toBe("id:org.couchdb.user%3Aeve");
});

test("sorting by a hidden field fails, as it does without an index", async () => {
  const query = { selector: { email: { $gt: null } }, sort: ["email"] };
  expect(await find(query)).toMatchObject({ error: "no_usable_index" });
});

test("a bookmark from an administrator's query is refused", async () => {
  const selector = { email: { $gt: null } };
  const { bookmark } = await find({ selector, limit: 1 }, ROOT);
  expect(bookmark).toMatch(/^index:/);
  expect(await find({ selector, bookmark })).toMatchObject({ error: "invalid_bookmark" });
});

test("`_explain` and `_index` hide the indexes from a user who sees only the public fields", async () => {
  const body = { selector: { email: "a" }, use_index: "email" };
  const { json } = await ask("POST", "/_users/_explain", MEMBER, body);
  expect(json.index.name).toBe("_all_docs");
  expect(json.index_candidates).toEqual([]);
  const { indexes } = (await ask("GET", "/_users/_index", MEMBER)).json;
  expect(indexes).toHaveLength(1);
  expect((await ask("GET", "/_users/_index", ROOT)).json.indexes).toHaveLength(3);
});
