import { expect, test } from "vitest";
import { SeededRandom } from "../../test/simulation/kernel/seeded-random.ts";
import { type UuidSettings, UuidSource } from "./uuids.ts";

function openSource(
  algorithm: UuidSettings["uuidAlgorithm"],
  seed = "one",
  uuidFormat: UuidSettings["uuidFormat"] = "base_16",
) {
  const time = { ms: 1_700_000_000_000 };
  const clock = { nowMs: () => time.ms, monotonicMs: () => 0, sleep: async () => {} };
  const settings = { uuidAlgorithm: algorithm, uuidFormat, uuidSuffix: "node1", uuidCountMax: 1 };
  return { source: new UuidSource({ clock, random: new SeededRandom(seed) }, settings), time };
}

const drawn = (source: UuidSource, count: number): string[] =>
  Array.from({ length: count }, () => source.next());

test("sequential ids grow by random steps within a prefix, and get a new prefix when it is exhausted", () => {
  const { source } = openSource("sequential");
  const ids = drawn(source, 20_000);
  expect(ids.filter((id) => !/^[0-9a-f]{32}$/.test(id))).toEqual([]);
  const prefixes = [...new Set(ids.map((id) => id.slice(0, 26)))];
  // The average step is 2047, so each prefix has room for about 8196 ids.
  expect(prefixes.length).toBe(3);
  for (const prefix of prefixes) {
    const group = ids.filter((id) => id.startsWith(prefix));
    expect(group).toEqual([...group].sort());
  }
  expect(new Set(ids).size).toBe(ids.length);
  expect(openSource("sequential", "two").source.next().slice(0, 26)).not.toBe(ids[0]?.slice(0, 26));
});

test.each([
  ["utc_random", /^060a24181e40[0-9a-f]{20}$/],
  ["utc_id", /^060a24181e40[0-9a-f]{2}node1$/],
] as const)(
  "%s ids begin with the microseconds since the epoch, and never decrease",
  (algorithm, form) => {
    const { source, time } = openSource(algorithm);
    const ids = drawn(source, 3);
    for (const id of ids) expect(id).toMatch(form);
    time.ms -= 1000;
    ids.push(source.next());
    time.ms += 5000;
    ids.push(source.next());
    const times = ids.map((id) => id.slice(0, 14));
    expect(times).toEqual([...new Set(times)].sort());
  },
);

test("random ids share no prefix", () => {
  const ids = drawn(openSource("random").source, 100);
  expect(new Set(ids.map((id) => id.slice(0, 8))).size).toBe(100);
});

test.each([
  ["uuid_v7", "base_16", /^018bcfe568007[0-9a-f]{3}[89ab][0-9a-f]{15}$/],
  ["uuid_v7", "rfc9562", /^018bcfe5-6800-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/],
  ["uuid_v7", "base_36", /^03[0-9a-z]{23}$/],
  ["uuid_v4", "base_16", /^[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}$/],
  ["uuid_v4", "rfc9562", /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/],
  ["uuid_v4", "base_36", /^[0-9a-z]{25}$/],
] as const)("%s in the format %s matches RFC 9562", (algorithm, format, form) => {
  const ids = drawn(openSource(algorithm, "one", format).source, 100);
  for (const id of ids) expect(id).toMatch(form);
  expect(new Set(ids).size).toBe(100);
});
