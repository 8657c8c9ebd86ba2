/** The description of `[replicator]` in docs/configuration.md matches the code. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { REPLICATOR_CONFIG_DEFAULT } from "../../../src/replicator/index.ts";
import { Configuration } from "../../../src/server/settings/configuration.ts";
import { parseIni } from "../../../src/server/settings/ini.ts";
import {
  REPLICATOR_SETTINGS,
  replicatorConfig,
} from "../../../src/server/settings/replicator-settings.ts";

const page = readFileSync(new URL("../../../docs/configuration.md", import.meta.url), "utf8");

const names = (cell = ""): string[] =>
  [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => String(name));

test("no code reads a setting that docs/configuration.md describes as having no effect", () => {
  const idle = [...page.matchAll(/^- `\[replicator\]` (.+): /gm)].flatMap(([, keys]) =>
    names(keys),
  );
  expect(idle).toContain("update_docs");
  const read = idle.filter((name) => REPLICATOR_SETTINGS.some(({ key }) => key === name));
  // The only exception is `priority_coeff`: its value is validated, but has no other effect.
  expect(read).toEqual(["priority_coeff"]);
});

test("the defaults of [replicator] are CouchDB's, except where a design decision changes them", () => {
  const { jobsMax, churnMax, intervalSec, historyLengthMax } = REPLICATOR_CONFIG_DEFAULT;
  const { healthThresholdSec, penaltySecMax, startupJitterMs } = REPLICATOR_CONFIG_DEFAULT;
  expect([jobsMax, healthThresholdSec]).toEqual([500, 120]);
  // These values differ from CouchDB's defaults because of decisions 6, 130 and 133.
  expect([penaltySecMax, startupJitterMs]).toEqual([600, 0]);
  expect([churnMax, intervalSec, historyLengthMax]).toEqual([100, 15, 20]);
});

test.each([
  ["interval = 7001", 8],
  ["interval = 7001\ninterval_sec = 3", 3],
])(
  "an interval in milliseconds applies only if no interval in seconds is set: %j",
  (lines, intervalSec) => {
    const given = [parseIni(`[replicator]\n${lines}`)];
    const settings = REPLICATOR_SETTINGS;
    const configuration = new Configuration({ given, localFile: undefined, settings });
    expect(replicatorConfig(configuration).intervalSec).toBe(intervalSec);
  },
);
