/** Wakes parked jobs of one source: makes them due immediately, subject to fair share. */
import { chunksOf, currentSec, forEachConcurrent, type Runtime } from "../../base/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, Transaction } from "../../kv/index.ts";
import type { ParkedJob, ParkedJobs } from "../job-watching/parked-jobs.ts";
import type { JobControls } from "../jobs/job-controls.ts";
import { REPLICATION_JOB_TYPE, woken } from "../jobs/job-data.ts";
import { decodeJob, encodeProgress, isReadable } from "../jobs/job-data-record.ts";
import { stepFor } from "../jobs/job-input.ts";
import { serverUrlOf } from "../request/watched-place.ts";

/** Number of rows read per transaction. */
const PAGE_ROWS_MAX = 100;
/** Maximum number of jobs woken per transaction. Each transaction waits for a disk sync. */
const WOKEN_MAX = 20;
/** Maximum number of concurrent transactions. */
const TRANSACTIONS_MAX = 4;
/** Number of databases looked up per transaction. */
const DATABASES_MAX = 50;

export interface ParkedJobsWakingParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly controls: JobControls;
  readonly parked: ParkedJobs;
}

export class ParkedJobsWaking {
  readonly source: string;
  readonly #parts: ParkedJobsWakingParts;

  constructor(parts: ParkedJobsWakingParts, source: string) {
    this.#parts = parts;
    this.source = source;
  }

  /** Wakes all parked jobs of the source. */
  async wakeAll(): Promise<void> {
    const { kv, parked } = this.#parts;
    const asked = { limit: PAGE_ROWS_MAX };
    let after: ParkedJob | undefined;
    do {
      const from = after === undefined ? {} : { after };
      const page = await kv.read((tx) =>
        parked.page(tx.snapshot, this.source, { ...asked, ...from }),
      );
      await this.wake(page.map(({ jobId }) => jobId));
      after = page.length === PAGE_ROWS_MAX ? page.at(-1) : undefined;
    } while (after !== undefined);
  }

  /** Wakes the parked jobs of some databases. */
  async wakeDatabases(databases: readonly string[]): Promise<void> {
    for (const some of chunksOf(databases, DATABASES_MAX)) await this.#wakeThose(some);
  }

  async #wakeThose(databases: readonly string[]): Promise<void> {
    const { kv, parked } = this.#parts;
    const limit = PAGE_ROWS_MAX;
    let left = databases.map((database) => ({
      database,
      after: undefined as ParkedJob | undefined,
    }));
    while (left.length > 0) {
      const asked = left;
      const pages = await kv.read((tx) =>
        Promise.all(
          asked.map(({ database, after }) =>
            parked.page(tx.snapshot, this.source, {
              database,
              limit,
              ...(after === undefined ? {} : { after }),
            }),
          ),
        ),
      );
      await this.wake(pages.flat().map(({ jobId }) => jobId));
      left = asked.flatMap(({ database }, index) => {
        const page = pages[index] ?? [];
        return page.length === limit ? [{ database, after: page.at(-1) }] : [];
      });
    }
  }

  /** Wakes the given jobs. Jobs that are no longer parked stay unchanged. */
  async wake(jobIds: readonly string[]): Promise<void> {
    const chunks = chunksOf(jobIds, WOKEN_MAX);
    await forEachConcurrent(chunks, TRANSACTIONS_MAX, (some) => this.#wakeSome(some));
  }

  async #wakeSome(jobIds: readonly string[]): Promise<void> {
    const { kv, runtime } = this.#parts;
    const jobCount = await kv.transact(
      async (tx) => {
        let count = 0;
        for (const jobId of jobIds) if (await this.#wakeJob(tx, jobId)) count++;
        return count;
      },
      { whenUnknown: "retry" },
    );
    if (jobCount > 0)
      runtime.trace.event("replication.woken", { source: serverUrlOf(this.source), jobCount });
  }

  /** Wakes a job. Returns whether it was parked. */
  async #wakeJob(tx: Transaction, jobId: string): Promise<boolean> {
    const { jobs, controls, parked, runtime } = this.#parts;
    const name = { type: REPLICATION_JOB_TYPE, id: jobId };
    const job = await jobs.get(tx, name);
    await parked.remove(tx, jobId);
    if (job === undefined || !isReadable(job)) return false;
    if ((await stepFor(tx, controls, job, "changed")) !== "again") return false;
    const nowSec = currentSec(runtime.clock);
    await jobs.resubmit(tx, name, nowSec, encodeProgress(woken(decodeJob(job))));
    return true;
  }
}
