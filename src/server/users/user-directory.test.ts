/** Tests users with hashes of earlier versions, and the time spent on unknown names. */
import { createHook } from "node:async_hooks";
import { createHash } from "node:crypto";
import { afterAll, expect, test } from "vitest";
import { Utf8Text } from "../../base/index.ts";
import { DatabaseRegistry } from "../../databases/index.ts";
import { createSystemRuntime } from "../../host/index.ts";
import { KeyValueStore, MemoryEngine, Subspace } from "../../kv/index.ts";
import { Configuration } from "../settings/configuration.ts";
import { passwordSettings } from "../settings/password-settings.ts";
import { type Turn, UserDirectory } from "./user-directory.ts";

const SERVER = { userName: null, roles: ["_admin"], isAdmin: true };

/** Number of key derivations from passwords started in this process. */
let derivationCount = 0;
const derivations = createHook({
  init: (_, type) => {
    if (type === "PBKDF2REQUEST") derivationCount++;
  },
}).enable();
afterAll(() => {
  derivations.disable();
});

/** Opens a directory whose store contains these user documents. */
async function open(users: Readonly<Record<string, object>>): Promise<UserDirectory> {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  const databases = new DatabaseRegistry({ runtime, root: Subspace.fromTuple([1]), hooks: [] });
  const configuration = new Configuration({ given: [], localFile: undefined, settings: [] });
  configuration.set("chttpd_auth", "iterations", "77");
  await kv.transact(async (tx) => {
    const database = await databases.create(tx, "_users");
    for (const [name, members] of Object.entries(users)) {
      const body = Utf8Text.of(JSON.stringify({ name, type: "user", roles: [], ...members }));
      const id = `org.couchdb.user:${name}`;
      const edit = { mode: "interactive", id, parent: undefined, deleted: false } as const;
      await database.write(tx, { ...edit, body, attachments: [] }, SERVER);
    }
  });
  const passwords = passwordSettings(configuration);
  return new UserDirectory({ kv, databases, configuration, passwords });
}

const simple = (password: string, salt: string) => ({
  password_scheme: "simple",
  salt,
  password_sha: createHash("sha1").update(`${password}${salt}`).digest("hex"),
});

const turn: Turn = (check) => check();

test("the next login replaces a stored salt only if the salt is empty", async () => {
  const users = await open({ sal: simple("pw", ""), ben: simple("pw", "kept") });
  for (const name of ["sal", "ben"]) {
    expect(await (await users.find(name))?.matches("pw", turn)).toBe(true);
    await users.upgradeHash(name, "pw");
  }
  expect((await users.find("sal"))?.salt).toMatch(/^[0-9a-f]{32}$/);
  expect((await users.find("ben"))?.salt).toBe("kept");
  expect(await (await users.find("sal"))?.matches("pw", turn)).toBe(true);
});

test("a wrong password costs one derivation, for unknown users, current hashes and old hashes", async () => {
  const users = await open({ old: simple("pw", "salt"), new: simple("pw", "salt") });
  await users.upgradeHash("new", "pw");
  for (const name of ["old", "new"]) {
    const before = derivationCount;
    expect(await (await users.find(name))?.matches("no", turn)).toBe(false);
    expect(derivationCount - before, name).toBe(1);
  }
  const before = derivationCount;
  expect(await users.rejectUnknown("unknown", "no", turn)).toBe(false);
  expect(derivationCount - before).toBe(1);
});
