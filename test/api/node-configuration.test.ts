import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { nodeConfigurationRoutes, type User } from "../../src/api/index.ts";
import { matchesHash, parseAdminHash } from "../../src/server/passwords.ts";
import { SETTINGS } from "../../src/server/settings/config.ts";
import { Configuration, settingDefault } from "../../src/server/settings/configuration.ts";
import { parseIni } from "../../src/server/settings/ini.ts";
import { MaskedConfiguration } from "../../src/server/settings/node-configuration.ts";
import { REPLICATOR_SETTINGS } from "../../src/server/settings/replicator-settings.ts";
import { withDirectory } from "../support/with-directory.ts";
import { ADMIN, type OpenApi, openApi } from "./api.fixture.ts";
import { FILMS, refusal, testRows } from "./rows.ts";

const GIVEN = `
[chttpd]
port = 5984
[chttpd_auth]
secret = abcdef
[jwt_keys]
hmac:_default = aGVsbG8=
rsa:foo = -----BEGIN PUBLIC KEY-----
[alerts]
url = https://hooks.example/T0/B0/credential
[admins]
root = secret
`;

async function open(
  user: User = ADMIN,
  localFile?: string,
): Promise<{ configuration: Configuration; openedApi: OpenApi }> {
  const configuration = new Configuration({
    given: [parseIni(GIVEN)],
    localFile,
    settings: REPLICATOR_SETTINGS,
  });
  const masked = new MaskedConfiguration(configuration, {
    scheme: "pbkdf2",
    pseudoRandomFunction: "sha256",
    iterations: 10,
    iterationsMin: 1,
    iterationsMax: 100,
  });
  const routes = nodeConfigurationRoutes(masked, "tandem@test");
  return { configuration, openedApi: await openApi({ user, parts: { routes } }) };
}

const openAsAdmin = async (): Promise<OpenApi> => (await open()).openedApi;

describe("the node's configuration", () => {
  const root = "/_node/_local/_config";
  testRows(
    FILMS,
    [
      {
        name: "the local node has a name",
        ask: "GET /_node/_local",
        status: 200,
        json: { name: "tandem@test" },
      },
      { name: "a value is read", ask: `GET ${root}/chttpd/port`, status: 200, json: "5984" },
      {
        name: "the node accepts its own name",
        ask: "GET /_node/tandem%40test/_config/chttpd/port",
        status: 200,
        json: "5984",
      },
      {
        name: "another node is unknown",
        ask: "GET /_node/foo/_config",
        ...refusal(404, "not_found", "no such node: foo"),
      },
      { name: "a section is read", ask: `GET ${root}/chttpd`, status: 200, json: { port: "5984" } },
      { name: "an unknown section is empty", ask: `GET ${root}/nope`, status: 200, json: {} },
      {
        name: "an unknown key is not found",
        ask: `GET ${root}/nope/x`,
        ...refusal(404, "not_found", "unknown_config_value"),
      },
      {
        name: "an unknown key cannot be deleted",
        ask: `DELETE ${root}/nope/x`,
        ...refusal(404, "not_found", "unknown_config_value"),
      },
      {
        name: "an unset setting has its default",
        ask: `GET ${root}/replicator/max_jobs`,
        status: 200,
        json: "500",
      },
      {
        name: "setting returns the default of an unset setting",
        ask: `PUT ${root}/replicator/max_jobs`,
        body: '"7"',
        status: 200,
        json: "500",
      },
      {
        name: "deleting an unset setting returns the default",
        ask: `DELETE ${root}/replicator/max_jobs`,
        status: 200,
        json: "500",
      },
      {
        name: "a value that is not a string is refused",
        ask: `PUT ${root}/a/b`,
        body: "1",
        ...refusal(400, "bad_request", "expected a JSON string"),
      },
      ...["abc", "0", "-5", "1001", "1.5", ""].map((text) => ({
        name: `shares of "${text}" are refused`,
        ask: `PUT ${root}/replicator.shares/a`,
        body: JSON.stringify(text),
        ...refusal(
          400,
          "bad_request",
          `[replicator.shares] a = ${text || '""'}: expected an integer of 1 to 1000`,
        ),
      })),
      {
        name: "shares within the limits are accepted",
        ask: `PUT ${root}/replicator.shares/a`,
        body: '"1000"',
        status: 200,
        json: "",
      },
      {
        name: "a new value had none before",
        ask: `PUT ${root}/a/b`,
        body: '"1"',
        status: 200,
        json: "",
      },
      {
        name: "setting returns the previous value",
        ask: `PUT ${root}/chttpd/port`,
        body: '" 1 "',
        status: 200,
        json: "5984",
      },
      {
        name: "deleting returns the previous value",
        ask: `DELETE ${root}/chttpd/port`,
        status: 200,
        json: "5984",
      },
      {
        name: "a body that is not JSON is refused",
        ask: `PUT ${root}/a/b`,
        body: "{",
        ...refusal(400, "bad_request", "invalid UTF-8 JSON"),
      },
      {
        name: "a section that is invalid in a file is refused",
        ask: `PUT ${root}/a%5D/b`,
        body: '"1"',
        ...refusal(400, "bad_request", "Invalid configuration section"),
      },
      {
        name: "a value that is invalid in a file is refused",
        ask: `PUT ${root}/a/b`,
        body: '"1\\n2"',
        ...refusal(400, "bad_request", "Invalid configuration value"),
      },
      {
        name: "an administrator's excessively expensive hash is refused, which CouchDB accepts",
        ask: `PUT ${root}/admins/somebody`,
        body: '"-pbkdf2:sha256-ab,salt,101"',
        ...refusal(
          400,
          "bad_request",
          "[admins] somebody: Iteration count is too high for this server",
        ),
        differs: "CouchDB checks at a login only",
      },
      {
        name: "an invalid value is refused, which CouchDB accepts",
        ask: `PUT ${root}/replicator/worker_batch_size`,
        body: '"many"',
        ...refusal(
          400,
          "bad_request",
          "[replicator] worker_batch_size = many: expected an integer of at least 1",
        ),
      },
      {
        name: "the mask is not a valid secret",
        ask: `PUT ${root}/chttpd_auth/secret`,
        body: '"****"',
        ...refusal(400, "bad_request", "[chttpd_auth] secret = ****: expected the secret itself"),
      },
      {
        name: "sections that name code cannot be changed",
        ask: `PUT ${root}/daemons/b`,
        body: '"1"',
        ...refusal(403, "forbidden", "Config section blacklisted for modification over HTTP API."),
      },
      {
        name: "a section cannot be set as a whole",
        ask: `PUT ${root}/a`,
        ...refusal(405, "method_not_allowed", "Only GET,HEAD allowed"),
      },
      {
        name: "the files are reloaded",
        ask: `POST ${root}/_reload`,
        status: 200,
        json: { ok: true },
      },
    ],
    {
      openOurs: openAsAdmin,
      onlyHere: "It has another configuration, which other tests may be using",
    },
  );

  test("responses mask secrets, which CouchDB masks only in its log, and include default values", async () => {
    const { openedApi } = await open();
    const { json } = await openedApi.ask(`GET ${root}`);
    const { replicator, ...others } = json as Record<string, Record<string, string>>;
    expect(others).toEqual({
      admins: { root: "****" },
      alerts: { url: "****" },
      chttpd: { port: "5984" },
      chttpd_auth: { secret: "****" },
      jwt_keys: { "hmac:_default": "****", "rsa:foo": "-----BEGIN PUBLIC KEY-----" },
    });
    expect(replicator).toMatchObject({ max_jobs: "500", request_timeout: "infinity" });
    // A setting that has no default is absent.
    expect(replicator).not.toHaveProperty("cert_file");
    expect((await openedApi.ask(`GET ${root}/replicator`)).json).toEqual(replicator);
  });

  test("setting every option to the default that responses show changes no value", () => {
    const fresh = () => new Configuration({ given: [], localFile: undefined, settings: SETTINGS });
    const configuration = fresh();
    for (const setting of SETTINGS) {
      const text = settingDefault(setting);
      if (text !== undefined) configuration.set(setting.section, setting.key, text);
    }
    for (const { section, key, read } of SETTINGS) {
      const text = configuration.get(section, key);
      expect([section, key, read(text)]).toEqual([section, key, read(undefined)]);
    }
  });

  test("_tandem/settings lists unset settings with their defaults, and contains no secrets", async () => {
    const { openedApi } = await open();
    await openedApi.ask(`PUT ${root}/replicator/max_jobs`, { body: '"7"' });
    const { json } = await openedApi.ask("GET /_tandem/settings");
    const { settings } = json as { settings: { section: string; key: string }[] };
    const found = (section: string, key: string) =>
      settings.find((setting) => setting.section === section && setting.key === key);
    expect(found("replicator", "max_jobs")).toMatchObject({
      value: "7",
      default: "500",
      default_words: null,
      known: true,
      meaning:
        "maximum number of jobs that a node runs at the same time (sizing), not counting parked jobs",
      values: "0 or more",
      unit: "jobs",
      live: true,
    });
    expect(found("replicator", "worker_lease_sec")).toMatchObject({ live: false });
    expect(found("replicator", "interval_sec")).toMatchObject({ value: null, default: "15" });
    expect(found("replicator", "request_timeout")).toMatchObject({ default: "infinity" });
    const words = { default: null, default_words: "the system's" };
    expect(found("replicator", "ssl_trusted_certificates_file")).toMatchObject(words);
    expect(found("chttpd", "port")).toMatchObject({ value: "5984", default: null, known: false });
    await openedApi.ask(`PUT ${root}/replicator/max_jbos`, { body: '"7"' });
    const again = (await openedApi.ask("GET /_tandem/settings")).json as typeof json;
    expect(again).toMatchObject({
      settings: expect.arrayContaining([
        expect.objectContaining({
          key: "max_jbos",
          known: false,
          meaning: "[replicator] max_jbos is not a setting; did you mean [replicator] max_jobs?",
        }),
      ]),
    });
    expect(JSON.stringify(json)).not.toMatch(/abcdef|aGVsbG8=|credential|"secret"}/);
    expect(found("admins", "root")).toMatchObject({ value: "****" });
  });

  test("setting a value trims it and applies it immediately", async () => {
    const { openedApi, configuration } = await open();
    await openedApi.ask(`PUT ${root}/a/b`, { body: '" 2 "' });
    expect(configuration.get("a", "b")).toBe("2");
  });

  test("a value that cannot be saved has no effect, and setting it again later succeeds", () =>
    withDirectory(async (directory) => {
      const folder = join(directory, "data");
      const { openedApi, configuration } = await open(ADMIN, join(folder, "local.ini"));
      writeFileSync(folder, "a file in the place of the folder");
      const { status, json } = await openedApi.ask(`PUT ${root}/a/b`, { body: '"2"' });
      expect({ status, json }).toMatchObject({
        status: 503,
        json: { error: "service_unavailable", reason: expect.stringContaining(folder) },
      });
      expect(configuration.get("a", "b")).toBeUndefined();
      rmSync(folder);
      expect(await openedApi.ask(`PUT ${root}/a/b`, { body: '"2"' })).toMatchObject({
        status: 200,
      });
    }));

  test("an administrator's password is hashed and never returned", async () => {
    const { openedApi, configuration } = await open();
    expect((await openedApi.ask(`PUT ${root}/admins/ann`, { body: '"pw"' })).json).toBe("");
    const hash = parseAdminHash(configuration.get("admins", "ann") ?? "");
    expect(hash).toMatchObject({
      scheme: "pbkdf2",
      pseudoRandomFunction: "sha256",
      iterations: 10,
    });
    expect(hash && (await matchesHash("pw", hash))).toBe(true);
    expect(hash && (await matchesHash("px", hash))).toBe(false);
    expect((await openedApi.ask(`DELETE ${root}/admins/ann`)).json).toBe("****");
  });

  test("does not mask proxy_use_secret, whose value is a boolean", async () => {
    const { openedApi } = await open();
    const use = `${root}/chttpd_auth/proxy_use_secret`;
    await openedApi.ask(`PUT ${use}`, { body: '"true"' });
    expect((await openedApi.ask(`GET ${use}`)).json).toBe("true");
  });

  test("only server admins have access", async () => {
    const { openedApi } = await open({ name: "alice", roles: [], isAdmin: false });
    expect(await openedApi.ask(`GET ${root}`)).toMatchObject(
      refusal(401, "unauthorized", "You are not a server admin."),
    );
  });
});
