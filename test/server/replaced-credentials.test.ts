/**
 * `/_tandem/credentials/_replace` is a command. It changes exactly the jobs that it has selected,
 * and any node can continue it. Its credentials are stored sealed, and are erased when it ends.
 */
import { beforeEach, expect, test } from "vitest";
import { OperationalError, type Seal, utf8Decode, utf8Encode } from "../../src/base/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import { KeyValueStore, MemoryEngine } from "../../src/kv/index.ts";
import { replicatorKeys } from "../../src/replicator/replicator-keys.ts";
import { SUBSPACES } from "../../src/server/layout.ts";
import type { OpenApi } from "../api/api.fixture.ts";
import { ADMIN } from "../api/api.fixture.ts";
import { composeNode } from "../support/compose-node.ts";
import { secretsIn } from "../support/find-secrets.ts";
import { openWholeApi, type WholeApiNode } from "./whole-api.fixture.ts";

/** A command for this number of jobs responds before it has changed all of them. */
const MANY = 1_100;
const NEVER = new AbortController().signal;
const NEW = "the-new-password";
const BODY = {
  host: "http://far.example",
  username: "jan",
  auth: { basic: { username: "jan", password: NEW } },
};

let world: OpenApi;
let node: WholeApiNode;

beforeEach(async () => {
  node = openSealedNode();
  world = await openWholeApi({ authenticate: async () => ({ ...ADMIN, name: "root" }), node });
  await world.ask("PUT /_replicator");
});

function openSealedNode(): WholeApiNode {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  return { ...composeNode({ runtime, kv, seal: MASKED }), runtime, kv };
}

/**
 * Stand-in for encryption. It makes values unreadable, and opens a value only in the place for
 * which the value was sealed.
 */
const MASKED: Seal = {
  seal: (plain, place) => masked(utf8Encode(JSON.stringify([place, utf8Decode(plain)]))),
  open(sealed, place) {
    const [sealedFor, plain] = JSON.parse(utf8Decode(masked(sealed)));
    if (sealedFor !== place) throw new OperationalError("SECRETS_DAMAGED", "Another place", {});
    return utf8Encode(plain);
  },
  isCurrent: () => true,
};

const masked = (bytes: Uint8Array): Uint8Array => bytes.map((byte) => byte ^ 0x5a);

async function addJobs(count: number, prefix = "job"): Promise<void> {
  const docs = Array.from({ length: count }, (_, index) => ({
    _id: `${prefix}-${String(index).padStart(5, "0")}`,
    source: `http://jan:former-password@far.example/${prefix}-${index}`,
    target: "copied",
  }));
  for (let first = 0; first < count; first += 500) {
    const body = { docs: docs.slice(first, first + 500) };
    expect((await world.ask("POST /_replicator/_bulk_docs", { body })).status).toBe(201);
  }
}

/** Returns the names of the jobs whose credentials an operator has replaced. */
async function replaced(): Promise<string[]> {
  const { jobs } = (await world.ask("GET /_tandem/jobs?limit=2000")).json;
  return jobs
    .filter(({ control }: { control: { action: string }[] }) =>
      control.some(({ action }) => action === "replace-credentials"),
    )
    .map(({ name }: { name: string }) => name);
}

function idIn(headers: Readonly<Record<string, string>>): string {
  return headers.Location?.split("/").at(-1) ?? "";
}

test("a filter restricts a replacement of credentials to matching jobs, and a short replacement ends before its response", async () => {
  await addJobs(3, "a");
  await addJobs(4, "b");
  const filter = "name=_replicator/a";
  const counted = await world.ask(`POST /_tandem/credentials/_replace?dry_run=true&${filter}`, {
    body: BODY,
  });
  const found = { matched: 3, documents: 3, transient: 0, rules: [] };
  expect(counted.json).toEqual({ ok: true, dry_run: true, ...found });
  expect(await replaced()).toEqual([]);
  const done = await world.ask(`POST /_tandem/credentials/_replace?${filter}`, {
    body: { ...BODY, why: "leaked" },
  });
  expect([done.status, done.json]).toEqual([200, { ok: true, ...found, changed: 3, refused: 0 }]);
  expect(await replaced()).toEqual([0, 1, 2].map((number) => `_replicator/a-0000${number}`));
  const id = idIn(done.headers);
  const command = (await world.ask(`GET /_tandem/commands/${id}`)).json;
  expect(command).toMatchObject({
    ...{ action: "replace_credentials", user: "root", why: "leaked", state: "completed" },
    ...{ matched: 3, done: 3, changed: 3, failed: 0, rules: [] },
  });
  expect(JSON.stringify(command)).not.toContain(NEW);
  const undone = await world.ask(`POST /_tandem/commands/${id}/_undo`);
  expect([undone.status, undone.json]).toEqual([
    409,
    {
      error: "conflict",
      reason:
        "Replaced credentials cannot be restored, because the old ones are not kept; replace them again with the right ones.",
    },
  ]);
  const unknown = await world.ask("POST /_tandem/credentials/_replace?none=1", { body: BODY });
  expect([unknown.status, unknown.json.error]).toEqual([400, "bad_request"]);
});

test("any node can continue a long replacement, and its credentials stay sealed until it ends", async () => {
  await addJobs(MANY);
  const begun = await world.ask("POST /_tandem/credentials/_replace", { body: BODY });
  const { id } = begun.json;
  const found = { matched: MANY, documents: MANY, transient: 0, rules: [] };
  expect([begun.status, begun.json]).toEqual([202, { ok: true, id, ...found }]);
  expect(begun.headers.Location).toBe(`/_tandem/commands/${id}`);
  const running = (await world.ask(`GET /_tandem/commands/${id}`)).json;
  expect(running).toMatchObject({ state: "running", matched: MANY });
  expect(await secretRows()).toBe(1);
  const { bulk } = node.replicator;
  await Promise.all([bulk.finish(id, NEVER), bulk.finish(id, NEVER)]);
  const ended = (await world.ask(`GET /_tandem/commands/${id}`)).json;
  expect(ended).toMatchObject({ state: "completed", done: MANY, changed: MANY, failed: 0 });
  expect(await replaced()).toHaveLength(MANY);
  expect(await secretRows()).toBe(0);
});

test("a cancelled replacement erases its stored credentials, and leaves the remaining jobs unchanged", async () => {
  await addJobs(MANY);
  const { id } = (await world.ask("POST /_tandem/credentials/_replace", { body: BODY })).json;
  expect((await world.ask(`DELETE /_tandem/commands/${id}`)).json).toEqual({ ok: true });
  expect(await secretRows()).toBe(0);
  await node.replicator.bulk.finish(id, NEVER);
  const { state, changed } = (await world.ask(`GET /_tandem/commands/${id}`)).json;
  expect(state).toBe("cancelled");
  expect(changed).toBeLessThan(MANY);
  expect(await replaced()).toHaveLength(changed);
});

/**
 * Returns the number of stored commands with credentials. Checks that no credential is readable in
 * the store.
 */
async function secretRows(): Promise<number> {
  const keys = replicatorKeys(SUBSPACES.replicator);
  const rows = await node.kv.read((tx) => tx.getRangePage(keys.commandSecret.range()));
  for (const { value } of rows.entries) {
    expect(secretsIn(Buffer.from(value), [NEW, "far.example"])).toEqual([]);
  }
  return rows.entries.length;
}
