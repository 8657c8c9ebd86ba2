import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { FILE_SETTINGS, SETTINGS } from "../../src/server/settings/config.ts";
import { Configuration } from "../../src/server/settings/configuration.ts";
import { parseIni } from "../../src/server/settings/ini.ts";
import {
  announceIneffectiveSettings,
  ineffectiveness,
} from "../../src/server/settings/settings-advice.ts";

/**
 * Lines of the form `SECTION KEY`: the names in CouchDB 3.5.2's `default.ini`, including its
 * comments, and the names that only CouchDB's sources read.
 */
const COUCHDB_NAMES = new URL("../fixtures/couchdb-settings.txt", import.meta.url);

const opened = (given: string): Configuration =>
  new Configuration({ given: [parseIni(given)], localFile: undefined, settings: SETTINGS });

/**
 * Returns the advice about a configuration. Advice about later changes is added to the returned
 * list.
 */
function announcedOf(configuration: Configuration): string[] {
  const messages: string[] = [];
  announceIneffectiveSettings(configuration, FILE_SETTINGS, {
    event: (_name, fields) => void messages.push((fields as { message: string }).message),
  });
  return messages;
}

describe("a setting without effect", () => {
  test("is reported by name once at the start, and again whenever it is changed", () => {
    const configuration = opened(
      "[replicator]\nmax_jobs = 7\nmax_jbos = 3\n[chttpd]\nprot = 1\n[smoosh.mine]\npriority = x\n[admins]\nann = pw",
    );
    const messages = announcedOf(configuration);
    expect(messages).toEqual([
      "[chttpd] prot is not a setting; did you mean [chttpd] port?",
      "[replicator] max_jbos is not a setting; did you mean [replicator] max_jobs?",
      "[smoosh.mine] priority has no effect: there is nothing to compact",
    ]);
    configuration.set("replicator", "max_jobs", "8");
    configuration.set("couchdb", "use_cfile", "true");
    configuration.delete("couchdb", "use_cfile");
    configuration.set("tandem", "utils_dir", "/tmp");
    expect(messages.slice(3)).toEqual([
      "[couchdb] use_cfile has no effect: databases are not separate files",
      "[tandem] utils_dir is read from the file that --config names, when a node starts",
    ]);
  });

  test.each([
    ["chttpd", "prot", "[chttpd] port"],
    ["chttp", "port", "[chttpd] port"],
    ["replicator", "interval_sce", "[replicator] interval_sec"],
    ["couch_httpd_auth", "require_valid_user", "[chttpd] require_valid_user"],
    ["cors:http://a", "orgins", "[cors] origins"],
    ["replicator", "wholly_else", undefined],
  ])("[%s] %s is reported with the suggestion %s", (section, key, meant) => {
    const question = meant === undefined ? "" : `; did you mean ${meant}?`;
    expect(ineffectiveness({ section, key }, SETTINGS)).toBe(
      `[${section}] ${key} is not a setting${question}`,
    );
  });

  test.each([
    ["admins", "anybody"],
    ["jwt_keys", "hmac:_default"],
    ["replicator.shares", "a/_replicator"],
    ["vendor", "name"],
    ["cors:http://a", "origins"],
  ])("[%s] %s is not reported, because its section accepts the key", (section, key) => {
    expect(ineffectiveness({ section, key }, SETTINGS)).toBeUndefined();
  });
});

test("for every setting in CouchDB's default.ini that has no effect, a reason is given", () => {
  const lines = readFileSync(COUCHDB_NAMES, "utf8").trimEnd().split("\n");
  expect(lines.length).toBeGreaterThan(300);
  const unknown = lines.filter((line) => {
    const [section = "", key = ""] = line.split(" ");
    return ineffectiveness({ section, key }, SETTINGS)?.includes("is not a setting");
  });
  expect(unknown).toEqual([]);
});

test.each([
  [
    "chttpd_auth",
    "authentication_db",
    "people",
    "_users: users are looked up in this database only",
  ],
  ["couchdb", "users_db_suffix", "people", "_users: users are looked up in this database only"],
  [
    "couchdb",
    "enable_database_recovery",
    "true",
    "false: a database that is deleted cannot be recovered",
  ],
])("the setting [%s] %s = %s is refused", (section, key, value, expected) => {
  expect(() => opened(`[${section}]\n${key} = ${value}`)).toThrow(
    `[${section}] ${key} = ${value}: expected ${expected}`,
  );
});
