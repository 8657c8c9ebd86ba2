/**
 * Checks that runs verify their lock before each checkpoint. Checkpoints are stored in databases,
 * which do not know the locks of jobs. The check therefore records, for each replication on a node,
 * whether the lock was verified since the last checkpoint.
 */
import type { HeldJob, Jobs } from "../../../src/jobs/index.ts";
import type { ReadTransaction } from "../../../src/kv/index.ts";
import { type Endpoints, REPLICATION_JOB_TYPE } from "../../../src/replicator/index.ts";
import { decodeJob, isReadable } from "../../../src/replicator/jobs/job-data-record.ts";
import { baseIdOf } from "../../../src/replicator/request/replication-id.ts";

export class Fences {
  /** Replication ids by job. */
  readonly #baseIds = new Map<string, string>();
  /** Number of lock verifications per replication. */
  readonly #askedCounts = new Map<string, number>();
  readonly #onUnfenced: (baseId: string) => void;

  /** `onUnfenced` is called for each checkpoint without a preceding verification. */
  constructor(onUnfenced: (baseId: string) => void) {
    this.#onUnfenced = onUnfenced;
  }

  /** Changes the queue so that it reports verifications of locks. */
  watchJobs(jobs: Jobs): Jobs {
    const update = jobs.update.bind(jobs);
    const verify = jobs.verify.bind(jobs);
    const accept = jobs.accept.bind(jobs);
    return Object.assign(jobs, {
      accept: async (...args: Parameters<Jobs["accept"]>) => {
        const accepted = await accept(...args);
        if (accepted.kind === "none-due" || args[1] !== REPLICATION_JOB_TYPE) return accepted;
        // A short run writes nothing before it ends, so its replication is read when the job is
        // accepted. It is the replication of the job's previous run.
        for (const job of accepted.jobs) {
          if (!isReadable(job)) continue;
          const baseId = baseIdOf(decodeJob(job).replicationId);
          if (baseId !== undefined) this.#baseIds.set(job.id, baseId);
        }
        return accepted;
      },
      update: async (...args: Parameters<Jobs["update"]>) => {
        await update(...args);
        const [_, held, data = {}, request] = args;
        const baseId = baseIdOf(decodeJob({ data, request }).replicationId);
        if (baseId !== undefined) this.#baseIds.set(held.id, baseId);
      },
      verify: async (tx: ReadTransaction, held: HeldJob) => {
        await verify(tx, held);
        const baseId = this.#baseIds.get(held.id);
        if (baseId === undefined) return;
        this.#askedCounts.set(baseId, (this.#askedCounts.get(baseId) ?? 0) + 1);
      },
    });
  }

  /** Changes the endpoints so that they report checkpoints. */
  watchEndpoints(endpoints: Endpoints): void {
    const open = endpoints.open.bind(endpoints);
    endpoints.open = (...address) => {
      const endpoint = open(...address);
      const write = endpoint.writeLocal.bind(endpoint);
      // Number of verifications before the last checkpoint. The next checkpoint on this side
      // requires a new verification.
      let servedCount = 0;
      endpoint.writeLocal = (baseId, ...rest) => {
        const askedCount = this.#askedCounts.get(baseId) ?? 0;
        // Local documents other than checkpoints are ignored.
        const isCheckpoint = [...this.#baseIds.values()].includes(baseId);
        if (isCheckpoint && askedCount <= servedCount) this.#onUnfenced(baseId);
        servedCount = askedCount;
        return write(baseId, ...rest);
      };
      return endpoint;
    };
  }
}
