/**
 * Chains: jobs that start after other jobs have completed or caught up (`after`). A waiting job has
 * the due time `AWAITING_SEC`. For each predecessor that it still waits for, a row is stored under
 * the predecessor's name; the predecessor need not exist yet. The transaction in which the
 * predecessor completes or catches up finds these rows and queues a release (`chain-jobs.ts`). The
 * release is a queue job, so that it survives the death of a node, and so that many rows do not
 * delay the transaction. Once its row is removed, a job no longer waits, even if the predecessor
 * falls behind again.
 *
 * The transaction also counts how often the predecessor has completed or caught up. A row contains
 * the count at the time it was added. A release ignores rows added after it was queued: they stay
 * until the predecessor completes or catches up again.
 *
 * A predecessor that the waiting job's owner is not allowed to see is treated as missing.
 */
import { assert, currentSec } from "../../base/index.ts";
import { type Authority, type Database, mayNameSecrets, ownerKey } from "../../databases/index.ts";
import type { Job, Jobs } from "../../jobs/index.ts";
import {
  keyAfter,
  packTuple,
  type ReadTransaction,
  type Subspace,
  type Transaction,
  unpackTuple,
} from "../../kv/index.ts";
import { type Backlog, decodeBacklog } from "../job-lists/backlog.ts";
import type { AwaitReason } from "../job-lists/job-views.ts";
import { AWAITING_SEC, isAwaiting } from "../jobs/decide.ts";
import {
  persistentJobId,
  REPLICATION_JOB_TYPE,
  type ReplicationJobData,
} from "../jobs/job-data.ts";
import { decodeJob, isReadable } from "../jobs/job-data-record.ts";
import { jobName, namePlaces } from "../jobs/job-name.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { fullNames } from "../request/after.ts";
import { firstRunSec, scheduleOf } from "../request/schedule.ts";
import { type Awaited, isReached, reasonsOf, type WaitGraph } from "./awaited.ts";

/** Queue type of releases (`chain-jobs.ts`); ids are names of jobs. */
export const CHAIN_TYPE = "chain";

/** Maximum number of waiting jobs whose rows are read to explain a page of jobs. */
const EXPLAINED_MAX = 1_000;

export interface ChainsParts {
  readonly jobs: Jobs;
  readonly subspace: Subspace;
  readonly runtime: { readonly clock: { nowMs(): number } };
  readonly findDatabase: (
    tx: ReadTransaction,
    name: string,
  ) => Promise<Pick<Database, "uuid"> | undefined>;
  readonly findRule: (
    tx: ReadTransaction,
    name: string,
  ) => Promise<{ readonly uuid: string } | undefined>;
}

/** Data that shows whether a job has completed or caught up. */
type ReachedJob = Authority &
  Pick<
    ReplicationJobData,
    "document" | "rule" | "replicationId" | "replication" | "state" | "failing" | "lastStartMs"
  >;

/** Data of a job that might wait. Without `after`, the job has no rows. */
type MaybeWaiting = Pick<ReplicationJobData, "replication">;

export class Chains {
  readonly #parts: ChainsParts;
  readonly #keys: ReplicatorKeys;

  constructor(parts: ChainsParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
  }

  /** Records the jobs for which a new job has to wait. Returns whether there are any. */
  async begin(
    tx: Transaction,
    jobId: string,
    data: Pick<ReplicationJobData, "replication" | "document"> & Authority,
  ): Promise<boolean> {
    const names = awaitedNames(data);
    const found = await Promise.all(names.map((name) => this.#find(tx, name, data)));
    const left = names.filter((_, index) => found[index]?.isReached !== true);
    const seesAll = mayNameSecrets(data);
    for (const name of left) {
      const waiter = { owner: ownerKey(data), seesAll, sinceCount: await this.#count(tx, name) };
      tx.set(this.#keys.chainWait.key({ jobId, name }), packTuple([FORMAT]));
      tx.set(this.#keys.chainWaiter.key({ name, jobId }), encodeWaiter(waiter));
    }
    return left.length > 0;
  }

  /** Removes the job's rows, so that it no longer waits. */
  async end(tx: Transaction, jobId: string, data: MaybeWaiting): Promise<void> {
    if (data.replication?.after === undefined) return;
    for (const name of await this.#namesFor(tx, jobId)) {
      this.#remove(tx, name, jobId);
      await this.#forget(tx, name);
    }
  }

  async isWaiting(tx: ReadTransaction, jobId: string): Promise<boolean> {
    return (await this.#namesFor(tx, jobId)).length > 0;
  }

  /** Returns the due time (s since the epoch) of a job that an operator schedules now. */
  async dueSec(tx: ReadTransaction, jobId: string, data: MaybeWaiting): Promise<number> {
    const isWaiting = data.replication?.after !== undefined && (await this.isWaiting(tx, jobId));
    return isWaiting ? AWAITING_SEC : currentSec(this.#parts.runtime.clock);
  }

  /**
   * Queues the release of the jobs that wait for this job, if it has completed or caught up. Must
   * be called in the transaction that stores its new state.
   */
  async noteReached(
    tx: Transaction,
    jobId: string,
    data: ReachedJob,
    backlog: Backlog | undefined,
  ): Promise<void> {
    if ((data.document === undefined && data.rule === undefined) || !isReached(data, backlog)) {
      return;
    }
    const name = jobName(jobId, data);
    if (!(await this.#hasWaiters(tx, name))) return;
    const count = (await this.#count(tx, name)) + 1;
    tx.set(this.#keys.chainReached.key({ name }), packTuple([FORMAT, count]));
    const job = { type: CHAIN_TYPE, id: name };
    await this.#parts.jobs.add(
      tx,
      job,
      { owner: ownerKey(data) },
      { scheduledAtSec: currentSec(this.#parts.runtime.clock) },
    );
  }

  /**
   * Releases a page of the jobs that wait for `name`, a job of `owner`. Returns the position after
   * which the next page starts; undefined after the last.
   */
  async release(
    tx: Transaction,
    name: string,
    owner: string | null,
    { after, limit }: { readonly after: string | undefined; readonly limit: number },
  ): Promise<string | undefined> {
    const { chainWaiter } = this.#keys;
    const all = chainWaiter.range({ name });
    const begin =
      after === undefined ? all.begin : keyAfter(chainWaiter.key({ name, jobId: after }));
    const { entries } = await tx.getRangePage({ begin, end: all.end }, { limit });
    const count = await this.#count(tx, name);
    for (const { key, value } of entries) {
      const waiter = decodeWaiter(value);
      if (waiter.sinceCount >= count || !maySee(waiter, owner)) continue;
      const { jobId } = chainWaiter.unpack(key);
      this.#remove(tx, name, jobId);
      await this.#schedule(tx, jobId);
    }
    const last = entries.at(-1);
    if (entries.length === limit && last !== undefined) return chainWaiter.unpack(last.key).jobId;
    await this.#forget(tx, name);
    return undefined;
  }

  /** Schedules a job that no longer waits for any other. A paused job stays paused. */
  async #schedule(tx: Transaction, jobId: string): Promise<void> {
    const { jobs } = this.#parts;
    if (await this.isWaiting(tx, jobId)) return;
    const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id: jobId });
    if (job === undefined || !isAwaiting(job)) return;
    const schedule = isReadable(job) ? scheduleOf(decodeJob(job).replication) : undefined;
    await jobs.resubmit(tx, job, firstRunSec(schedule, currentSec(this.#parts.runtime.clock)));
  }

  /**
   * Returns why each of these jobs waits. Reads nothing unless at least one waits. Uses snapshot
   * reads.
   */
  async reasons(
    tx: ReadTransaction,
    jobs: readonly Job[],
  ): Promise<ReadonlyMap<string, AwaitReason>> {
    const graph = new Map<string, readonly Awaited[]>();
    for (let level = jobs.filter(isAwaiting); level.length > 0 && graph.size < EXPLAINED_MAX; ) {
      const found = await Promise.all(level.map((job) => this.#awaitedBy(tx.snapshot, job)));
      for (const [index, { id }] of level.entries()) graph.set(id, found[index]?.awaited ?? []);
      const next = new Map(found.flatMap(({ waiting }) => waiting.map((job) => [job.id, job])));
      level = [...next.values()].filter(({ id }) => !graph.has(id));
    }
    return reasonsOf(graph satisfies WaitGraph);
  }

  async #awaitedBy(
    tx: ReadTransaction,
    job: Job,
  ): Promise<{ readonly awaited: readonly Awaited[]; readonly waiting: readonly Job[] }> {
    if (!isReadable(job)) return { awaited: [], waiting: [] };
    const data = decodeJob(job);
    const names = await this.#namesFor(tx, job.id);
    const found = await Promise.all(names.map((name) => this.#find(tx, name, data)));
    const awaited = names.map((name, index): Awaited => {
      const other = found[index];
      if (other === undefined) return { name, state: "missing", jobId: undefined };
      const state = other.data.state === "failed" ? "failed" : "waiting";
      return { name, state, jobId: other.job.id };
    });
    const waiting = found.flatMap((other) =>
      other !== undefined && isAwaiting(other.job) ? other.job : [],
    );
    return { awaited, waiting };
  }

  /** Finds the job of this name, if `asker` has rights to it. */
  async #find(tx: ReadTransaction, name: string, asker: Authority) {
    const { jobs } = this.#parts;
    const ids = await Promise.all(namePlaces(name).map((place) => this.#idIn(tx, place)));
    for (const id of ids) {
      const job =
        id === undefined ? undefined : await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
      if (job === undefined || !isReadable(job)) continue;
      const data = decodeJob(job);
      if (!mayNameSecrets(asker) && ownerKey(asker) !== ownerKey(data)) continue;
      const row = await tx.get(this.#keys.backlog.key({ jobId: job.id }));
      return { job, data, isReached: isReached(data, row && decodeBacklog(row)) };
    }
    return undefined;
  }

  async #idIn(
    tx: ReadTransaction,
    { kind, name, rest }: ReturnType<typeof namePlaces>[number],
  ): Promise<string | undefined> {
    const { findDatabase, findRule } = this.#parts;
    const uuid = (await (kind === "database" ? findDatabase : findRule)(tx, name))?.uuid;
    return uuid === undefined ? undefined : persistentJobId(uuid, rest);
  }

  async #namesFor(tx: ReadTransaction, jobId: string): Promise<readonly string[]> {
    const { entries } = await tx.getRangePage(this.#keys.chainWait.range({ jobId }));
    return entries.map(({ key }) => this.#keys.chainWait.unpack(key).name);
  }

  async #hasWaiters(tx: ReadTransaction, name: string): Promise<boolean> {
    const range = this.#keys.chainWaiter.range({ name });
    return (await tx.getRangePage(range, { limit: 1 })).entries.length > 0;
  }

  /** Returns how often the job has completed or caught up while other jobs waited for it. */
  async #count(tx: ReadTransaction, name: string): Promise<number> {
    const value = await tx.get(this.#keys.chainReached.key({ name }));
    return value === undefined ? 0 : Number(unpackTuple(value)[1]);
  }

  /** Removes the count if no job waits for `name` any more. */
  async #forget(tx: Transaction, name: string): Promise<void> {
    if (!(await this.#hasWaiters(tx, name))) tx.clear(this.#keys.chainReached.key({ name }));
  }

  #remove(tx: Transaction, name: string, jobId: string): void {
    tx.clear(this.#keys.chainWait.key({ jobId, name }));
    tx.clear(this.#keys.chainWaiter.key({ name, jobId }));
  }
}

/** Returns the names of all jobs for which the job had to wait. */
export function awaitedNames({
  replication,
  document,
}: Pick<ReplicationJobData, "replication" | "document">): readonly string[] {
  return fullNames(replication?.after ?? [], document?.database);
}

interface Waiter {
  readonly owner: string | null;
  /**
   * Whether the owner was a server administrator when the job was written, and can see all jobs.
   */
  readonly seesAll: boolean;
  /** How often the other job had completed or caught up when this job began to wait. */
  readonly sinceCount: number;
}

function maySee({ owner, seesAll }: Waiter, otherOwner: string | null): boolean {
  return seesAll || owner === otherOwner;
}

/** Format version, stored as the first element. */
const FORMAT = 1;

function encodeWaiter({ owner, seesAll, sinceCount }: Waiter): Uint8Array {
  return packTuple([FORMAT, owner, seesAll ? 1 : 0, sinceCount]);
}

function decodeWaiter(value: Uint8Array): Waiter {
  const [format, owner, seesAll, sinceCount] = unpackTuple(value);
  assert(format === FORMAT, "A waiting job must have a supported format version");
  const name = typeof owner === "string" ? owner : null;
  return { owner: name, seesAll: seesAll === 1, sinceCount: Number(sinceCount) };
}
