/**
 * Keys for a node's secrets: where they come from, and how a node behaves without the right key.
 */
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSystemRuntime } from "../../src/host/index.ts";
import { KeyValueStore, MemoryEngine, MemoryStorage } from "../../src/kv/index.ts";
import { openServer, readConfig, readStorePlace } from "../../src/server/index.ts";
import { establishKeys, readKeyRecord } from "../../src/server/secrets/key-record.ts";
import { KEY_BYTES, keyIdOf } from "../../src/server/secrets/key-ring.ts";
import { makeKeyFile } from "../../src/server/secrets/key-source.ts";
import { Configuration } from "../../src/server/settings/configuration.ts";
import { withDirectory } from "../support/with-directory.ts";

const ONE = Buffer.alloc(KEY_BYTES, 1);
const TWO = Buffer.alloc(KEY_BYTES, 2);
const base64 = (...keys: Buffer[]): string => keys.map((key) => key.toString("base64")).join(",");

/** Performs the part of a node's start that concerns its keys. */
async function start(
  storage: MemoryStorage,
  { directory, environment = {}, ini }: { directory: string; environment?: object; ini?: string },
) {
  const runtime = createSystemRuntime();
  const configFile = join(directory, "conf", "tandem.ini");
  if (ini !== undefined) writeFileSync(configFile, ini);
  const options = {
    dataDirectory: join(directory, "data"),
    ...(ini === undefined ? {} : { configFile }),
  };
  const { secrets } = readConfig(options, { ...environment });
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime, storage }) });
  await establishKeys({ random: runtime.random, kv, ...secrets });
  return { ring: secrets.ring, record: await kv.read(readKeyRecord) };
}

test("the first start generates a key next to the store's folder, readable only by its owner; later starts use this key", () =>
  withDirectory(async (directory) => {
    const storage = new MemoryStorage();
    const { record } = await start(storage, { directory });
    expect(readdirSync(directory)).toEqual(["data.key"]);
    const file = join(directory, "data.key");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const [key = ""] = readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => !line.startsWith("#"));
    expect(record?.inUse).toEqual([keyIdOf(Buffer.from(key, "base64"))]);
    const again = await start(storage, { directory });
    expect(again.record).toEqual(record);
    expect(again.ring.sealingId).toBe(record?.sealingId);
  }));

test("a new store is sealed with the newest configured key, and an existing store keeps its key", () =>
  withDirectory(async (directory) => {
    const storage = new MemoryStorage();
    const first = { TANDEM_SECRETS_KEY: base64(ONE) };
    expect((await start(storage, { directory, environment: first })).ring.sealingId).toBe(
      keyIdOf(ONE),
    );
    const both = { TANDEM_SECRETS_KEY: base64(ONE, TWO) };
    const opened = await start(storage, { directory, environment: both });
    expect(opened.ring.sealingId).toBe(keyIdOf(ONE));
    const other = await start(new MemoryStorage(), { directory, environment: both });
    expect(other.ring.sealingId).toBe(keyIdOf(TWO));
    expect(readdirSync(directory)).toEqual([]);
  }));

test.each([
  ["no key", {}],
  ["another key", { TANDEM_SECRETS_KEY: base64(TWO) }],
])(
  "a node with %s does not start, and its error contains the id of the required key",
  (_, environment) =>
    withDirectory(async (directory) => {
      const storage = new MemoryStorage();
      await start(storage, { directory, environment: { TANDEM_SECRETS_KEY: base64(ONE) } });
      const starting = start(storage, { directory, environment });
      await expect(starting).rejects.toThrow(
        new RegExp(`sealed with the key ${keyIdOf(ONE)}, which .* lacks: set .*TANDEM_SECRETS_KEY`),
      );
      // The node has not created a new key that could be mistaken for the right key, and the right
      // key still works.
      expect(readdirSync(directory)).toEqual([]);
      await start(storage, { directory, environment: { TANDEM_SECRETS_KEY: base64(ONE) } });
    }),
);

test("the configuration sets the key file, and the environment overrides it", () =>
  withDirectory(async (directory) => {
    mkdirSync(join(directory, "conf"));
    const [one, two] = [join(directory, "one"), join(directory, "two")];
    writeFileSync(one, `# ours\n${base64(ONE)}\n`);
    writeFileSync(two, base64(TWO));
    const ini = `[secrets]\nkey_file = ${one}\n`;
    expect((await start(new MemoryStorage(), { directory, ini })).ring.ids).toEqual([keyIdOf(ONE)]);
    const environment = { TANDEM_SECRETS_KEY_FILE: two };
    const named = await start(new MemoryStorage(), { directory, ini, environment });
    expect(named.ring.ids).toEqual([keyIdOf(TWO)]);
    rmSync(one);
    await expect(start(new MemoryStorage(), { directory, ini })).rejects.toThrow(/key file .*one/);
    // If the configuration sets no key file, the file is created next to the configuration file.
    await start(new MemoryStorage(), { directory, ini: "[couchdb]\n" });
    expect(readdirSync(join(directory, "conf")).sort()).toEqual(["data.key", "tandem.ini"]);
  }));

test.each(["not base64", base64(Buffer.alloc(16))])(
  "the key %s is refused, and the error does not contain the key",
  (text) =>
    withDirectory(async (directory) => {
      const starting = start(new MemoryStorage(), {
        directory,
        environment: { TANDEM_SECRETS_KEY: text },
      });
      const error: Error = await starting.then(
        () => expect.fail("it started"),
        (reason) => reason,
      );
      expect(error.message).toBe("TANDEM_SECRETS_KEY: expected keys of 32 bytes in base64");
    }),
);

test("a key file that cannot be created causes an error with instructions", () =>
  withDirectory(async (directory) => {
    const folder = join(directory, "file");
    writeFileSync(folder, "");
    const making = () => makeKeyFile(join(folder, "data.key"), createSystemRuntime().random);
    expect(making).toThrow(/cannot be written .*: name another file by/);
  }));

test("an in-memory store has its own key, and writes no key file", () =>
  withDirectory(async (directory) => {
    const options = { port: 0, store: "memory", dataDirectory: join(directory, "data") };
    const server = await openServer(readConfig(options, {}), { event() {} });
    await server.stop();
    expect(readdirSync(directory)).toEqual([]);
  }));

test("secrets in the local configuration are sealed when they are set; plaintext secrets can be read, and are sealed on request", () =>
  withDirectory(async (directory) => {
    const localFile = join(directory, "local.ini");
    const { secrets } = readConfig({ store: "memory" }, { TANDEM_SECRETS_KEY: base64(ONE) });
    const open = () =>
      new Configuration({ given: [], localFile, settings: [], seal: secrets.ring });
    open().set("chttpd_auth", "secret", "my secret");
    open().set("log", "level", "warn");
    open().set("alerts", "url", "https://hooks.example/T0/B0/credential");
    expect(readFileSync(localFile, "utf8")).toMatch(/url = sealed:[\w+/=]+\n/);
    expect(open().get("alerts", "url")).toBe("https://hooks.example/T0/B0/credential");
    expect(readFileSync(localFile, "utf8")).toMatch(/secret = sealed:[\w+/=]+\n/);
    expect(open().get("chttpd_auth", "secret")).toBe("my secret");
    expect(open().renewSecrets()).toBe(0);
    writeFileSync(localFile, "[replicator]\npassword = plain ; why\n[log]\nlevel = warn\n");
    chmodSync(localFile, 0o600);
    expect(open().get("replicator", "password")).toBe("plain");
    expect(open().renewSecrets()).toBe(1);
    expect(readFileSync(localFile, "utf8")).not.toContain("plain");
    expect(open().get("replicator", "password")).toBe("plain");
    const other = readConfig({ store: "memory" }, { TANDEM_SECRETS_KEY: base64(TWO) });
    const opening = () =>
      new Configuration({ given: [], localFile, settings: [], seal: other.secrets.ring });
    expect(opening).toThrow(`local.ini: This node lacks the key ${keyIdOf(ONE)}`);
  }));

test("the store's identity can be read without the key that seals a setting", () =>
  withDirectory(async (directory) => {
    const options = { dataDirectory: join(directory, "data") };
    const { configuration } = readConfig(options, { TANDEM_SECRETS_KEY: base64(ONE) });
    configuration.set("alerts", "secret", "hidden");
    expect(() => readConfig(options, { TANDEM_SECRETS_KEY: base64(TWO) })).toThrow("lacks the key");
    expect(readStorePlace(options, {})).toEqual({ ...options, store: "lmdb" });
  }));
