/**
 * The options of a replication match their table: in documents, in request bodies, and in the
 * configuration.
 */

import { expect, test } from "vitest";
import { FAR_BOUNDS, type Option, REPLICATION_OPTIONS, WEIGHT } from "../src/contract/index.ts";
import { parseReplication, type ReplicationInvalidError } from "../src/replicator/index.ts";
import { Configuration } from "../src/server/settings/configuration.ts";
import { parseIni } from "../src/server/settings/ini.ts";
import {
  REPLICATOR_SETTINGS,
  replicatorConfig,
} from "../src/server/settings/replicator-settings.ts";

const BODY = { source: "a", target: "b" };
const SETTINGS = Object.entries(REPLICATION_OPTIONS) as [
  keyof typeof REPLICATION_OPTIONS,
  Option,
][];
const ROWS: readonly Option[] = [...SETTINGS.map(([, option]) => option), WEIGHT];

/**
 * Returns values just inside and just outside the limits of an option, also as configuration
 * strings.
 */
function values(option: Option): { readonly right: unknown[]; readonly wrong: unknown[] } {
  if (option.kind === "boolean") return { right: [true, false], wrong: ["yes", 1] };
  if (option.kind === "choice") return { right: [...option.choices], wrong: ["Skip", "drop"] };
  const { min, max = 1_000_000 } = option;
  return { right: [min, String(min), max], wrong: [min - 1, 1.5, "many"] };
}

function configured(name: string, value: unknown) {
  const given = [parseIni(`[replicator]\n${name} = ${value}`)];
  return replicatorConfig(
    new Configuration({ given, localFile: undefined, settings: REPLICATOR_SETTINGS }),
  );
}

function refusal(name: string, value: unknown): string | undefined {
  try {
    parseReplication({ ...BODY, [name]: value });
    return undefined;
  } catch (error) {
    return (error as ReplicationInvalidError).reason;
  }
}

test.each(SETTINGS)(
  "%s is read from the document, otherwise from the configuration, and otherwise has its default",
  (member, option) => {
    expect(parseReplication(BODY).options[member]).toBe(option.default);
    for (const value of values(option).right) {
      const typed = option.kind === "integer" ? Number(value) : value;
      const config = configured(option.name, value);
      expect(parseReplication(BODY, config).options[member]).toBe(typed);
      expect(parseReplication({ ...BODY, [option.name]: value }).options[member]).toBe(typed);
      const other = { ...BODY, [option.name]: option.default };
      expect(parseReplication(other, config).options[member]).toBe(option.default);
    }
  },
);

test.each(ROWS.map((option) => [option.name, option] as const))(
  "an invalid value for %s is refused, and the error contains the name and the value",
  (name, option) => {
    for (const value of values(option).wrong) {
      expect(refusal(name, value)).toContain(`\`${name}\` must be`);
      expect(refusal(name, value)).toMatch(new RegExp(`, but is "?${value}"?$`));
      if (option === WEIGHT) continue;
      expect(() => configured(name, value)).toThrow(`[replicator] ${name} = ${value}: expected`);
    }
  },
);

test("an unknown policy is refused, and the error lists the known policies", () => {
  const choices = "one of skip, hold, crash";
  expect(refusal("failure_policy", "drop")).toBe(
    `\`failure_policy\` must be ${choices}, but is "drop"`,
  );
  expect(() => configured("failure_policy", "drop")).toThrow(
    `[replicator] failure_policy = drop: expected ${choices}`,
  );
});

test.each(FAR_BOUNDS)(
  "if $bound is not set, the value of $of is also the maximum for distant servers",
  ({ of, bound }) => {
    const [number, most] = [REPLICATION_OPTIONS[of], REPLICATION_OPTIONS[bound]];
    const boundOf = (members: object, value?: string): number =>
      parseReplication(
        { ...BODY, ...members },
        value === undefined ? undefined : configured(number.name, value),
      ).options[bound];
    expect(boundOf({})).toBe(most.default);
    expect(boundOf({ [number.name]: 4 })).toBe(4);
    expect(boundOf({ [number.name]: null })).toBe(most.default);
    expect(boundOf({ [number.name]: 8, [most.name]: 16 })).toBe(16);
    expect(boundOf({}, "6")).toBe(6);
    expect(boundOf({ [most.name]: 16 }, "6")).toBe(16);
  },
);

test("`weight` must be from 1 to 1000, and cannot be set in the configuration", () => {
  expect(parseReplication({ ...BODY, weight: 1000 }).weight).toBe(1000);
  expect(refusal("weight", 1001)).toBe("`weight` must be an integer from 1 to 1000, but is 1001");
  expect(REPLICATOR_SETTINGS.map(({ key }) => key)).not.toContain(WEIGHT.name);
});
