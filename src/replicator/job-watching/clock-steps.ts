/**
 * Corrects due times after a clock was set back. Due times are wall-clock times, so jobs would
 * otherwise wait longer by the size of the step.
 *
 * The update time and the due time of a job come from the same clock. If the update time is in the
 * future, that clock was ahead. The job's remaining wait is then counted from now. Each node checks
 * its own clock. It checks all waiting jobs at startup, after its clock was set back, and after
 * another process has exited, since that process's clock might have been ahead. Parked jobs due
 * within the audit interval are skipped: there are many, and none is urgent.
 *
 * docs/decisions/0190-due-times-are-wall-time.md
 */
import { chunksOf, currentSec, type Runtime } from "../../base/index.ts";
import type { Job, Jobs, WorkerId } from "../../jobs/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import { AWAITING_SEC, parkedSecMax } from "../jobs/decide.ts";
import { REPLICATION_JOB_TYPE, type ReplicationJobData } from "../jobs/job-data.ts";
import { decodeJob, encodeProgress, isReadable } from "../jobs/job-data-record.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { intoWindow, nextRunSec, scheduleOf } from "../request/schedule.ts";
import type { ParkedJobs } from "./parked-jobs.ts";

/**
 * Minimum step that counts as setting the clock back. Smaller differences and corrections are
 * normal.
 */
const STEP_MS_MIN = 10_000;
/** Interval for checking the clock. */
const LOOK_MS = 10_000;
/** Number of jobs whose due times are read per page. */
const PAGE_JOBS = 500;
/**
 * Number of jobs whose data is read per page. All jobs are checked, but few have to be rescheduled.
 */
const PAGE_DATA = 100;
/** Pause after each page. */
const PAGE_PAUSE_MS = 100;

export interface ClockStepsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly parked: ParkedJobs;
  /** Maximum parking time. Read at each use, so that changed settings apply. */
  readonly config: Pick<ReplicatorConfig, "auditIntervalSec">;
}

export class ClockSteps {
  readonly name = "replicator.clock-steps";
  readonly #parts: ClockStepsParts;

  constructor(parts: ClockStepsParts) {
    this.#parts = parts;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts.runtime;
    let offsetMs = Number.POSITIVE_INFINITY;
    let members: readonly WorkerId[] = [];
    while (!signal.aborted) {
      const nowOffsetMs = clock.nowMs() - clock.monotonicMs();
      const nowMembers = new Set(await this.#members());
      const isBack = nowOffsetMs < offsetMs - STEP_MS_MIN;
      if (isBack || members.some((id) => !nowMembers.has(id))) await this.#lookAtAll(signal);
      offsetMs = nowOffsetMs;
      members = [...nowMembers];
      await clock.sleep(LOOK_MS, signal).catch(() => {});
    }
  }

  async #members(): Promise<readonly WorkerId[]> {
    const { kv, jobs } = this.#parts;
    const members = await kv.read((tx) => jobs.workers.members(tx.snapshot, REPLICATION_JOB_TYPE));
    return members.map(({ id }) => id);
  }

  async #lookAtAll(signal: AbortSignal): Promise<void> {
    const { runtime, kv, jobs, parked } = this.#parts;
    let afterId: string | undefined;
    while (!signal.aborted) {
      const from = { ...(afterId === undefined ? {} : { afterId }), limit: PAGE_JOBS };
      const { page, ids } = await kv.read(async (tx) => {
        const read = await jobs.schedules(tx, REPLICATION_JOB_TYPE, from);
        const waiting = read.entries.filter((job) => this.#mayMove(job));
        const soon = waiting.filter((job) => this.#isAuditedSoon(job)).map(({ id }) => id);
        const left = await parked.among(tx, soon);
        return { page: read, ids: waiting.map(({ id }) => id).filter((id) => !left.has(id)) };
      });
      for (const chunk of chunksOf(ids, PAGE_DATA)) {
        await this.#look(chunk);
        await runtime.clock.sleep(PAGE_PAUSE_MS, signal).catch(() => {});
      }
      afterId = page.entries.at(-1)?.id;
      if (page.stoppedBy === "exhausted" || afterId === undefined) return;
      await runtime.clock.sleep(PAGE_PAUSE_MS, signal).catch(() => {});
    }
  }

  async #look(ids: readonly string[]): Promise<void> {
    const { kv, jobs } = this.#parts;
    const found = await kv.read((tx) => jobs.getMany(tx, REPLICATION_JOB_TYPE, ids));
    for (const job of found) {
      if (this.#newDueSec(job) !== undefined) await this.#move(job.id);
    }
  }

  /** Whether the job is due in the future. Only such a due time might need a correction. */
  #mayMove({ state, scheduledAtSec }: Pick<Job, "state" | "scheduledAtSec">): boolean {
    const nowSec = currentSec(this.#parts.runtime.clock);
    return state === "pending" && scheduledAtSec > nowSec && scheduledAtSec < AWAITING_SEC;
  }

  /**
   * Whether a parked job will soon be audited anyway: it is due within the maximum parking time
   * from now.
   */
  #isAuditedSoon({ scheduledAtSec }: Pick<Job, "scheduledAtSec">): boolean {
    const { runtime, config } = this.#parts;
    const nowSec = currentSec(runtime.clock);
    return scheduledAtSec <= nowSec + parkedSecMax(config.auditIntervalSec);
  }

  async #move(id: string): Promise<void> {
    const { runtime, kv, jobs } = this.#parts;
    const name = { type: REPLICATION_JOB_TYPE, id };
    await kv.transact(
      async (tx) => {
        const job = await jobs.get(tx, name);
        const dueSec = job && this.#newDueSec(job);
        if (job === undefined || dueSec === undefined) return;
        // Update `lastUpdatedMs`, so that the scan does not find the job again.
        const data = { ...decodeJob(job), lastUpdatedMs: runtime.clock.nowMs() };
        await jobs.resubmit(tx, name, dueSec, encodeProgress(data));
      },
      { whenUnknown: "retry" },
    );
  }

  #newDueSec(job: Job): number | undefined {
    if (job.state !== "pending" || !isReadable(job)) return undefined;
    return dueAfterStep(job.scheduledAtSec, decodeJob(job), this.#parts.runtime.clock.nowMs());
  }
}

/**
 * Returns the corrected due time of a job if the clock that set it was ahead; undefined if the due
 * time is correct.
 */
export function dueAfterStep(
  dueSec: number,
  {
    lastUpdatedMs,
    state,
    replication,
  }: Pick<ReplicationJobData, "lastUpdatedMs" | "state" | "replication">,
  nowMs: number,
): number | undefined {
  const nowSec = Math.floor(nowMs / 1000);
  if (lastUpdatedMs < nowMs + STEP_MS_MIN || dueSec <= nowSec || dueSec >= AWAITING_SEC) {
    return undefined;
  }
  const schedule = scheduleOf(replication);
  // The due time of a cron schedule is a calendar time, so compute it from the corrected clock.
  if (state === "pending" && schedule?.kind === "cron") return nextRunSec(schedule, nowSec, nowSec);
  const waitSec = Math.max(0, dueSec - Math.floor(lastUpdatedMs / 1000));
  return intoWindow(schedule, nowSec + waitSec);
}
