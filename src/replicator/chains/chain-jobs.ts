/** When a job has completed or caught up, releases the jobs that wait for it (`chains.ts`). */
import { currentSec } from "../../base/index.ts";
import {
  type HeartbeatParts,
  type HeldJob,
  isJobLost,
  type Job,
  type SlotlessJobType,
  whileAlive,
} from "../../jobs/index.ts";
import { CHAIN_TYPE, type Chains } from "./chains.ts";

/** Number of jobs released per transaction. */
const RELEASED_MAX = 50;

export interface ChainJobsParts extends HeartbeatParts {
  readonly chains: Pick<Chains, "release">;
}

export class ChainJobs implements SlotlessJobType {
  readonly type = CHAIN_TYPE;
  readonly #parts: ChainJobsParts;

  constructor(parts: ChainJobsParts) {
    this.#parts = parts;
  }

  async run(held: HeldJob, { data }: Pick<Job, "data">, signal: AbortSignal): Promise<void> {
    const owner = typeof data.owner === "string" ? data.owner : null;
    await whileAlive(this.#parts, held, signal, async (over) => {
      try {
        await this.#release(held, owner, over);
      } catch (error) {
        // Another node has the job, or will get it after the activity timeout.
        if (isJobLost(error) || over.aborted) return;
        const fields = { name: held.id, error: String(error) };
        this.#parts.runtime.trace.event("replication.release-failed", fields);
      }
    });
  }

  async #release(held: HeldJob, owner: string | null, signal: AbortSignal): Promise<void> {
    const { kv, jobs, chains, runtime } = this.#parts;
    let after: string | undefined;
    do {
      const from = after;
      after = await kv.transact(
        async (tx) => {
          await jobs.verify(tx, held);
          const isStopping = signal.aborted;
          const page = { after: from, limit: RELEASED_MAX };
          const last = isStopping ? undefined : await chains.release(tx, held.id, owner, page);
          if (last !== undefined) return last;
          const isAgain = isStopping || (await jobs.isResubmitted(tx, held));
          if (isStopping) await jobs.resubmit(tx, held, currentSec(runtime.clock));
          await jobs.finish(tx, held);
          if (!isAgain) await jobs.remove(tx, held);
          return undefined;
        },
        { whenUnknown: "check" },
      );
    } while (after !== undefined);
  }
}
