/** What is wrong with the index of jobs: every row and every counter, beside what follows from the jobs themselves. */
import type { Jobs } from "../../src/jobs/index.ts";
import { type KeyRange, type ReadTransaction, unpackTuple } from "../../src/kv/index.ts";
import { type FailureLists, REPLICATION_JOB_TYPE } from "../../src/replicator/index.ts";
import { JobControls } from "../../src/replicator/jobs/job-controls.ts";
import { decodeJob } from "../../src/replicator/jobs/job-data-record.ts";
import { SUBSPACES } from "../../src/server/layout.ts";

const CONTROLS = new JobControls(SUBSPACES.replicator);

export async function indexProblems(
  tx: ReadTransaction,
  jobs: Jobs,
  failureLists: FailureLists,
): Promise<string[]> {
  const expected = await expectedRows(tx, jobs, failureLists);
  const rows = (await readAll(tx, SUBSPACES.replicator.range([18]))).map(([key]) => key);
  const counts = new Map<string, number>();
  for (const row of expected) {
    const [, list, value, id] = JSON.parse(row) as [number, string, unknown, string];
    if (/^(since|tries|active|ended|cause-since .*|rule-behind .*)$/.test(list)) continue;
    const counted = list === "behind" ? null : value;
    const name = JSON.stringify([19, list, counted, list === "outcome" ? databaseOf(id) : null]);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const page = await jobs.list(tx, REPLICATION_JOB_TYPE, { limit: 10_000 });
  for (const { id } of page.entries) {
    const name = JSON.stringify([19, "all", null, databaseOf(id)]);
    if (databaseOf(id) !== null) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const stored = new Map(await readAll(tx, SUBSPACES.replicator.range([19])));
  return [
    ...expected.filter((row) => !rows.includes(row)).map((row) => `lacks ${row}`),
    ...rows.filter((row) => !expected.includes(row)).map((row) => `has ${row}`),
    ...[...new Set([...counts.keys(), ...stored.keys()])]
      .filter((name) => (counts.get(name) ?? 0) !== (stored.get(name) ?? 0))
      .map((name) => `counts ${name}: ${stored.get(name)}, and there are ${counts.get(name)}`),
  ];
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
      rows.push(JSON.stringify([18, list, value, job.id]));
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
    const sinceMs = backlog && unpackTuple(backlog)[1];
    if (typeof sinceMs === "number") add("behind", -sinceMs);
    const uuid = databaseOf(job.id);
    if (data.rule !== undefined) {
      if (failing !== undefined) add("rule", `${uuid} failing`);
      if (isLeft) add("rule", `${uuid} left_behind`);
      if (typeof sinceMs === "number") add(`rule-behind ${uuid}`, -sinceMs);
    }
    add("owner", userName);
    for (const side of ["source", "target"] as const) {
      const address = replication?.[side];
      if (address === undefined) continue;
      if (address.kind === "local") add(side, `/${address.database}`);
      else {
        const { host, hostname } = new URL(address.url);
        for (const place of new Set([host, hostname])) add(side, place);
      }
    }
  }
  return rows;
}

/** Rows by their keys as JSON, with their value as a counter. */
async function readAll(tx: ReadTransaction, range: KeyRange): Promise<[string, number][]> {
  const found: [string, number][] = [];
  for await (const { key, value } of tx.getRange(range)) {
    const tuple = unpackTuple(key, SUBSPACES.replicator.prefix.length);
    const count =
      value.length < 8 ? 0 : Number(new DataView(value.slice().buffer).getBigInt64(0, true));
    found.push([JSON.stringify(tuple), count]);
  }
  return found;
}
