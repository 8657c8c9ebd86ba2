import { expect, test } from "vitest";
import { createSystemRuntime } from "../../host/index.ts";
import type { ParkedJobsWaking } from "./parked-jobs-waking.ts";
import { SourceWatcher, type SourceWatcherParts } from "./source-watcher.ts";
import type { WatchedServer } from "./watched-server.ts";

const OVER = new Error("Over");

const STORE = {
  transact: (work: (tx: object) => unknown) => work({}),
  read: (work: (tx: object) => unknown) => work({}),
};

const never = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });

/**
 * Watches a server that has no feed. Two hundred jobs are parked, and comparing their databases
 * takes two requests. `changedCounts` contains the number of changed databases per round. Returns
 * the pauses between rounds.
 */
async function sweep(
  changedCounts: readonly number[],
  onWatched: () => void = () => {},
): Promise<number[]> {
  const over = new AbortController();
  const names = Array.from({ length: 200 }, (_, at) => `db-${String(at).padStart(3, "0")}`);
  const jobs = names.map((database) => ({ jobId: database, database, updateSequence: 1 }));
  const pausesMs: number[] = [];
  const system = createSystemRuntime();
  const clock = {
    ...system.clock,
    monotonicMs: () => 0,
    sleep: async (durationMs: number) => {
      pausesMs.push(durationMs);
      if (pausesMs.length === changedCounts.length) over.abort(OVER);
      over.signal.throwIfAborted();
    },
  };
  const parts = {
    runtime: { ...system, clock },
    kv: STORE,
    parked: {
      forgetNew: async () => false,
      page: async (_tx: object, _source: string, { after }: { after?: (typeof jobs)[number] }) => {
        const start = after === undefined ? 0 : jobs.indexOf(after) + 1;
        return jobs.slice(start, start + 100);
      },
    },
    pace: { turn: async () => {} },
  } as unknown as SourceWatcherParts;
  const source = JSON.stringify(["http://source/"]);
  const waking = { source, wake: async () => {} } as unknown as ParkedJobsWaking;
  // The comparison at the start precedes the rounds.
  const rounds = [0, ...changedCounts];
  let requestCount = 0;
  const server = {
    lastUpdate: async () => undefined,
    sequences: async (asked: readonly string[]) => {
      const changed = names.slice(0, rounds[Math.floor(requestCount++ / 2)]);
      return new Map(asked.map((name) => [name, changed.includes(name) ? 2 : 1]));
    },
    requestCount: () => 1,
  } as unknown as WatchedServer;
  const watching = new SourceWatcher(parts, waking, server).watch(over.signal, onWatched);
  await expect(watching).rejects.toBe(OVER);
  return pausesMs;
}

test("without a feed, compares databases sooner while every request finds a change", async () => {
  expect(await sweep([0, 1, 2, 150, 0])).toEqual([1000, 1000, 250, 250, 1000]);
});

/**
 * Watches a server whose feed returns `answers` in turn. Returns the databases whose jobs
 * are woken, and the pause after each answer.
 *
 * - `compare`: result of comparing database `a` at the start
 * - `parkedLate`: database of a job that parks during the comparison
 * - `latestChanged`: recently changed databases
 * - `ending`: how the watch ends
 */
async function follow(
  answers: readonly (readonly string[])[],
  {
    compare = async () => new Map(),
    latestChanged = [],
    parkedLate,
    ending = OVER,
    onWatched = () => {},
  }: {
    readonly compare?: WatchedServer["sequences"];
    readonly latestChanged?: readonly string[];
    readonly parkedLate?: string;
    readonly ending?: Error;
    readonly onWatched?: () => void;
  } = {},
) {
  const over = new AbortController();
  const woken: (readonly string[])[] = [];
  const pausesMs: number[] = [];
  const system = createSystemRuntime();
  const clock = {
    ...system.clock,
    sleep: async (durationMs: number) => {
      pausesMs.push(durationMs);
    },
  };
  let answerCount = 0;
  const late = parkedLate === undefined ? [] : [{ jobId: "late", database: parkedLate }];
  const parts = {
    runtime: { ...system, clock },
    kv: STORE,
    parked: {
      forgetNew: async () => false,
      takeNew: () => late.splice(0),
      page: async (_tx: object, _source: string, { database = "a" }) => [
        { jobId: `of ${database}`, database, updateSequence: 1 },
      ],
      watch: () => ({ cancel: () => {}, fired: never }),
    },
    pace: { turn: async () => {} },
  } as unknown as SourceWatcherParts;
  const waking = {
    source: JSON.stringify(["http://source/"]),
    wake: async () => {},
    wakeDatabases: async (names: readonly string[]) => {
      woken.push(names);
    },
  } as unknown as ParkedJobsWaking;
  const server: WatchedServer = {
    lastUpdate: async () => 0,
    latestChanged: async () => latestChanged,
    updates: async (since, signal) => {
      const names = answers[answerCount++];
      if (names !== undefined) return { names, deleted: new Set(), last: Number(since) + 1 };
      over.abort(OVER);
      return never(signal);
    },
    sequences: compare,
    requestCount: () => 1,
  };
  const watching = new SourceWatcher(parts, waking, server).watch(over.signal, onWatched);
  await expect(watching).rejects.toBe(ending);
  return { woken, pausesMs };
}

test("the more databases change, the longer changes are collected, up to 150 ms", async () => {
  const names = (count: number) => Array.from({ length: count }, (_, at) => `db-${at}`);
  const { woken, pausesMs } = await follow([names(1), names(5), names(7), names(1_000)]);
  expect(woken.map(({ length }) => length)).toEqual([1, 5, 7, 1_000]);
  expect(pausesMs).toEqual([100, 100, 140, 150]);
});

test("wakes a database only once if it occurs several times in a response", async () => {
  const { woken, pausesMs } = await follow([Array.from({ length: 100 }, () => "a")]);
  expect(woken).toEqual([["a"]]);
  expect(pausesMs).toEqual([100]);
});

test("follows the feed while databases are compared, so that current changes need not wait", async () => {
  const compare: WatchedServer["sequences"] = (_names, signal) => never(signal);
  const { woken } = await follow([["a"], ["b"]], { compare });
  expect(woken).toEqual([["a"], ["b"]]);
});

test("recently changed databases are compared before the others", async () => {
  const compared: (readonly string[])[] = [];
  const refused = new Error("refused");
  const latestChanged = Array.from({ length: 101 }, (_, at) => `late-${at}`);
  const compare: WatchedServer["sequences"] = async (names) => {
    compared.push(names);
    if (names.includes("a")) throw refused;
    return new Map();
  };
  const answers = Array.from({ length: 1_000 }, () => ["b"]);
  await follow(answers, { compare, latestChanged, ending: refused });
  expect(compared).toEqual([latestChanged.slice(0, 100), ["late-100"], ["a"]]);
});

test("a failed comparison ends the watcher, so that it must be restarted", async () => {
  const refused = new Error("refused");
  const answers = Array.from({ length: 1_000 }, () => ["a"]);
  const { woken } = await follow(answers, {
    compare: () => Promise.reject(refused),
    ending: refused,
  });
  expect(woken.length).toBeLessThan(answers.length);
});

test("also compares the database of a job that parks during the comparison", async () => {
  const compared = new Error("compared");
  await follow(
    Array.from({ length: 1_000 }, () => ["a"]),
    {
      compare: (names, signal) => (names.includes("b") ? Promise.reject(compared) : never(signal)),
      parkedLate: "b",
      ending: compared,
    },
  );
});

test("reports a source as watched only after all its jobs have been compared, with or without a feed", async () => {
  let watchedCount = 0;
  const onWatched = (): void => {
    watchedCount++;
  };
  await sweep([0], onWatched);
  expect(watchedCount).toBeGreaterThan(0);
  watchedCount = 0;
  const answers = Array.from({ length: 100 }, () => ["a"]);
  await follow(answers, { onWatched });
  expect(watchedCount).toBeGreaterThan(0);
  watchedCount = 0;
  const refused = new Error("refused");
  const compare = () => Promise.reject(refused);
  await follow(answers, { compare, ending: refused, onWatched });
  expect(watchedCount).toBe(0);
});
