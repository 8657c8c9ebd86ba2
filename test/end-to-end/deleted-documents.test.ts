/**
 * The program purges documents some days after their deletion, even if it is killed in between.
 * Feeds and replications can start at a given time. Each start of the program advances its clock.
 */
import { afterAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../support/open-process.ts";
import { patience } from "../support/runner/patience.ts";

const DAY_MS = 86_400_000;
const COUNT = 600;

const processes = new Processes();
afterAll(() => processes.close());

/** Starts the program with a clock that is some days ahead. */
function open(directory: string, daysAhead = 0): Promise<TandemProcess> {
  const code = `const now=Date.now;Date.now=()=>now()+${daysAhead * DAY_MS}`;
  const preloaded = `--import=data:text/javascript,${encodeURIComponent(code)}`;
  return processes.open({ directory, environment: { NODE_OPTIONS: preloaded } });
}

const timesOf = async (node: TandemProcess): Promise<readonly [string, number][]> => {
  const { body } = await node.call("GET", "/films/_time_seq");
  return Object.values(body.time_seq["00000000-ffffffff"])[0] as [string, number][];
};
const since = (node: TandemProcess, timeMs: number) => {
  const time = new Date(timeMs).toISOString().replace(/\.\d+/, "");
  return node.call("GET", `/films/_changes?since=${time}&limit=${COUNT + 5}`);
};
const setEnabled = async (node: TandemProcess, isEnabled: boolean): Promise<void> => {
  const path = "/_node/_local/_config/couch_scanner_plugins/couch_auto_purge_plugin";
  expect((await node.call("PUT", path, `"${isEnabled}"`)).status).toBe(200);
};
const deletedCount = async (node: TandemProcess): Promise<number> =>
  (await node.call("GET", "/films")).body.doc_del_count;

/**
 * Returns the number of deleted documents that are left after the first step of a purge. The
 * function polls, because a step of a purge logs nothing.
 */
async function firstPurge(node: TandemProcess): Promise<number> {
  for (;;) {
    const count = await deletedCount(node);
    if (count < COUNT) return count;
  }
}

test("old tombstones are purged after kill -9, and documents that are not deleted are kept", async () => {
  const directory = processes.directory();
  const first = await open(directory);
  await first.call("PUT", "/films");
  const tombstones = Array.from({ length: COUNT }, (_, index) => {
    return { _id: `d${index}`, _rev: "1-a", _deleted: true };
  });
  const docs = [...tombstones, { _id: "alive", _rev: "1-a" }];
  await first.call("POST", "/films/_bulk_docs", { new_edits: false, docs });
  const nowMs = Date.now();
  const times = await first.onceAnswered(
    () => timesOf(first),
    ({ length }) => length > 0,
  );
  expect(times).toEqual([[expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/), COUNT + 1]]);
  expect((await since(first, nowMs - DAY_MS)).body.results).toHaveLength(COUNT + 1);
  expect((await since(first, nowMs + DAY_MS)).body.results).toEqual([]);
  const age = { deleted_document_ttl: "1_day" };
  expect((await first.call("PUT", "/films/_auto_purge", age)).status).toBe(201);
  expect(await first.stop()).toBe(0);

  // Three days later, the program records a time. One day after that, deletions before the recorded
  // time can be purged.
  const second = await open(directory, 3);
  await second.onceAnswered(
    async () => {
      await second.call("POST", "/films", {});
      return timesOf(second);
    },
    ({ length }) => length === 2,
  );
  await setEnabled(second, true);
  expect(await deletedCount(second)).toBe(COUNT);
  expect(await second.stop()).toBe(0);

  const third = await open(directory, 6);
  await setEnabled(third, false);
  await setEnabled(third, true);
  const left = await patience.until("the first documents to be purged", firstPurge(third));
  expect(left).toBeGreaterThan(0);
  await third.kill();

  const fourth = await open(directory, 7);
  const before = await deletedCount(fourth);
  expect(before).toBeGreaterThan(0);
  await setEnabled(fourth, false);
  await setEnabled(fourth, true);
  const { documentCount } = await fourth.events.event("databases.tombstones-purged");
  expect(documentCount).toBe(before);
  const { body: info } = await fourth.call("GET", "/films");
  expect(info).toMatchObject({ doc_del_count: 0, purge_seq: String(COUNT) });
  expect((await fourth.call("GET", "/films/alive")).status).toBe(200);
  const { body: counter } = await fourth.call("GET", "/_node/_local/_stats/auto_purge/purge");
  expect(counter.value).toBe(before);
});

test("a replication starts at the time in since_seq if its source supports times", async () => {
  const node = await open(processes.directory());
  await node.call("PUT", "/films");
  await node.call("PUT", "/films/a", {});
  const past = "2001-01-01T00:00:00Z";
  const future = "2101-01-01T00:00:00Z";
  const copy = async (source: string, target: string, since_seq: string) => {
    const body = { source, target, create_target: true, since_seq };
    const { status } = await node.call("POST", "/_replicate", body);
    const { body: info } = await node.call("GET", `/${target}`);
    return [status, info.doc_count];
  };
  for (const [name, source] of [
    ["here", "films"],
    ["there", `${node.url}/films`],
  ] as const) {
    expect(await copy(source, `past-${name}`, past)).toEqual([200, 1]);
    expect(await copy(source, `future-${name}`, future)).toEqual([200, 0]);
  }
  const { body } = await node.call("POST", "/_replicate", {
    source: "films",
    target: "past-here",
    since_seq: "2001-02-30T00:00:00Z",
  });
  expect(body.reason ?? body.error).toContain("an existing time");
});
