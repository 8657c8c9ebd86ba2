/**
 * Returns the jobs of silent workers to the queue (RFC 007's activity monitor).
 *
 * Once per timeout, the monitor reads the activity order of each type. A job whose position is
 * unchanged since the last pass had no heartbeat for a whole timeout, and is requeued. If the job's
 * former worker is still alive, its next write for the job fails. A silent job is detected after
 * one to two timeouts plus jitter.
 *
 * After a change of the timeout, workers use the former one until their next heartbeat. The first
 * pass after a change, and the first pass after startup, therefore wait for the longer of the two
 * timeouts.
 */
import type { Runtime } from "../base/index.ts";
import type { KeyValueStore, Versionstamp } from "../kv/index.ts";
import type { JobType } from "./job.ts";
import type { Jobs } from "./jobs.ts";
import { requeueInBatches } from "./requeue.ts";

/**
 * Maximum random addition to the timeout, so that monitors on many nodes do not run simultaneously
 * (CouchDB's value). Also limited to half the timeout.
 */
const JITTER_MS_MAX = 10_000;
/** Interval at which a type without a timeout is checked again. */
const UNKNOWN_TYPE_SEC = 5;

export class ActivityMonitor {
  readonly name = "jobs.activity-monitor";
  readonly #runtime: Runtime;
  readonly #kv: KeyValueStore;
  readonly #jobs: Jobs;
  readonly #type: JobType;

  constructor(runtime: Runtime, kv: KeyValueStore, jobs: Jobs, type: JobType) {
    this.#runtime = runtime;
    this.#kv = kv;
    this.#jobs = jobs;
    this.#type = type;
  }

  /** Runs one pass per timeout until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#runtime;
    let seenUntil: Versionstamp | undefined;
    let seenTimeoutSec: number | undefined;
    while (!signal.aborted) {
      const { timeout, until } = await this.#kv.read(async (tx) => ({
        timeout: await this.#jobs.typeTimeout(tx, this.#type),
        until: await this.#jobs.lastActivity(tx, this.#type),
      }));
      const { timeoutSec = UNKNOWN_TYPE_SEC, formerTimeoutSec = UNKNOWN_TYPE_SEC } = timeout ?? {};
      const isKnown = timeoutSec === seenTimeoutSec;
      // Requeue jobs without activity since the last pass. Not after a change of the timeout: the
      // time since the last pass might be shorter than the new timeout.
      if (seenUntil !== undefined && isKnown) await this.#requeue(seenUntil);
      seenUntil = until;
      seenTimeoutSec = timeoutSec;
      const timeoutMs = (isKnown ? timeoutSec : Math.max(timeoutSec, formerTimeoutSec)) * 1000;
      const jitterMs = random.ratio() * Math.min(timeoutMs / 2, JITTER_MS_MAX);
      await clock.sleep(timeoutMs + jitterMs, signal).catch(() => {});
    }
  }

  async #requeue(until: Versionstamp): Promise<void> {
    const type = this.#type;
    const jobCount = await requeueInBatches(this.#kv, (tx, limit) =>
      this.#jobs.requeueSilent(tx, type, until, limit),
    );
    if (jobCount > 0) this.#runtime.trace.event("jobs.expired", { type, jobCount });
  }
}
