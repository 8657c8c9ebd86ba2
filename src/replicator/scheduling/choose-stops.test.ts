import { expect, test } from "vitest";
import {
  chooseCycle,
  chooseStops,
  type DueJobs,
  type OtherNode,
  type RunningJob,
  waitingCount,
  waitingCountMax,
} from "./choose-stops.ts";

const NOW_MS = 1_000_000;
const SLOTS = { jobsMax: 3, churnMax: 2, cycleMs: 60_000, runMsMin: 60_000, nowMs: NOW_MS };
const NO_WAITING = { count: 0, givingWay: [] };

interface Named extends RunningJob {
  readonly name: string;
}

function job(name: string, ranSec: number, more: Partial<RunningJob> = {}): Named {
  const startedAtMs = NOW_MS - ranSec * 1000;
  const ordinary = { group: "a", isContinuous: true, labels: [], weight: 100, isStopping: false };
  return { name, startedAtMs, ...ordinary, ...more };
}

const ONE_SHOT = { isContinuous: false };

test.each<
  [string, readonly Named[], Partial<typeof SLOTS>, Parameters<typeof chooseStops>[2], string[]]
>([
  ["no job waits", [job("x", 90), job("y", 90), job("z", 90)], {}, NO_WAITING, []],
  ["a slot is free", [job("x", 90)], {}, { count: 2, givingWay: ["a"] }, []],
  [
    "more jobs wait than there are free slots",
    [job("x", 90), job("y", 100)],
    {},
    { count: 2, givingWay: ["a"] },
    ["y"],
  ],
  [
    "the longest running stop, within the churn",
    [job("x", 90), job("y", 100), job("z", 110)],
    {},
    { count: 9, givingWay: ["a"] },
    ["z", "y"],
  ],
  [
    "stops are spread over the minimum run time",
    [job("x", 90), job("y", 100), job("z", 110)],
    { cycleMs: 15_000 },
    { count: 9, givingWay: ["a"] },
    ["z"],
  ],
  [
    "the highest group stops first",
    [job("x", 900), job("y", 100, { group: "b" }), job("z", 110, { group: "b" })],
    {},
    { count: 9, givingWay: ["b", "a"] },
    ["z", "y"],
  ],
  [
    "a group ranked below the waiting jobs keeps its slots",
    [job("x", 900), job("y", 100, { group: "b" }), job("z", 110)],
    {},
    { count: 9, givingWay: ["b"] },
    ["y"],
  ],
  [
    "a one-shot job is never preempted",
    [job("x", 900, ONE_SHOT), job("y", 100), job("z", 110, ONE_SHOT)],
    {},
    { count: 9, givingWay: ["a"] },
    ["y"],
  ],
  [
    "a job within its minimum run time stays",
    [job("x", 59), job("y", 60), job("z", 0)],
    {},
    { count: 9, givingWay: ["a"] },
    ["y"],
  ],
  [
    "a heavy job runs longer, a light one shorter",
    [job("x", 100, { weight: 200 }), job("y", 119, { weight: 200 }), job("z", 30, { weight: 50 })],
    {},
    { count: 9, givingWay: ["a"] },
    ["z"],
  ],
  [
    "stopping jobs already free their slots",
    [job("x", 100, { isStopping: true }), job("y", 100), job("z", 100)],
    {},
    { count: 1, givingWay: ["a"] },
    [],
  ],
  [
    "fewer slots: continuous jobs stop first, however young",
    [job("x", 900, ONE_SHOT), job("y", 1), job("z", 5)],
    { jobsMax: 1 },
    NO_WAITING,
    ["z", "y"],
  ],
  [
    "fewer slots: one-shot jobs stop last, regardless of the churn",
    [job("x", 900, ONE_SHOT), job("y", 1), job("z", 5, ONE_SHOT)],
    { jobsMax: 0, churnMax: 0 },
    NO_WAITING,
    ["y", "x", "z"],
  ],
  [
    "jobs without a group stop last",
    [job("x", 900, { group: undefined }), job("y", 90), job("z", 95)],
    {},
    { count: 9, givingWay: ["a"] },
    ["z", "y"],
  ],
])("%s", (_, running, differing, waiting, expected) => {
  const slots = { ...SLOTS, ...differing };
  const stops = chooseStops(running, slots, waiting);
  expect(stops.map(({ name }) => name)).toEqual(expected);
  // No count above `waitingCountMax` changes the result.
  const count = Math.min(waiting.count, waitingCountMax(running, slots));
  expect(chooseStops(running, slots, { ...waiting, count })).toEqual(stops);
});

const due = (ids: string, isPart = false): DueJobs => ({ ids: new Set(ids), isPart });

test.each<[string, DueJobs, DueJobs, number]>([
  ["nothing was checked before, or no job waited", due(""), due("abc"), 0],
  ["others found a slot elsewhere, and others arrived", due("abc"), due("cde"), 1],
  ["all still wait", due("abc"), due("abc"), 3],
  ["more waited than were checked", due("abc", true), due("def", true), 3],
  ["more arrived than are checked", due("ab"), due("bcd", true), 1],
])("counts jobs that wait at the first and the second check: %s", (_, before, now, expected) => {
  expect(waitingCount(before, now)).toBe(expected);
});

test("stops jobs of a group over capacity after their minimum run time: the longest running first, and no more jobs than are waiting", () => {
  const running = [
    job("young", 10),
    job("old", 90),
    job("older", 100),
    job("oldest", 110),
    job("snapshot", 200, ONE_SHOT),
    job("stopping", 200, { isStopping: true }),
    job("elsewhere", 200, { group: "b" }),
  ];
  const slots = { ...SLOTS, jobsMax: 100 };
  const turns = (crowded: ReadonlyMap<string, number>) =>
    chooseCycle(running, slots, { waiting: NO_WAITING, crowded, others: [] }).forWaiting.map(
      ({ name }) => name,
    );
  expect(turns(new Map([["a", 1]]))).toEqual(["oldest"]);
  expect(turns(new Map([["a", 9]]))).toEqual(["oldest", "older"]);
  expect(turns(new Map())).toEqual([]);
});

test("limits all stops of a cycle to max_churn, including those of groups over capacity", () => {
  const groups = ["a", "b", "c", "d"];
  const running = groups.map((group, index) => job(group, 100 + index, { group }));
  const crowded = new Map(groups.map((group) => [group, 5] as const));
  const stops = (churnMax: number, count: number) => {
    const waiting = { count, givingWay: ["a"] };
    const slots = { ...SLOTS, jobsMax: 4, churnMax };
    const { forWaiting } = chooseCycle(running, slots, { waiting, crowded, others: [] });
    return forWaiting.map(({ name }) => name);
  };
  expect(stops(2, 0)).toEqual(["d", "c"]);
  expect(stops(2, 1)).toEqual(["a", "d"]);
  expect(stops(1, 1)).toEqual(["a"]);
  expect(stops(4, 1)).toEqual(["a", "d", "c", "b"]);
});

test("stops jobs if the node exceeds its share by more than a tenth, except one-shot jobs and jobs within their minimum run time", () => {
  const slots = { ...SLOTS, jobsMax: 100, churnMax: 3 };
  const running = [
    ...Array.from({ length: 9 }, (_, index) => job(`old-${index}`, 100 + index)),
    job("young", 1),
    job("snapshot", 200, ONE_SHOT),
    job("stopping", 200, { isStopping: true }),
  ];
  const cycle = (others: readonly OtherNode[], crowded = new Map<string, number>()) => {
    const { forWaiting, surplus } = chooseCycle(running, slots, {
      waiting: NO_WAITING,
      crowded,
      others,
    });
    return [forWaiting, surplus].map((jobs) => jobs.map(({ name }) => name));
  };
  const surplus = (...counts: number[]) =>
    cycle(counts.map((runningCount) => ({ slots: 100, runningCount, labels: [] })))[1];
  expect(surplus()).toEqual([]);
  expect(surplus(11)).toEqual([]);
  expect(surplus(9)).toEqual([]);
  expect(surplus(6)).toEqual(["old-8", "old-7"]);
  expect(surplus(0)).toEqual(["old-8", "old-7", "old-6"]);
  expect(cycle([{ slots: 0, runningCount: 0, labels: [] }])).toEqual([[], []]);
  // A node without jobs. Jobs of one rule might constantly yield to each other (second argument of
  // `cycle`). This must not prevent nodes from sharing the load evenly.
  const idle = [{ slots: 100, runningCount: 0, labels: [] }];
  expect(cycle(idle, new Map([["a", 1]]))).toEqual([["old-8"], ["old-7", "old-6"]]);
  expect(cycle(idle, new Map([["a", 5]]))).toEqual([["old-8", "old-7", "old-6"], []]);
});

test("yields jobs to less busy nodes only if these nodes have the jobs' labels", () => {
  const slots = { ...SLOTS, jobsMax: 100, churnMax: 10 };
  const running = [
    ...Array.from({ length: 8 }, (_, index) => job(`b${index}`, 100, { labels: ["site:b"] })),
    job("any", 100),
  ];
  const surplus = (...others: readonly OtherNode[]) =>
    chooseCycle(running, slots, {
      waiting: NO_WAITING,
      crowded: new Map(),
      others,
    }).surplus.map(({ name }) => name);
  const idle = { slots: 100, runningCount: 0 };
  expect(surplus({ ...idle, labels: [] })).toEqual(["any"]);
  expect(surplus({ ...idle, labels: ["site:b", "disk:ssd"] })).toEqual(["b0", "b1", "b2", "b3"]);
  // The only other node with the label is as busy as this one, so jobs that require the label stay.
  const busy = { slots: 100, runningCount: 9, labels: ["site:b"] };
  expect(surplus(busy, { ...idle, labels: [] })).toEqual(["any"]);
});
