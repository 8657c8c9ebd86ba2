/** What has to hold of replications in the store, whenever one looks; and what two equal databases have in common. */
import type { Database, DatabaseRegistry } from "../../src/databases/index.ts";
import type { Jobs } from "../../src/jobs/index.ts";
import type { ReadTransaction } from "../../src/kv/index.ts";
import { type FailureList, REPLICATION_JOB_TYPE } from "../../src/replicator/index.ts";
import { fromJobData } from "../../src/replicator/job-data.ts";

export interface Pair {
  readonly source: string;
  readonly target: string;
}

/** A pair and the id of the replication between them, under which its checkpoints stand. */
export interface CheckedPair extends Pair {
  readonly baseId: string;
}

export interface CheckedParts {
  readonly databases: DatabaseRegistry;
  readonly failureList: FailureList;
}

const ALL = { limit: 100_000 };

/** The checkpoint rule: no checkpoint passes a change that is neither on the target nor on the list of failures. */
export async function checkCheckpoints(
  tx: ReadTransaction,
  { databases, failureList }: CheckedParts,
  pairs: readonly CheckedPair[],
): Promise<string[]> {
  const problems: string[] = [];
  for (const pair of pairs) {
    const source = await databases.open(tx, pair.source);
    const target = await databases.open(tx, pair.target);
    const listed = await readListed(tx, failureList, pair.baseId);
    for (const side of [source, target]) {
      const sequence = await readCheckpoint(tx, side, pair.baseId);
      const lacking =
        sequence === undefined ? [] : await passedRevisions(tx, source, target, sequence);
      for (const revision of lacking) {
        if (listed.has(revision)) continue;
        problems.push(`${pair.source} → ${pair.target}: ${sequence} passes ${revision}`);
      }
    }
  }
  return problems;
}

/** Exclusivity: of the jobs that want the same replication one runs, or none. */
export async function checkOwners(tx: ReadTransaction, jobs: Jobs): Promise<string[]> {
  const { entries } = await jobs.list(tx, REPLICATION_JOB_TYPE, { limit: 1000 });
  const running = new Map<string, string>();
  const problems: string[] = [];
  for (const { id, state, data } of entries) {
    const { history, replicationId } = fromJobData(data);
    const isUnderWay = state === "running" && history[0]?.type === "started";
    if (!isUnderWay || replicationId === undefined) continue;
    const other = running.get(replicationId);
    if (other !== undefined) problems.push(`${other} and ${id} both run ${replicationId}`);
    running.set(replicationId, id);
  }
  return problems;
}

/** How far the log on this side says that the replication came. */
async function readCheckpoint(
  tx: ReadTransaction,
  database: Database,
  baseId: string,
): Promise<string | undefined> {
  const log = await database.readLocal(tx, `_local/${baseId}`);
  return log && (JSON.parse(log.body).source_last_seq as string);
}

async function readListed(
  tx: ReadTransaction,
  failureList: FailureList,
  baseId: string,
): Promise<ReadonlySet<string>> {
  const { entries } = await failureList.page(tx, baseId, ALL);
  return new Set(entries.map(({ id, revision }) => `${id} ${revision}`));
}

/** What of the changes up to `sequence` the target lacks. */
async function passedRevisions(
  tx: ReadTransaction,
  source: Database,
  target: Database,
  sequence: string,
): Promise<string[]> {
  const [all, after] = await Promise.all([
    source.changes(tx, ALL),
    source.changes(tx, { ...ALL, since: sequence }),
  ]);
  const ahead = new Set(after.entries.map(({ id }) => id));
  const asked = all.entries
    .filter(({ id }) => !ahead.has(id))
    .map(({ id, leaves }) => [id, leaves.map(({ revision }) => revision)] as const);
  const answers = await target.missingRevisions(tx, asked);
  return answers.flatMap(({ missing }, index) =>
    missing.map((revision) => `${asked[index]?.[0]} ${revision}`),
  );
}

/** Every document with its leaves, in one text. */
export async function contentOf(tx: ReadTransaction, database: Database): Promise<string> {
  const { entries } = await database.changes(tx, ALL);
  const rows = entries.map(({ id, leaves }) => JSON.stringify([id, leaves]));
  return rows.toSorted().join("\n");
}

/** The counters of a database against its documents. */
export async function checkCounters(tx: ReadTransaction, database: Database): Promise<string[]> {
  const [info, { entries }] = await Promise.all([database.info(tx), database.changes(tx, ALL)]);
  const counted = entries.filter(({ deleted }) => !deleted).length;
  const deletedCount = entries.length - counted;
  if (info.documentCount === counted && info.deletedDocumentCount === deletedCount) return [];
  const { documentCount, deletedDocumentCount } = info;
  return [
    `${database.name} counts ${documentCount} and ${deletedDocumentCount} deleted, and has ${counted} and ${deletedCount}`,
  ];
}
