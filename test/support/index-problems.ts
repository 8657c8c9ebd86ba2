/**
 * Finds inconsistencies in the index of jobs. Compares every row and every counter with the jobs.
 */
import type { Jobs } from "../../src/jobs/index.ts";
import { type Key, type KeyRange, type ReadTransaction, unpackTuple } from "../../src/kv/index.ts";
import {
  type FailureLists,
  type JobIndex,
  REPLICATION_JOB_TYPE,
} from "../../src/replicator/index.ts";
import type { IndexRow, IndexView } from "../../src/replicator/job-lists/index-view.ts";
import { JobControls } from "../../src/replicator/jobs/job-controls.ts";
import { decodeJob } from "../../src/replicator/jobs/job-data-record.ts";
import { SUBSPACES } from "../../src/server/layout.ts";

const CONTROLS = new JobControls(SUBSPACES.replicator);

export interface IndexedNode {
  readonly jobs: Jobs;
  readonly failureLists: FailureLists;
  readonly index: JobIndex;
}

/**
 * Returns the problems of the index as readers see it, including changes that are not yet folded
 * into its rows.
 */
export async function indexProblems(tx: ReadTransaction, node: IndexedNode): Promise<string[]> {
  const view = await node.index.view(tx);
  const expected = await expectedRows(tx, node.jobs, node.failureLists);
  const found = await view.rows(SUBSPACES.replicator.range([51]));
  const rows = found.map(({ key }) => textOf(key));
  const counts = await expectedCounts(tx, node.jobs, expected);
  const stored = await readAll(tx, SUBSPACES.replicator.range([52]));
  const seen = await Promise.all(
    [...new Set([...counts.keys(), ...stored])].map(async (name) => {
      const tuple = JSON.parse(name) as [number, string, string | number | null, string | null];
      return [name, await view.count(SUBSPACES.replicator.pack(tuple))] as const;
    }),
  );
  return [
    ...expected.filter((row) => !rows.includes(row)).map((row) => `lacks ${row}`),
    ...rows.filter((row) => !expected.includes(row)).map((row) => `has ${row}`),
    ...(new Set(rows).size === rows.length ? [] : ["has rows twice"]),
    ...seen
      .filter(([name, count]) => (counts.get(name) ?? 0) !== count)
      .map(([name, count]) => `counts ${name}: ${count}, and there are ${counts.get(name)}`),
    ...(await problemsOfPages(view, found)),
  ];
}

async function expectedCounts(
  tx: ReadTransaction,
  jobs: Jobs,
  rows: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const row of rows) {
    const [, list, value, id] = JSON.parse(row) as [number, string, unknown, string];
    if (/^(since|tries|active|ended|cause-since .*|tag-since .*|rule-behind .*)$/.test(list))
      continue;
    if (String(value).startsWith("//")) continue;
    const counted = list === "behind" ? null : value;
    const name = JSON.stringify([52, list, counted, list === "outcome" ? databaseOf(id) : null]);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const page = await jobs.list(tx, REPLICATION_JOB_TYPE, { limit: 10_000 });
  for (const job of page.entries) {
    const { id } = job;
    const { state, failing, replication } = decodeJob(job);
    const lists = failing === undefined ? [] : ["tag-failing"];
    if (state !== "pending") lists.push(`tag-${state}`);
    for (const [tag, value] of Object.entries(replication?.tags ?? {})) {
      for (const list of lists) {
        for (const term of [tag, `${tag}:${value}`]) {
          const name = JSON.stringify([52, list, term, null]);
          counts.set(name, (counts.get(name) ?? 0) + 1);
        }
      }
    }
    const name = JSON.stringify([52, "all", null, databaseOf(id)]);
    if (databaseOf(id) !== null) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}

/** Checks that any page of rows, read from either end, is a slice of the whole list. */
async function problemsOfPages(view: IndexView, all: readonly IndexRow[]): Promise<string[]> {
  const problems: string[] = [];
  const { begin, end } = SUBSPACES.replicator.range([51]);
  for (const [index, { key }] of all.entries()) {
    const pages = [
      [await view.rows({ begin: key, end }, { limit: 2 }), all.slice(index, index + 2)],
      [
        await view.rows({ begin, end: key }, { limit: 2, reverse: true }),
        all.slice(Math.max(0, index - 2), index).toReversed(),
      ],
    ] as const;
    for (const [page, expected] of pages) {
      const [got, wanted] = [page, expected].map((rows) =>
        rows.map((row) => textOf(row.key)).join(),
      );
      if (got !== wanted) problems.push(`has a page ${got} and not ${wanted}`);
    }
  }
  return problems;
}

function databaseOf(id: string): string | null {
  return id.includes("|") ? (id.split("|")[0] as string) : null;
}

async function expectedRows(
  tx: ReadTransaction,
  jobs: Jobs,
  failureLists: FailureLists,
): Promise<string[]> {
  const rows: string[] = [];
  const page = await jobs.list(tx, REPLICATION_JOB_TYPE, { limit: 10_000 });
  for (const job of page.entries) {
    const add = (list: string, value: unknown): void => {
      rows.push(JSON.stringify([51, list, value, job.id]));
    };
    const data = decodeJob(job);
    const { state, failing, stallCount, replicationId, userName, replication } = data;
    const hasEnded = state === "completed" || state === "failed";
    if (state !== "pending") add("outcome", state);
    if (!hasEnded) add("active", replicationId ?? job.id);
    if (hasEnded && databaseOf(job.id) === null) add("ended", data.lastUpdatedMs);
    if (failing !== undefined) {
      add("since", failing.sinceMs);
      add("tries", failing.tries);
      add("error", failing.class);
      const cause = `${failing.host ?? "-"}|${failing.side ?? "-"}|${failing.class}`;
      add("cause", cause);
      add(`cause-since ${cause}`, failing.sinceMs);
    }
    const baseId = replicationId?.replace(/\+.*$/, "");
    const isLeft = baseId !== undefined && (await failureLists.counts(tx, baseId)).length > 0;
    if (isLeft) add("flag", "left_behind");
    const { isPaused } = await CONTROLS.get(tx, job.id);
    if (isPaused) add("flag", "paused");
    if (stallCount > 0) add("flag", "stalled");
    const backlog = await tx.get(SUBSPACES.replicator.pack([21, job.id]));
    const [, sinceMs, , seenMs] = backlog === undefined ? [] : unpackTuple(backlog);
    const isHidden = failing !== undefined && failing.side !== "target" && sinceMs === null;
    const isUnread = seenMs === undefined || (isHidden && Number(seenMs) <= failing.lastMs);
    if (isUnread && !isPaused && !hasEnded) add("flag", "unknown");
    if (typeof sinceMs === "number") add("behind", -sinceMs);
    const uuid = databaseOf(job.id);
    if (data.rule !== undefined) {
      if (failing !== undefined) add("rule", `${uuid} failing`);
      if (isLeft) add("rule", `${uuid} left_behind`);
      if (typeof sinceMs === "number") add(`rule-behind ${uuid}`, -sinceMs);
    }
    add("owner", userName);
    for (const [tag, value] of Object.entries(replication?.tags ?? {})) {
      add("tag", tag);
      add("tag", `${tag}:${value}`);
      if (failing !== undefined) add(`tag-since ${tag}:${value}`, failing.sinceMs);
    }
    for (const side of ["source", "target"] as const) {
      const address = replication?.[side];
      if (address === undefined) continue;
      if (address.kind === "local") add(side, `/${address.database}`);
      else {
        const { host, hostname, pathname } = new URL(address.url);
        for (const place of new Set([host, hostname])) add(side, place);
        add(side, `//${decodeURIComponent(pathname.split("/").filter(Boolean).at(-1) ?? "")}`);
      }
    }
  }
  return rows;
}

/** Returns the keys of a range as JSON. */
async function readAll(tx: ReadTransaction, range: KeyRange): Promise<string[]> {
  const found: string[] = [];
  for await (const { key } of tx.getRange(range)) found.push(textOf(key));
  return found;
}

function textOf(key: Key): string {
  return JSON.stringify(unpackTuple(key, SUBSPACES.replicator.prefix.length));
}
