/** Conflicts that a policy resolves, and their undo, over HTTP. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ConflictResolver } from "../../src/server/conflict-resolver.ts";
import { type OpenedNode, openNode, readConfig } from "../../src/server/index.ts";
import { patience } from "../support/runner/patience.ts";

/**
 * Interval of an additional resolver. The node's own resolver runs only every few seconds, which
 * would slow down the tests.
 */
const LOOK_MS = 20;

let node: OpenedNode;
let url: string;
const events: { name: string; documentId?: unknown; database?: unknown }[] = [];
let wake = () => {};

beforeAll(async () => {
  const config = readConfig({ port: 0, store: "memory" }, {});
  const event = (name: string, fields: object): void => {
    patience.heard();
    events.push({ name, ...fields });
    wake();
  };
  node = await openNode(config, { event });
  url = `http://127.0.0.1:${(await node.listen()).port}`;
  const { runtime, kv, functions, parts } = node.parts;
  node.start([
    new ConflictResolver({ runtime, kv, functions, databases: parts.databases }, LOOK_MS),
  ]);
});

afterAll(() => node.stop());

async function occurred(name: string, subject: string): Promise<void> {
  const isOf = (event: (typeof events)[number]) =>
    event.name === name && [event.documentId, event.database].includes(subject);
  while (!events.some(isOf)) {
    const next = new Promise<void>((resolve) => {
      wake = resolve;
    });
    await patience.until(`${name} of ${subject}`, next);
  }
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
async function ask(method: string, path: string, body?: unknown): Promise<any> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return response.json();
}

const at = (name: string, rest = "") => `/_tandem/databases/${name}/conflicts${rest}`;

/** Creates a document with two leaves. CouchDB's winner is `1-b`. */
async function putConflict(name: string, _id: string): Promise<void> {
  const docs = [
    { _id, _rev: "1-a", at: 2, from: "a" },
    { _id, _rev: "1-b", at: 1, from: "b", _attachments: file("b") },
  ];
  expect(await ask("POST", `/${name}/_bulk_docs`, { new_edits: false, docs })).toEqual([]);
}

function file(text: string) {
  return { file: { content_type: "text/plain", data: Buffer.from(text).toString("base64") } };
}

test("a policy resolves conflicts and logs the resolutions, and an undo restores the leaves with their attachments", async () => {
  await ask("PUT", "/berlin");
  await putConflict("berlin", "one");
  expect(await ask("GET", at("berlin", "/policy"))).toEqual({ policy: null, since: null });
  const policy = { resolve: "last_write", field: "at" };
  expect(await ask("PUT", at("berlin", "/policy"), policy)).toEqual({ ok: true });
  expect(await ask("GET", at("berlin", "/policy"))).toMatchObject({ policy });
  await occurred("databases.conflict-resolved", "one");
  const resolved = await ask("GET", "/berlin/one?conflicts=true&revs=true");
  expect(resolved).toMatchObject({
    from: "a",
    _revisions: { start: 2, ids: [expect.any(String), "a"] },
  });
  expect(resolved._conflicts).toBeUndefined();
  const { resolutions, bookmark } = await ask("GET", at("berlin", "/resolutions"));
  expect(bookmark).toBeNull();
  expect(resolutions).toEqual([
    {
      id: "one",
      time: expect.any(String),
      resolve: "last_write",
      kept: "1-a",
      result: resolved._rev,
      removed: ["1-b"],
    },
  ]);
  const metrics = await (await fetch(`${url}/_node/_local/_prometheus`)).text();
  expect(metrics).toContain('tandem_conflicts_resolved{resolve="last_write"} 1');
  // The bodies of removed leaves survive a compaction.
  await ask("POST", "/berlin/_compact");
  await occurred("databases.swept", "berlin");
  expect(await ask("POST", at("berlin", "/_undo"), {})).toEqual({
    ok: true,
    resolutions: 1,
    revisions: 1,
    lost: 0,
    kept: 0,
    bookmark: null,
  });
  expect(await ask("GET", at("berlin", "/policy"))).toMatchObject({ policy: null });
  const leaves = await ask("GET", "/berlin/one?open_revs=all&attachments=true");
  const live = leaves.flatMap((leaf: { ok: object }) => ("_deleted" in leaf.ok ? [] : [leaf.ok]));
  expect(live).toEqual([
    expect.objectContaining({ _rev: expect.stringMatching(/^3-/), from: "b" }),
    expect.objectContaining({ _rev: resolved._rev, from: "a" }),
  ]);
  expect(live[0]._attachments.file.data).toBe(file("b").file.data);
  expect(await ask("GET", at("berlin", "/resolutions"))).toMatchObject({ resolutions: [] });
  expect((await ask("GET", at("berlin"))).total_rows).toBe(1);
});

test("a function merges two leaves, and an undo restores both leaves", async () => {
  await ask("PUT", "/paris");
  await putConflict("paris", "two");
  const source =
    "function (docs) { return { from: docs.map(function (d) { return d.from; }).sort() }; }";
  await ask("PUT", at("paris", "/policy"), { resolve: "function", function: source });
  await occurred("databases.conflict-resolved", "two");
  expect(await ask("GET", "/paris/two")).toMatchObject({
    _rev: expect.stringMatching(/^2-/),
    from: ["a", "b"],
    _attachments: { file: { length: 1 } },
  });
  const undone = await ask("POST", at("paris", "/_undo"), { ids: ["two", "other"] });
  expect(undone).toMatchObject({ resolutions: 1, revisions: 2 });
  const { _rev, _conflicts, ...rest } = await ask("GET", "/paris/two?conflicts=true");
  const others = await Promise.all(
    _conflicts.map((rev: string) => ask("GET", `/paris/two?rev=${rev}`)),
  );
  expect([rest.from, ...others.map(({ from }) => from)].sort()).toEqual(["a", "b"]);
});

test("a conflict that a function or a validation leaves unresolved is listed with the reason", async () => {
  await ask("PUT", "/rome");
  await putConflict("rome", "three");
  await ask("PUT", "/rome/_design/v", {
    validate_doc_update: "function (doc, old, user) { throw { forbidden: user.roles.join() }; }",
  });
  await ask("PUT", at("rome", "/policy"), { resolve: "longest_history" });
  await occurred("databases.conflict-left", "three");
  const [{ unresolved }] = (await ask("GET", at("rome"))).conflicts;
  expect(unresolved).toEqual({
    time: expect.any(String),
    reason: "the write was refused: forbidden: _admin",
  });
  expect(await ask("DELETE", at("rome", "/policy"))).toEqual({ ok: true });
  expect((await ask("GET", at("rome"))).conflicts[0].unresolved).toBeNull();
  expect(await ask("DELETE", at("rome", "/policy"))).toMatchObject({ error: "not_found" });
});

test("a function cannot write a document that would be refused in a request", async () => {
  await ask("PUT", "/oslo");
  await putConflict("oslo", "four");
  const source = "function (docs) { return { from: String.fromCharCode(0xd800) }; }";
  await ask("PUT", at("oslo", "/policy"), { resolve: "function", function: source });
  await occurred("databases.conflict-left", "four");
  const [{ unresolved }] = (await ask("GET", at("oslo"))).conflicts;
  expect(unresolved.reason).toMatch(/^the function returned no valid document: /);
  await ask("DELETE", at("oslo", "/policy"));
});

test("an undo treats a `since` time without an offset as UTC", async () => {
  await ask("PUT", "/bonn");
  await putConflict("bonn", "five");
  await ask("PUT", at("bonn", "/policy"), { resolve: "longest_history" });
  await occurred("databases.conflict-resolved", "five");
  const [{ time }] = (await ask("GET", at("bonn", "/resolutions"))).resolutions;
  const { TZ } = process.env;
  process.env.TZ = "America/New_York";
  try {
    const hourLater = new Date(Date.parse(time) + 3_600_000).toISOString().replace("Z", "");
    const later = await ask("POST", at("bonn", "/_undo"), { since: hourLater });
    expect(later).toMatchObject({ resolutions: 0 });
    const undone = await ask("POST", at("bonn", "/_undo"), { since: time.replace("Z", "") });
    expect(undone).toMatchObject({ resolutions: 1 });
  } finally {
    if (TZ === undefined) delete process.env.TZ;
    else process.env.TZ = TZ;
  }
});

describe("invalid requests", () => {
  test.each([
    ["PUT", "berlin/conflicts/policy", { resolve: "last_write" }, "`field`"],
    ["PUT", "berlin/conflicts/policy", { resolve: "function", function: "(" }, "`function`"],
    ["PUT", "_users/conflicts/policy", { resolve: "remote" }, "system database"],
    ["POST", "berlin/conflicts/_undo", { ids: "one" }, "`ids`"],
    ["POST", "berlin/conflicts/_undo", { since: "yesterday" }, "`since`"],
    ["POST", "berlin/conflicts/_undo", { since: "1" }, "`since`"],
    ["POST", "berlin/conflicts/_undo", { all: true }, "`all`"],
    ["GET", "berlin/conflicts/resolutions?bookmark=x", undefined, "bookmark"],
  ])("%s %s %j is rejected, and the reason contains %s", async (method, path, body, reason) => {
    expect(await ask(method, `/_tandem/databases/${path}`, body)).toEqual({
      error: "bad_request",
      reason: expect.stringContaining(reason),
    });
  });

  test("an undo without a body is rejected", async () => {
    expect(await ask("POST", at("berlin", "/_undo"))).toMatchObject({ error: "bad_request" });
  });
});
