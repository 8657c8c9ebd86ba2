import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openServer } from "../../src/server/index.ts";
import {
  apiSettings,
  authenticationSettings,
} from "../../src/server/settings/authentication-settings.ts";
import { readConfig, SETTINGS } from "../../src/server/settings/config.ts";
import { Configuration } from "../../src/server/settings/configuration.ts";
import { corsSettings } from "../../src/server/settings/cors-settings.ts";
import { parseIni } from "../../src/server/settings/ini.ts";
import { passwordSettings } from "../../src/server/settings/password-settings.ts";
import {
  REPLICATOR_SETTINGS,
  replicatorConfig,
} from "../../src/server/settings/replicator-settings.ts";
import { ineffectiveness } from "../../src/server/settings/settings-advice.ts";
import { canMountMemory, memoryDisk, withMount } from "../support/mounts.ts";

let folder: string;
let localFile: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tandem-configuration-"));
  localFile = join(folder, "data", "local.ini");
});

afterEach(() => rmSync(folder, { recursive: true }));

function open(given = "", file = localFile): Configuration {
  return new Configuration({
    given: [parseIni(given)],
    localFile: file,
    settings: REPLICATOR_SETTINGS,
  });
}

test("the compression level of attachments ranges from 0 (none) to 9 (maximum)", () => {
  const levelOf = (level: number): number =>
    apiSettings(open(`[attachments]\ncompression_level = ${level}`)).compressionLevel;
  expect([0, 1, 9].map(levelOf)).toEqual([0, 1, 9]);
  for (const level of [-1, 10]) expect(() => levelOf(level)).toThrow();
});

describe("a setting", () => {
  test("takes effect immediately, even in objects that were created before the change, and survives a restart", () => {
    const configuration = open("[replicator]\nmax_jobs = 7");
    const config = replicatorConfig(configuration);
    const { options } = config;
    expect(config.jobsMax).toBe(7);
    configuration.set("replicator", "max_jobs", "9");
    configuration.set("replicator", "http_connections", "3");
    expect(config.jobsMax).toBe(9);
    expect(options.httpConnections).toBe(3);
    expect(open("[replicator]\nmax_jobs = 7").get("replicator", "max_jobs")).toBe("9");
    expect(statSync(localFile).mode & 0o077).toBe(0);
  });

  test("has the same name, unit and values as in CouchDB's [replicator]", () => {
    const configuration = open(
      [
        "[replicator]",
        "auth_plugins = couch_replicator_auth_noop",
        "session_refresh_interval_sec = 60",
        "request_timeout = 9000",
        "max_document_id_length = 300",
        "valid_endpoint_protocols = https",
        "accept_jitter = 2000",
        "max_history = 3",
      ].join("\n"),
    );
    const config = replicatorConfig(configuration);
    expect(config.client).toMatchObject({
      usesSessions: false,
      sessionRenewalSec: 60,
      requestTimeoutMs: 9000,
    });
    expect(config.copyLimits.documentIdBytesMax).toBe(300);
    expect(config.protocols.endpoint).toEqual(["https"]);
    expect([config.startupJitterMs, config.historyLengthMax]).toEqual([2000, 3]);
    configuration.set("replicator", "startup_jitter", "5");
    configuration.set("replicator", "request_timeout", "infinity");
    configuration.set("replicator", "auth_plugins", "session, noop");
    expect(config.startupJitterMs).toBe(5);
    expect(config.client).toMatchObject({ usesSessions: true });
    expect(config.client.requestTimeoutMs).toBe(Number.POSITIVE_INFINITY);
  });

  test("under an alias applies if the name itself is not set, and is validated in the same way", () => {
    const configuration = open();
    const config = replicatorConfig(configuration);
    for (const [other, text, name, value] of [
      ["min_backoff_penalty", "3", "penaltySecMin", 3],
      ["max_backoff_penalty", "40", "penaltySecMax", 40],
      ["health_threshold", "50", "healthThresholdSec", 50],
      ["interval", "2500", "intervalSec", 3],
      ["accept_jitter", "60", "startupJitterMs", 60],
    ] as const) {
      configuration.set("replicator", other, text);
      expect([name, config[name]]).toEqual([name, value]);
      expect(() => configuration.set("replicator", other, "long")).toThrow(
        `[replicator] ${other} = long: expected an integer`,
      );
    }
    configuration.set("replicator", "min_backoff_penalty_sec", "7");
    expect(config.penaltySecMin).toBe(7);
  });

  test.each([
    ["auth_plugins", "kerberos", "a list of `session`, `noop` or both"],
    ["valid_endpoint_protocols", "gopher", "a list of http, https"],
    ["max_document_id_length", "long", "an integer of at least 1"],
  ])(
    "with an invalid value, %s = %s, is refused with an error that lists the accepted values",
    (key, value, expected) => {
      expect(() => open().set("replicator", key, value)).toThrow(
        `[replicator] ${key} = ${value}: expected ${expected}`,
      );
    },
  );

  test("that is deleted falls back to the value in other configuration files", () => {
    const configuration = open("[replicator]\nmax_jobs = 7");
    configuration.set("replicator", "max_jobs", "9");
    configuration.delete("replicator", "max_jobs");
    expect(configuration.get("replicator", "max_jobs")).toBe("7");
    expect(open().get("replicator", "max_jobs")).toBeUndefined();
  });

  test("that was set without persistence is lost after a restart", () => {
    const configuration = open();
    configuration.set("a", "b", "1", { persist: false });
    expect(configuration.get("a", "b")).toBe("1");
    expect(open().sections().size).toBe(0);
  });

  test("with an invalid value is refused without any change", () => {
    const configuration = open();
    expect(() => configuration.set("replicator", "worker_batch_size", "many")).toThrow(
      "[replicator] worker_batch_size = many: expected an integer of at least 1",
    );
    expect(configuration.get("replicator", "worker_batch_size")).toBeUndefined();
    expect(() => open("[replicator]\nuse_checkpoints = perhaps")).toThrow(
      "[replicator] use_checkpoints = perhaps: expected true or false",
    );
  });

  test.each([
    ["a]", "b", "1", "Invalid configuration section"],
    ["a\n[b", "b", "1", "Invalid configuration section"],
    ["a", "b\n", "1", "Invalid configuration key"],
    ["a", "b = c", "1", "Invalid configuration key"],
    ["a", "b =", "1", "Invalid configuration key"],
    ["a", " ", "1", "Invalid configuration key"],
    ["a", ";b", "1", "Invalid configuration key"],
    ["a", "b", "1\n[admins]", "Invalid configuration value"],
    ["a", "b", "1 ; 2", "Invalid configuration value"],
  ])(
    "%j %j %j is refused, because its text in the file would be read as another value",
    (section, key, text, message) => {
      expect(() => open().set(section, key, text)).toThrow(message);
    },
  );
});

describe("a section that CouchDB has renamed", () => {
  const opened = (...lines: string[]): Configuration =>
    new Configuration({
      given: [parseIni(lines.join("\n"))],
      localFile: undefined,
      settings: SETTINGS,
    });

  test("applies if the current section does not set a value", () => {
    const configuration = opened(
      "[couch_httpd_auth]",
      "timeout = 60",
      "secret = abc",
      "allow_persistent_cookies = false",
      "same_site = strict",
      'password_regexp = [".{10,}"]',
      "iterations = 11",
      "[httpd]",
      "enable_cors = true",
      "changes_timeout = 7",
      "[cors]",
      "origins = *",
    );
    const settings = authenticationSettings(configuration);
    const passwords = passwordSettings(configuration);
    expect(settings).toMatchObject({
      timeoutSec: 60,
      secret: "abc",
      allowsPersistentCookies: false,
      sameSite: "Strict",
    });
    expect(passwords).toMatchObject({ iterations: 11, requirements: [{ pattern: /.{10,}/ }] });
    expect(apiSettings(configuration).changesTimeoutMs).toBe(7);
    expect(corsSettings(configuration)("h")?.origins).toEqual(["*"]);
    configuration.set("chttpd_auth", "timeout", "61");
    expect(settings.timeoutSec).toBe(61);
    configuration.delete("chttpd_auth", "timeout");
    configuration.set("couch_httpd_auth", "timeout", "62");
    expect(settings.timeoutSec).toBe(62);
  });

  test("has its values validated like the values of the current section", () => {
    expect(() => opened("[couch_httpd_auth]", "timeout = long")).toThrow(
      "[couch_httpd_auth] timeout = long: expected an integer of at least 1",
    );
  });

  test("lacks the settings that exist only in the current section", () => {
    const configuration = opened(
      "[httpd]",
      "require_valid_user = true",
      "[couch_httpd_auth]",
      "upgrade_hash_on_auth = false",
    );
    expect(authenticationSettings(configuration).requireValidUser).toBe(false);
    expect(passwordSettings(configuration).upgradesHashes).toBe(true);
    expect(
      ineffectiveness({ section: "httpd", key: "require_valid_user" }, configuration.known),
    ).toContain("did you mean [chttpd] require_valid_user?");
  });
});

describe("the local file", () => {
  test("contains every value that was set, whatever its characters", () => {
    const part = fc.string({
      unit: fc.constantFrom("a", "b", " ", "=", ";", "[", "]", "\n", "\t", "#"),
    });
    fc.assert(
      fc.property(part, part, part, (section, key, text) => {
        const value = text.trim();
        try {
          open().set(section, key, value);
        } catch {
          return;
        }
        expect(open().get(section, key)).toBe(value);
      }),
    );
  });

  test("keeps its comments and the order of its lines", () => {
    const configuration = open();
    configuration.set("a", "one", "1");
    writeFileSync(localFile, "; mine\n[a]\none = 1\n; two = 0\ntwo = 2,\n   3\n\n[b]\nx=1\n");
    configuration.reload();
    expect(configuration.get("a", "two")).toBe("2, 3");
    configuration.set("a", "two", "4");
    configuration.set("a", "three", "5");
    configuration.set("c", "rsa:k=", "6");
    configuration.delete("b", "x");
    expect(readFileSync(localFile, "utf8")).toBe(
      "; mine\n[a]\none = 1\n; two = 0\ntwo = 4\nthree = 5\n\n[b]\n\n[c]\nrsa:k= = 6\n",
    );
    expect(open().get("c", "rsa:k=")).toBe("6");
  });

  test("is reloaded rather than overwritten after another process has changed it", () => {
    const [mine, theirs] = [open(), open()];
    theirs.set("a", "theirs", "1");
    mine.set("a", "mine", "2");
    expect([...open().section("a")]).toEqual([
      ["theirs", "1"],
      ["mine", "2"],
    ]);
    utimesSync(localFile, 1, 1);
    theirs.reloadIfChanged();
    expect(theirs.get("a", "mine")).toBe("2");
  });

  test("that is not writable makes a change fail with an error that names the file rather than the setting", () => {
    const configuration = open();
    writeFileSync(join(folder, "data"), "a file in the place of the folder");
    const notSaved = expect.objectContaining({
      code: "CONFIG_NOT_SAVED",
      details: { reason: expect.stringContaining(localFile) },
    });
    expect(() => configuration.set("a", "b", "1")).toThrow(notSaved);
    expect(configuration.get("a", "b")).toBeUndefined();
  });

  test.skipIf(!canMountMemory)(
    "on a full disk stays unchanged, and leaves no temporary file",
    async () => {
      await withMount(folder, memoryDisk(1), async (disk) => {
        const configuration = open("", join(disk, "local.ini"));
        configuration.set("a", "b", "1");
        const { bavail, bsize } = statfsSync(disk);
        writeFileSync(join(disk, "other"), Buffer.alloc(bavail * bsize));
        const notSaved = expect.objectContaining({ code: "CONFIG_NOT_SAVED" });
        expect(() => configuration.set("a", "b", "2".repeat(9_000))).toThrow(notSaved);
        expect(readdirSync(disk).sort()).toEqual(["local.ini", "other"]);
        expect(configuration.get("a", "b")).toBe("1");
      });
    },
  );

  test("with an invalid line leaves the settings unchanged", () => {
    const configuration = open();
    configuration.set("a", "b", "1");
    writeFileSync(localFile, "[a]\nnonsense");
    expect(() => configuration.reload()).toThrow("line 2");
    expect(configuration.get("a", "b")).toBe("1");
  });
});

describe("a reload", () => {
  const configFile = () => join(folder, "tandem.ini");
  const write = (text: string): void => writeFileSync(configFile(), text);

  test("reads the given file again, in all processes of the data folder", () => {
    write("[replicator]\nmax_jobs = 7\n");
    const options = { configFile: configFile(), dataDirectory: join(folder, "data") };
    const [mine, theirs] = [readConfig(options, {}), readConfig(options, {})];
    const values = () =>
      [mine, theirs].map(({ configuration }) => configuration.get("replicator", "max_jobs"));
    mine.configuration.set("a", "b", "1");
    theirs.configuration.reloadIfChanged();
    write("[replicator]\nmax_jobs = 8\n");
    utimesSync(localFile, 1, 1);
    mine.configuration.reload();
    mine.configuration.markChanged();
    expect(mine.configuration.reloadIfChanged()).toBe(false);
    expect(values()).toEqual(["8", "7"]);
    expect(theirs.configuration.reloadIfChanged()).toBe(true);
    expect(values()).toEqual(["8", "8"]);
    expect(mine.configuration.get("a", "b")).toBe("1");
    write("[replicator]\nmax_jobs = many\n");
    expect(() => mine.configuration.reload()).toThrow(`max_jobs = many`);
    rmSync(configFile());
    expect(() => mine.configuration.reload()).toThrow(`${configFile()}: no such file`);
    mine.configuration.set("replicator", "max_jobs", "9");
    mine.configuration.delete("replicator", "max_jobs");
    expect(values()).toEqual(["8", "8"]);
  });

  test("reports that only this process has reloaded, if other processes cannot be notified", () => {
    const configuration = open();
    writeFileSync(join(folder, "data"), "a file in the place of the folder");
    expect(() => configuration.markChanged()).toThrow("reloaded in this process only");
  });

  test("over HTTP names the changed settings that need a restart", async () => {
    write("[admins]\nroot = secret\n[replicator]\nmax_jobs = 7\n");
    const config = readConfig({ configFile: configFile(), port: 0, store: "memory" }, {});
    const server = await openServer(config, { event() {} });
    try {
      const root = `${server.url}/_node/_local/_config`;
      const ask = async (method: string, path: string) => {
        const headers = { Authorization: `Basic ${btoa("root:secret")}` };
        return (await fetch(root + path, { method, headers })).json();
      };
      expect(await ask("POST", "/_reload")).toEqual({ ok: true });
      write("[admins]\nroot = secret\n[chttpd]\nport = 1\n[replicator]\nmax_jobs = 8\n");
      expect(await ask("POST", "/_reload")).toEqual({
        ok: true,
        restart_required: ["chttpd/port"],
      });
      expect(await ask("GET", "/replicator/max_jobs")).toBe("8");
      write("[replicator]\nmax_jobs = many\n");
      expect(await ask("POST", "/_reload")).toMatchObject({ error: "bad_request" });
      expect(await ask("GET", "/replicator/max_jobs")).toBe("8");
    } finally {
      await server.stop();
    }
  });
});

test("listeners are notified of changes to their section until they unsubscribe", () => {
  const configuration = open("[a]\nk = 0");
  const heard: unknown[] = [];
  const stop = configuration.watch("a", ({ key, value }) => heard.push([key, value]));
  configuration.set("a", "k", "1");
  configuration.set("b", "k", "1");
  configuration.delete("a", "k");
  writeFileSync(localFile, "[a]\nnew = 2\n");
  configuration.reload();
  stop();
  configuration.set("a", "k", "3");
  expect(heard).toEqual([
    ["k", "1"],
    ["k", "0"],
    ["new", "2"],
  ]);
});

test("the command line and the environment take precedence over values set at run time", () => {
  const configFile = join(folder, "given.ini");
  writeFileSync(configFile, "[chttpd]\nport = 1\n[log]\nlevel = warning\n");
  const options = { configFile, dataDirectory: join(folder, "data") };
  open().set("chttpd", "port", "2");
  expect(readConfig(options, {})).toMatchObject({
    port: 2,
    log: { level: "warn" },
  });
  expect(readConfig(options, { TANDEM_PORT: "3" }).port).toBe(3);
  expect(readConfig({ ...options, port: 4 }, { TANDEM_PORT: "3" }).port).toBe(4);
});

test("an invalid value is reported with its file and line", () => {
  const configFile = join(folder, "given.ini");
  const options = { configFile, dataDirectory: join(folder, "data") };
  writeFileSync(configFile, "[replicator]\nmax_jobs = many\n");
  expect(() => readConfig(options, {})).toThrow(
    `[replicator] max_jobs = many: expected an integer of at least 0 (${configFile})`,
  );
  open().set("a", "b", "1");
  writeFileSync(localFile, "[replicator]\nmax_jobs = few\n");
  expect(() => readConfig(options, {})).toThrow(
    `max_jobs = few: expected an integer of at least 0 (${localFile})`,
  );
  writeFileSync(configFile, "[log]\nlevel = info\n");
  writeFileSync(localFile, "");
  const environment = { TANDEM_LOG_LEVEL: "loud" };
  expect(() => readConfig(options, environment)).toThrow(/level = loud: .* \(TANDEM_LOG_LEVEL\)$/);
  expect(() => readConfig(options, { LOG_FORMAT: "odd" })).toThrow(/\(LOG_FORMAT\)$/);
});

test("the folder that is served to browsers cannot be changed over HTTP", async () => {
  const configFile = join(folder, "tandem.ini");
  writeFileSync(configFile, "[tandem]\nutils_dir = \n");
  const options = { configFile, dataDirectory: join(folder, "data"), port: 0 };
  const config = readConfig(options, {});
  config.configuration.set("tandem", "utils_dir", folder);
  expect(readConfig(options, {}).utilitiesDirectory).toBeUndefined();
  expect(readConfig(options, { TANDEM_UTILS_DIR: "/one" }).utilitiesDirectory).toBe("/one");
  writeFileSync(configFile, `[tandem]\nutils_dir = ${folder}\n`);
  writeFileSync(join(folder, "index.html"), "<p>page");
  const server = await openServer({ ...readConfig(options, {}), store: "memory" }, { event() {} });
  const page = await fetch(`${server.url}/_utils`);
  const text = await page.text();
  await server.stop();
  expect([page.status, page.url, text]).toEqual([200, `${server.url}/_utils/`, "<p>page"]);
});
