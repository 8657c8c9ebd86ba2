import { expect, test } from "vitest";
import {
  type EarlierCheckpoint,
  earlierCheckpoints,
  parseEarlierCheckpoints,
} from "./earlier-checkpoints.ts";

/** Returns the logs of a session with `count` checkpoints. The sequence of checkpoint n is 10 n. */
function session(count: number): readonly (readonly EarlierCheckpoint[])[] {
  const logs: (readonly EarlierCheckpoint[])[] = [[]];
  for (let number = 2; number <= count; number++) {
    logs.push(earlierCheckpoints((number - 1) * 10, logs.at(-1) ?? []));
  }
  return logs;
}

const numbersOf = (checkpoints: readonly EarlierCheckpoint[]) =>
  checkpoints.map(({ number }) => number);

test("keeps the latest checkpoints, and fewer of the older ones", () => {
  const [latest = []] = session(30).slice(-1);
  expect(latest[0]).toEqual({ number: 29, seq: 290 });
  expect(numbersOf(latest)).toEqual([29, 28, 24, 16]);
});

test("two logs k checkpoints apart share a checkpoint less than 2k before the end of the older log, or they share the start of the session", () => {
  const logs = session(200);
  for (let newer = 2; newer <= logs.length; newer++) {
    const known = numbersOf(logs[newer - 1] ?? []);
    for (let older = 1; older < newer; older++) {
      const knownToOlder = [older, ...numbersOf(logs[older - 1] ?? [])];
      const common = known.find((number) => knownToOlder.includes(number)) ?? 0;
      expect(older - common).toBeLessThan(2 * (newer - older));
    }
  }
});

test("keeps twenty checkpoints of a long session, but only the last one if sequences are long", () => {
  const last = 2 ** 30 - 1;
  const earlier = Array.from({ length: 29 }, (_, level) => ({
    number: last + 1 - 2 ** (level + 1),
    seq: 1,
  }));
  const after = earlierCheckpoints("last", earlier);
  expect(after).toHaveLength(20);
  expect(after[0]).toEqual({ number: last, seq: "last" });
  expect(after[1]).toEqual(earlier[0]);
  expect(earlierCheckpoints("s".repeat(1000), earlier)).toHaveLength(1);
});

test("skips invalid checkpoints in the log of another server", () => {
  const isSequence = (value: unknown) => value !== undefined && value !== "bad";
  const sound = { number: 4, seq: "4-x" };
  const odd = [
    null,
    5,
    {},
    { number: 0, seq: 1 },
    { number: 1.5, seq: 1 },
    { number: "1", seq: 1 },
  ];
  const json = [...odd, { number: 2, seq: "bad" }, { number: 3 }, sound];
  expect(parseEarlierCheckpoints(json, isSequence)).toEqual([sound]);
  expect(parseEarlierCheckpoints(Array(100).fill(sound), isSequence)).toHaveLength(20);
  for (const none of [undefined, null, 5, "x", {}]) {
    expect(parseEarlierCheckpoints(none, isSequence)).toEqual([]);
  }
});
