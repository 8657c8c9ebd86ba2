/**
 * Gives jobs of silent processors back to the queue (RFC 007's activity monitor).
 *
 * Per type, once per timeout: whatever has shown no sign of life since the last look was silent for a whole timeout. The
 * former holder, should it still live, is halted at its next write. A job is found between one and two timeouts after its
 * last sign of life.
 */
import type { Runtime } from "../base/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import type { JobType } from "./job.ts";
import type { Jobs } from "./jobs.ts";

/** Jobs looked at in one transaction, longest silent first; the rest waits for the next look. */
const BATCH_ROWS_MAX = 1000;

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

  /** Looks once per timeout until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#runtime;
    let seen = new Map<string, string>();
    while (!signal.aborted) {
      seen = await this.#look(seen);
      const timeoutSec = await this.#kv.read((tx) => this.#jobs.getTypeTimeout(tx, this.#type));
      await clock.sleep((timeoutSec ?? 5) * 1000, signal).catch(() => {});
    }
  }

  /** Requeues each job whose last sign of life is the one already `seen`; returns what is seen now. */
  async #look(seen: ReadonlyMap<string, string>): Promise<Map<string, string>> {
    const running = await this.#kv.read((tx) =>
      this.#jobs.activities(tx, this.#type, BATCH_ROWS_MAX),
    );
    for (const { id, activity } of running) {
      if (seen.get(id) !== activity) continue;
      const expired = await this.#kv.transact((tx) =>
        this.#jobs.expire(tx, { type: this.#type, id }, activity),
      );
      if (expired) this.#runtime.trace.event("jobs.expired", { type: this.#type, id });
    }
    return new Map(running.map(({ id, activity }) => [id, activity]));
  }
}
