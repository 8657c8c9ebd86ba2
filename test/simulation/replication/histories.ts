/**
 * Checks that the data of each job matches its history, that its document matches the data, and
 * that removed jobs leave no rows.
 */
import type { DatabaseRegistry } from "../../../src/databases/index.ts";
import type { Job, Jobs } from "../../../src/jobs/index.ts";
import type { ReadTransaction } from "../../../src/kv/index.ts";
import { documentState } from "../../../src/replicator/documents/replication-document.ts";
import { JOB_TYPES, REPLICATION_JOB_TYPE } from "../../../src/replicator/index.ts";
import type { ReplicationFailure } from "../../../src/replicator/jobs/failing.ts";
import type { ReplicationJobData } from "../../../src/replicator/jobs/job-data.ts";
import { decodeJob } from "../../../src/replicator/jobs/job-data-record.ts";
import { SUBSPACES } from "../../../src/server/layout.ts";
import { openIfExists } from "./scene.ts";

/**
 * Compares every job with its history. `crashCounts` is the number of failed runs per job, counted
 * from events.
 */
export async function checkHistories(
  tx: ReadTransaction,
  jobs: Jobs,
  crashCounts: ReadonlyMap<string, number>,
): Promise<string[]> {
  const { entries } = await jobs.list(tx, REPLICATION_JOB_TYPE, { limit: 1000 });
  return entries.flatMap((job) => {
    const data = decodeJob(job);
    const problem = historyProblem(job, data, crashCounts.get(job.id) ?? 0);
    const events = data.history.map(({ type }) => type).join(" ");
    return problem === undefined ? [] : [`${job.id} (${job.state}, ${events}): ${problem}`];
  });
}

function historyProblem(
  job: Job,
  { state, errorCount, history }: ReplicationJobData,
  crashCount: number,
): string | undefined {
  const [last, before] = history;
  // The failure is read as it was stored, because decoding a job would add missing members.
  const failure = job.data.failure as ReplicationFailure | undefined;
  if (last === undefined) return "has no history";
  if (errorCount > crashCount)
    return `counts ${errorCount} errors, and crashed ${crashCount} times`;
  if (job.state === "finished") {
    const expected = last.type === "stopped" ? "completed" : "failed";
    if (last.type !== "stopped" && last.type !== "crashed") return `ended with ${last.type}`;
    // If the last run did not crash, the state can be `failed`: a failed job keeps its state after
    // a run that only retried its failed documents.
    if (state !== expected && last.type === "crashed") return `is ${state}`;
    if ((state === "failed") !== (failure !== undefined)) return `${state} with ${failure?.error}`;
    return undefined;
  }
  if (state === "crashing") {
    if (last.type !== "pending" || before?.type !== "crashed") return "is crashing";
    if (failure === undefined || errorCount === 0) return "is crashing without an error";
    if (before.reason !== `${failure.error}: ${failure.reason}`)
      return `fails with ${failure.error}`;
  }
  return undefined;
}

/** Checks that the document of each ended job contains its outcome. */
export async function checkDocumentStates(
  tx: ReadTransaction,
  jobs: Jobs,
  databases: DatabaseRegistry,
): Promise<string[]> {
  const problems: string[] = [];
  const { entries } = await jobs.list(tx, REPLICATION_JOB_TYPE, { limit: 1000 });
  for (const job of entries) {
    const { id, state } = job;
    const { document, state: ended } = decodeJob(job);
    if (document === undefined) continue;
    const database = await openIfExists(tx, databases, document.database);
    const found = database && (await database.documents.read(tx, document.id));
    if (found === undefined || found.deleted || database?.uuid !== document.databaseUuid) {
      problems.push(`${id} is there, and its document is not`);
      continue;
    }
    const shown = documentState(JSON.parse(found.body.text));
    if (state === "finished" && shown !== ended) problems.push(`${id} is ${ended}, shown ${shown}`);
  }
  return problems;
}

/**
 * First elements of the keys of rows about a job. Each constant is named after the content of the
 * rows.
 */
const JOB_DATA = 3;
const JOB_NEXT_DATA = 4;
const OWNER = 1;
const CONTROL = 8;
const REMOVED_DATABASE = 12;

/** Returns the rows about jobs that do not exist. */
export async function checkLeftovers(tx: ReadTransaction, jobs: Jobs): Promise<string[]> {
  const problems: string[] = [];
  const lists = await Promise.all(JOB_TYPES.map((type) => jobs.list(tx, type, { limit: 1000 })));
  const entries = lists.flatMap((list) => list.entries);
  const there = new Map(entries.map(({ id, state }) => [id, state]));
  for (const kind of [JOB_DATA, JOB_NEXT_DATA]) {
    for await (const { key } of tx.getRange(SUBSPACES.jobs.range([kind]))) {
      const id = SUBSPACES.jobs.unpack(key)[2] as string;
      if (!there.has(id)) problems.push(`data of ${id}, which is gone`);
      const isLate = kind === JOB_NEXT_DATA && there.get(id) !== "running";
      if (isLate) problems.push(`data for the next run of ${id}, which does not run`);
    }
  }
  for await (const { key } of tx.getRange(SUBSPACES.replicator.range([CONTROL]))) {
    const id = SUBSPACES.replicator.unpack(key)[1] as string;
    if (!there.has(id)) problems.push(`a decision about ${id}, which is gone`);
  }
  for await (const { value } of tx.getRange(SUBSPACES.replicator.range([OWNER]))) {
    const id = Buffer.from(value).toString();
    if (!there.has(id)) problems.push(`${id} owns a replication, and is gone`);
  }
  for await (const { key } of tx.getRange(SUBSPACES.replicator.range([REMOVED_DATABASE]))) {
    problems.push(`a mark of a deleted database: ${SUBSPACES.replicator.unpack(key)[1]}`);
  }
  return problems;
}
