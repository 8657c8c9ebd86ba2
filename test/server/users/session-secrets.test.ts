/** Session secrets that the nodes of a store accept after a change. */
import { expect, test } from "vitest";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { KeyValueStore, MemoryEngine, MemoryStorage } from "../../../src/kv/index.ts";
import { openServer, readConfig } from "../../../src/server/index.ts";
import {
  readChangedSecrets,
  renewChangedSecrets,
} from "../../../src/server/secrets/changed-secrets.ts";
import { KEY_BYTES, KeyRing } from "../../../src/server/secrets/key-ring.ts";
import { authenticationSettings } from "../../../src/server/settings/authentication-settings.ts";
import { SETTINGS } from "../../../src/server/settings/config.ts";
import { Configuration } from "../../../src/server/settings/configuration.ts";
import { SessionSecrets } from "../../../src/server/users/session-secrets.ts";

const TIMEOUT_MS = 600_000;

function openCluster() {
  const system = createSystemRuntime();
  let nowMs = system.clock.nowMs();
  const runtime = { ...system, clock: { ...system.clock, nowMs: () => nowMs } };
  const storage = new MemoryStorage();
  const keys = [Buffer.alloc(KEY_BYTES, 1)];
  const ring = new KeyRing({ random: system.random, readKeys: () => keys });
  const openNode = () => {
    const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime, storage }) });
    const configuration = new Configuration({
      given: [],
      localFile: undefined,
      settings: SETTINGS,
    });
    const settings = authenticationSettings(configuration);
    const parts = { runtime, kv, configuration, settings };
    const secrets = new SessionSecrets({ ...parts, seal: ring, storedSecret: "stored" });
    const set = (key: string, value: string) => configuration.set("chttpd_auth", key, value);
    return { kv, set, configuration, secrets, accepted: () => [...secrets.accepted].sort() };
  };
  const wait = (durationMs: number): void => {
    nowMs += durationMs;
  };
  return { openNode, wait, ring, addKey: () => keys.push(Buffer.alloc(KEY_BYTES, 2)) };
}

test("after a change of the secret, a node accepts the former secret until all sessions signed with it have expired", () => {
  const { openNode, wait } = openCluster();
  const { set, configuration, secrets, accepted } = openNode();
  expect(accepted()).toEqual(["stored"]);
  set("secret", "one");
  expect([secrets.current, accepted()]).toEqual(["one", ["one", "stored"]]);
  wait(TIMEOUT_MS - 1);
  configuration.delete("chttpd_auth", "secret");
  expect([secrets.current, accepted()]).toEqual(["stored", ["one", "stored"]]);
  wait(TIMEOUT_MS);
  expect(accepted()).toEqual(["stored"]);
});

test("other nodes, even nodes that start later, accept the former and the new secret after a change", async () => {
  const { openNode, wait } = openCluster();
  const [one, other] = [openNode(), openNode()];
  other.set("secret", "old");
  one.set("secret", "old");
  wait(TIMEOUT_MS);
  one.set("secret", "new");
  await one.secrets.exchange();
  await other.secrets.exchange();
  expect(other.secrets.current).toBe("old");
  expect(other.accepted()).toEqual(["new", "old"]);
  const late = openNode();
  await late.secrets.exchange();
  expect(late.accepted()).toEqual(["new", "old", "stored"]);
  wait(TIMEOUT_MS);
  for (const node of [one, other, late]) await node.secrets.exchange();
  expect([one, other, late].map((node) => node.accepted())).toEqual([["new"], ["old"], ["stored"]]);
  expect(await one.kv.read((tx) => readChangedSecrets(tx, openCluster().ring))).toEqual(new Map());
});

test("if one node stops accepting former secrets, sessions with these secrets end on all nodes", async () => {
  const { openNode } = openCluster();
  const [one, other] = [openNode(), openNode()];
  one.set("secret", "leaked");
  one.set("secret", "new");
  await one.secrets.exchange();
  await other.secrets.exchange();
  expect(other.accepted()).toEqual(["leaked", "new", "stored"]);
  one.set("accept_former_secrets", "false");
  expect(one.accepted()).toEqual(["new"]);
  await one.secrets.exchange();
  await other.secrets.exchange();
  expect(other.accepted()).toEqual(["stored"]);
});

test("the stored record is sealed, resealed with a new key, and limited in size", async () => {
  const { openNode, wait, ring, addKey } = openCluster();
  const { kv, set, secrets, accepted } = openNode();
  for (let number = 0; number < 20; number++) {
    wait(1);
    set("secret", `secret ${number}`);
  }
  set("secret", "x".repeat(100_000));
  await secrets.exchange();
  expect(accepted()).toHaveLength(9);
  expect(accepted()).toContain("secret 19");
  const everything = { begin: Uint8Array.of(), end: Uint8Array.of(255) };
  const { entries } = await kv.read((tx) => tx.getRangePage(everything, { byteLimit: 1e6 }));
  expect(entries).toHaveLength(1);
  expect(Buffer.from(entries[0]?.value ?? []).toString()).toMatch(/^sealed:/);
  const renew = () => kv.transact((tx) => renewChangedSecrets(tx, ring));
  expect(await renew()).toBe(false);
  addKey();
  ring.reload();
  ring.sealWith(ring.ids.at(-1) ?? "");
  expect(await renew()).toBe(true);
  await secrets.exchange();
  expect(accepted()).toContain("secret 19");
});

test("sessions and proxy tokens survive a new secret, unless former secrets are not accepted", async () => {
  const admin = { COUCHDB_USER: "root", COUCHDB_PASSWORD: "secret" };
  const config = readConfig({ port: 0, store: "memory" }, admin);
  config.configuration.set("chttpd_auth", "iterations", "10");
  const server = await openServer(config, { event() {} });
  try {
    const ask = (path: string, init: RequestInit) => fetch(`${server.url}${path}`, init);
    const logIn = async (): Promise<string> => {
      const body = new URLSearchParams({ name: "root", password: "secret" });
      const { headers } = await ask("/_session", { method: "POST", body });
      return (headers.get("set-cookie") ?? "").split(";")[0] ?? "";
    };
    const nameIn = async (cookie: string) => {
      const answer = await ask("/_session", { headers: { cookie } });
      return ((await answer.json()) as { userCtx: { name: string | null } }).userCtx.name;
    };
    const configure = async (key: string, value: string, cookie: string): Promise<void> => {
      const path = `/_node/_local/_config/chttpd_auth/${key}`;
      const init = { method: "PUT", body: JSON.stringify(value), headers: { cookie } };
      expect((await ask(path, init)).status).toBe(200);
    };
    const before = await logIn();
    await configure("secret", "new", before);
    expect(await nameIn(before)).toBe("root");
    const after = await logIn();
    expect(await nameIn(after)).toBe("root");
    await configure("accept_former_secrets", "false", before);
    expect([await nameIn(before), await nameIn(after)]).toEqual([null, "root"]);
    await configure("secret", "newer", after);
    expect(await nameIn(after)).toBe(null);
  } finally {
    await server.stop();
  }
});
