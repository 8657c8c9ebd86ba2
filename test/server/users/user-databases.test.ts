/** A separate database for each user: `[couch_peruser]`. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { SETTINGS } from "../../../src/server/settings/config.ts";
import { Configuration } from "../../../src/server/settings/configuration.ts";
import { parseIni } from "../../../src/server/settings/ini.ts";
import { userDatabaseSettings } from "../../../src/server/settings/user-database-settings.ts";
import { UserDatabases } from "../../../src/server/users/user-databases.ts";
import { openNode } from "../../support/open-node.ts";

const ENABLED = "[couch_peruser]\nenable = true\n";

let node: Awaited<ReturnType<typeof openNode>>;
let stopping: AbortController;
let running: Promise<void>[];

beforeEach(async () => {
  node = await openNode();
  await node.createDatabase("_users");
  stopping = new AbortController();
  running = [];
});

afterEach(async () => {
  await stop();
  await node.stop();
  await node.kv.close();
});

/** Starts a process that maintains the databases with these settings. */
function start(given = ENABLED): Configuration {
  const configuration = new Configuration({
    given: [parseIni(given)],
    localFile: undefined,
    settings: SETTINGS,
  });
  const service = new UserDatabases({
    ...node,
    configuration,
    settings: userDatabaseSettings(configuration),
    progressKey: new Uint8Array([9, 9]),
  });
  running.push(service.run(stopping.signal));
  return configuration;
}

async function stop(): Promise<void> {
  stopping.abort(new Error("The test is over"));
  await Promise.all(running);
  stopping = new AbortController();
  running = [];
}

const putUser = (name: string, { deleted = false, roles = [] as string[] } = {}): Promise<void> =>
  node.put(
    "_users",
    `org.couchdb.user:${name}`,
    JSON.stringify({ name, type: "user", roles }),
    deleted,
  );

const created = (database: string) =>
  node.event("users.database-created", (fields) => fields.database === database);

/**
 * Waits until all previous changes are processed. Adds a user for this, because changes are
 * processed in order.
 */
async function caughtUp(): Promise<void> {
  const name = `z${node.events.length}`;
  await putUser(name);
  await created(`userdb-${Buffer.from(name).toString("hex")}`);
}

const security = (name: string): Promise<unknown> =>
  node.kv.read(async (tx) => JSON.parse(await (await node.databases.open(tx, name)).security(tx)));

const setSecurity = (name: string, value: unknown): Promise<void> =>
  node.kv.transact(async (tx) => {
    await (await node.databases.open(tx, name)).setSecurity(tx, JSON.stringify(value));
  });

const names = (): Promise<string[]> => node.kv.read((tx) => node.databases.names(tx, {}));

const ofUsers = async (): Promise<string[]> =>
  (await names()).filter((name) => name.startsWith("userdb-"));

test("each existing or new user gets a database, whose only named admin and member is the user", async () => {
  for (let number = 0; number < 45; number++) await putUser(`u${number}`);
  const configuration = start("");
  await node.createDatabase("other");
  expect(await ofUsers()).toEqual([]);
  configuration.set("couch_peruser", "enable", "true");
  await created("userdb-753434");
  await putUser("ä");
  await created("userdb-c3a4");
  expect((await ofUsers()).length).toBe(46);
  // The security object is the same as the one that CouchDB writes.
  expect(await security("userdb-c3a4")).toEqual({
    members: { roles: ["_admin"], names: ["ä"] },
    admins: { roles: ["_admin"], names: ["ä"] },
  });
});

test("changing a user adds the user to a security object that lacks the user, and changes nothing else", async () => {
  start();
  await putUser("ann");
  await created("userdb-616e6e");
  await setSecurity("userdb-616e6e", { members: { names: ["x"] }, cloudant: { x: ["_reader"] } });
  await putUser("ann", { roles: ["a"] });
  await caughtUp();
  expect(await security("userdb-616e6e")).toEqual({
    members: { names: ["ann", "x"] },
    admins: { names: ["ann"] },
    cloudant: { x: ["_reader"] },
  });
});

test("a deleted user loses access to their database, and the database is deleted only if so configured", async () => {
  const configuration = start();
  await putUser("ann");
  await putUser("bob");
  await created("userdb-626f62");
  await putUser("ann", { deleted: true });
  await caughtUp();
  expect(await security("userdb-616e6e")).toEqual({
    members: { roles: ["_admin"], names: [] },
    admins: { roles: ["_admin"], names: [] },
  });
  configuration.set("couch_peruser", "delete_dbs", "true");
  await putUser("bob", { deleted: true });
  await node.event("users.database-deleted", ({ database }) => database === "userdb-626f62");
  expect(await names()).not.toContain("userdb-626f62");
});

test("each change is processed once, by only one of several processes", async () => {
  for (let number = 0; number < 30; number++) await putUser(`u${number}`);
  for (let process = 0; process < 3; process++) start();
  await caughtUp();
  const made = node.events.filter(({ name }) => name === "users.database-created");
  expect(made.length).toBe(31);
  expect(new Set(made.map(({ fields }) => fields.database)).size).toBe(31);
});

test("a restarted process continues at the last position of the previous process", async () => {
  start();
  await putUser("ann");
  await created("userdb-616e6e");
  await stop();
  await node.kv.transact((tx) => node.databases.remove(tx, "userdb-616e6e"));
  await putUser("bob");
  start();
  await created("userdb-626f62");
  // A deleted database is re-created only when its user document changes.
  expect(await ofUsers()).toEqual(["userdb-626f62"]);
  await putUser("ann", { roles: ["a"] });
  await caughtUp();
  expect(await ofUsers()).toContain("userdb-616e6e");
});

test("after the prefix is changed, existing users get a new database, and the old database is kept", async () => {
  const configuration = start();
  await putUser("ann");
  await created("userdb-616e6e");
  configuration.set("couch_peruser", "database_prefix", "of/");
  await created("of/616e6e");
  expect(await names()).toContain("userdb-616e6e");
});

test("no user name maps to the database of another user", async () => {
  start();
  await putUser("ann");
  await putUser("\u0006\u0001\u0006\u000e\u0006\u000e");
  await created("userdb-0601060e060e");
  expect(await security("userdb-616e6e")).toMatchObject({ admins: { names: ["ann"] } });
});

test("a user whose name cannot be used for a database is skipped", async () => {
  start();
  await putUser("u".repeat(400));
  await node.event("users.database-refused");
  await caughtUp();
});

test.each(["Upper", "_users", "1"])("%s is not a valid prefix", (prefix) => {
  expect(() => start(`[couch_peruser]\ndatabase_prefix = ${prefix}`)).toThrow(
    `[couch_peruser] database_prefix = ${prefix}: expected the beginning of a database name`,
  );
});
