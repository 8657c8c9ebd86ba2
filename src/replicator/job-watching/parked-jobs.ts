/**
 * Parked jobs: all changes have arrived at the target, and the source is idle. A parked job uses no
 * slot, connection or timer. In the queue, it is a job due much later. The watcher of its source
 * finds it by an additional row (`source-watcher.ts`).
 */
import { assert } from "../../base/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import {
  CLEARED_KEYS_MAX,
  keyAfter,
  packTuple,
  type ReadTransaction,
  type Subspace,
  type Transaction,
  unpackTuple,
  type Watch,
} from "../../kv/index.ts";
import { CHAIN_TYPE } from "../chains/chains.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";
import { REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { decodeSources, encodeSources } from "../jobs/parked-record.ts";
import { LOCAL_RULE_TYPE, RULE_TYPE } from "../jobs/rule-jobs.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import type { WatchedPlace } from "../request/watched-place.ts";

/** Queue type of watchers; the id is the source. */
export const SOURCE_WATCH_TYPE = "source-watch";

/** Queue type of questions to other servers (`questions/`); ids are random. */
export const QUESTION_TYPE = "question";

/** Queue type of commands for many jobs (`commands/`); ids are those of the commands. */
export const COMMAND_TYPE = "command";

/** All queue types that a node runs. */
export const JOB_TYPES = [
  REPLICATION_JOB_TYPE,
  SOURCE_WATCH_TYPE,
  RULE_TYPE,
  LOCAL_RULE_TYPE,
  QUESTION_TYPE,
  COMMAND_TYPE,
  CHAIN_TYPE,
] as const;

/** A source of a parked job, and its update sequence when the job was parked. */
export interface ParkedPlace extends WatchedPlace {
  readonly updateSequence: SourceSequence;
}

/** A parked job, and the update sequence of the source when the job was parked. */
export interface ParkedJob {
  readonly database: string;
  readonly jobId: string;
  readonly updateSequence: SourceSequence;
}

/** Format version, stored as the first element. */
const FORMAT = 1;

export class ParkedJobs {
  readonly #keys: ReplicatorKeys;
  readonly #jobs: Jobs;

  constructor(subspace: Subspace, jobs: Jobs) {
    this.#keys = replicatorKeys(subspace);
    this.#jobs = jobs;
  }

  /**
   * Parks a job. Must be called in the transaction that ends the run. All changes up to the update
   * sequence of each place have arrived; the watchers look for later changes.
   */
  async add(tx: Transaction, jobId: string, places: readonly ParkedPlace[]): Promise<void> {
    await this.remove(tx, jobId);
    tx.set(this.#keys.parkedJob.key({ jobId }), encodeSources(places));
    for (const place of places) await this.#watch(tx, jobId, place);
  }

  async #watch(
    tx: Transaction,
    jobId: string,
    { source, database, labels, updateSequence }: ParkedPlace,
  ): Promise<void> {
    const sequence = packTuple([FORMAT, JSON.stringify(updateSequence)]);
    tx.set(this.#keys.watched.key({ source, database, jobId }), sequence);
    const newRow = this.#keys.newlyParked.newKey({ source }, tx.nextUserVersion());
    tx.setVersionstampedKey(newRow, packTuple([FORMAT, database, jobId]));
    tx.add(this.#keys.parkedChanged.key({ source }), 1n);
    const watcher = { type: SOURCE_WATCH_TYPE, id: source };
    const isWatched = (await this.#jobs.schedule(tx, watcher)) !== undefined;
    if (!isWatched) await this.#jobs.add(tx, watcher, {}, { labels });
  }

  /**
   * Removes the record of a parked job. Must be called when a job is scheduled, starts or is
   * removed. No effect if the job is not parked.
   */
  async remove(tx: Transaction, jobId: string): Promise<void> {
    const key = this.#keys.parkedJob.key({ jobId });
    const value = await tx.get(key);
    if (value === undefined) return;
    tx.clear(key);
    for (const place of decodeSources(value)) tx.clear(this.#keys.watched.key({ ...place, jobId }));
  }

  /** Returns which of these jobs are parked. */
  async among(tx: ReadTransaction, jobIds: readonly string[]): Promise<ReadonlySet<string>> {
    const rows = await tx.getMany(jobIds.map((jobId) => this.#keys.parkedJob.key({ jobId })));
    return new Set(jobIds.filter((_, index) => rows[index] !== undefined));
  }

  /** Returns the ids of parked jobs after `afterId` ("" for all) up to `lastId`. */
  async between(
    tx: ReadTransaction,
    afterId: string,
    lastId: string,
  ): Promise<ReadonlySet<string>> {
    const begin = keyAfter(this.#keys.parkedJob.key({ jobId: afterId }));
    const end = keyAfter(this.#keys.parkedJob.key({ jobId: lastId }));
    const ids = new Set<string>();
    for await (const { key } of tx.getRange({ begin, end }))
      ids.add(this.#keys.parkedJob.unpack(key).jobId);
    return ids;
  }

  /**
   * Returns parked jobs of a source, by database, starting after `after`; optionally of one
   * database only.
   */
  async page(
    tx: ReadTransaction,
    source: string,
    {
      database,
      after,
      limit,
    }: { readonly database?: string; readonly after?: ParkedJob; readonly limit: number },
  ): Promise<readonly ParkedJob[]> {
    const { watched } = this.#keys;
    const first = database === undefined ? { source } : { source, database };
    const { begin, end } = watched.range(first);
    const from = after === undefined ? begin : keyAfter(watched.key({ source, ...after }));
    const page = await tx.getRangePage({ begin: from, end }, { limit });
    return page.entries.map(({ key, value }) => {
      const { database: name, jobId } = watched.unpack(key);
      return { database: name, jobId, updateSequence: sequenceOf(value) };
    });
  }

  /** Returns newly parked jobs of a source, and deletes the rows that list them as new. */
  async takeNew(tx: Transaction, source: string, limit: number): Promise<readonly ParkedJob[]> {
    const page = await tx.getRangePage(this.#keys.newlyParked.range({ source }), { limit });
    const named = page.entries.map(({ key, value }) => {
      tx.clear(key);
      const [, database, jobId] = unpackTuple(value);
      return { database: String(database), jobId: String(jobId) };
    });
    const rows = await tx.getMany(
      named.map(({ database, jobId }) => this.#keys.watched.key({ source, database, jobId })),
    );
    return named.flatMap((job, index) => {
      const row = rows[index];
      return row === undefined ? [] : [{ ...job, updateSequence: sequenceOf(row) }];
    });
  }

  /**
   * Deletes a page of the rows of newly parked jobs. Called before the watcher compares all
   * databases of the source, which covers these jobs. Returns whether more rows remain.
   */
  async forgetNew(tx: Transaction, source: string): Promise<boolean> {
    const { begin, end } = this.#keys.newlyParked.range({ source });
    const limit = CLEARED_KEYS_MAX;
    const { entries } = await tx.snapshot.getRangePage({ begin, end }, { limit });
    const last = entries.at(-1);
    if (last !== undefined) tx.clearRange({ begin, end: keyAfter(last.key) });
    return entries.length === limit;
  }

  /** Records whether a source responds to its watcher. */
  noteSilent(tx: Transaction, source: string, isSilent: boolean): void {
    const key = this.#keys.silentSource.key({ source });
    if (isSilent) tx.set(key, packTuple([FORMAT]));
    else tx.clear(key);
  }

  /** Returns a watch that fires after the next commit that parks a job of the source. */
  watch(tx: Transaction, source: string): Watch {
    return tx.watch(this.#keys.parkedChanged.key({ source }));
  }
}

/** Decodes the update sequence in a row of `watched`. */
function sequenceOf(value: Uint8Array): SourceSequence {
  const [format, json] = unpackTuple(value);
  assert(format === FORMAT, "A parked job must have a supported format version");
  return JSON.parse(String(json));
}
