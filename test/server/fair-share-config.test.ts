/** What the configuration says of shares. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readConfig } from "../../src/server/config.ts";

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tandem-config-"));
});

afterEach(() => rmSync(directory, { recursive: true }));

function replicator(ini: string) {
  const configFile = join(directory, "tandem.ini");
  writeFileSync(configFile, ini);
  return readConfig({ configFile }, {}).replicator;
}

test("shares and the way usage is forgotten are read, outside their limits as the nearest", () => {
  const { shares, fairShare } = replicator(`
[replicator]
usage_coeff = 0.7
fair_share_interval_sec = 60
priority_coeff = 0.98
[replicator.shares]
team/_replicator = 200
bob = 0
alice = 5000
`);
  expect(fairShare).toEqual({ usageCoefficient: 0.7, intervalSec: 60, instalmentSec: 15 });
  expect(Object.fromEntries(shares)).toEqual({ "team/_replicator": 200, bob: 1, alice: 1000 });
});

test.each([
  ["[replicator]\nusage_coeff = 0", "[replicator] usage_coeff = 0: expected a number above 0"],
  ["[replicator]\nusage_coeff = junk", "usage_coeff = junk"],
  ["[replicator]\npriority_coeff = 1.1", "priority_coeff = 1.1"],
  ["[replicator.shares]\nbob = many", "[replicator.shares] bob = many: expected an integer"],
])("%s is refused", (ini, message) => {
  expect(() => replicator(ini)).toThrow(message);
});
