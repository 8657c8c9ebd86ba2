/** Sabotaged queues and stores. Each of them breaks one rule, and has to be detected. */
import type { Runtime } from "../../../src/base/index.ts";
import { type HeldJob, type JobData, type JobName, Jobs } from "../../../src/jobs/index.ts";
import { type JobKeys, jobKeys } from "../../../src/jobs/job-keys.ts";
import { decodeFacts, encodeWaiting } from "../../../src/jobs/job-record.ts";
import type { Subspace, Transaction, Versionstamp } from "../../../src/kv/index.ts";
import { withRecords } from "./older-jobs.ts";

/** Accepts a write of a job's former worker while another worker holds the job. */
export class CarelessJobs extends Jobs {
  readonly #keys: JobKeys;

  constructor(runtime: Runtime, subspace: Subspace) {
    super(runtime, subspace);
    this.#keys = jobKeys(subspace);
  }

  override async update(tx: Transaction, held: HeldJob, data?: JobData): Promise<void> {
    await super.update(tx, await this.#asItsHolder(tx, held), data);
  }

  override async finish(tx: Transaction, held: HeldJob, data?: JobData): Promise<void> {
    await super.finish(tx, await this.#asItsHolder(tx, held), data);
  }

  async #asItsHolder(tx: Transaction, held: HeldJob): Promise<HeldJob> {
    const value = await tx.get(this.#keys.job.key(held));
    const facts = value && decodeFacts(value);
    return facts?.state === "running" ? { ...held, lock: facts.lock } : held;
  }
}

/** Takes jobs from live workers that still send heartbeats. */
export class ImpatientJobs extends Jobs {
  override async requeueSilent(
    tx: Transaction,
    type: string,
    until: Versionstamp,
    limit: number,
  ): ReturnType<Jobs["requeueSilent"]> {
    return super.requeueSilent(tx, type, (await this.lastActivity(tx, type)) ?? until, limit);
  }
}

/** Does not renew leases, but reports success. */
export class SilentJobs extends Jobs {
  constructor(runtime: Runtime, subspace: Subspace) {
    super(runtime, subspace);
    this.workers.renew = async () => true;
  }
}

/** Lets every worker accept jobs that require the labels x and y. */
export class AnywhereJobs extends Jobs {
  constructor(runtime: Runtime, subspace: Subspace) {
    super(runtime, subspace);
    const { workers } = this;
    const verifyMember = workers.verifyMember.bind(workers);
    workers.verifyMember = async (...args) => {
      return { ...(await verifyMember(...args)), labels: ["x", "y"] };
    };
  }
}

/** Drops the data that is set for the next run of a running job. */
export class ForgetfulJobs extends Jobs {
  override async resubmit(tx: Transaction, job: JobName, scheduledAtSec: number): Promise<boolean> {
    return super.resubmit(tx, job, scheduledAtSec);
  }
}

/** Writes records of waiting jobs in the format without groups, even if a job has a group. */
export class LossyJobs extends Jobs {
  readonly #keys: JobKeys;

  constructor(runtime: Runtime, subspace: Subspace) {
    super(runtime, subspace);
    this.#keys = jobKeys(subspace);
  }

  override async finish(tx: Transaction, held: HeldJob, data?: JobData): Promise<void> {
    const lossy = withRecords(tx, this.#keys, held.type, (value) => {
      const facts = decodeFacts(value);
      if (facts.state === "running") return value;
      return encodeWaiting(facts.state, { ...facts, group: undefined });
    });
    await super.finish(lossy, held, data);
  }
}
