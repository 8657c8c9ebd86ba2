/**
 * Deletes expired data, and incrementally compares the job index with the jobs. Every node runs
 * this service, including nodes that run no jobs. The nodes take turns.
 */
import { assert, type Runtime } from "../base/index.ts";
import { type KeyValueStore, packTuple, type Subspace, unpackTuple } from "../kv/index.ts";
import type { AbandonedReplications } from "./job-changes/abandoned-replications.ts";
import { type RemoveJobParts, removeJob } from "./job-changes/remove-job.ts";
import type { EndedJob, JobIndex } from "./job-lists/job-index.ts";
import { REPLICATION_JOB_TYPE } from "./jobs/job-data.ts";
import { stepFor } from "./jobs/job-input.ts";
import type { StoredLoginGates } from "./logins/stored-login-gates.ts";
import type { Replicator } from "./replicator.ts";
import type { ReplicatorConfig } from "./replicator-config.ts";
import { replicatorKeys } from "./replicator-keys.ts";

/** Shortest and longest interval between two clean-ups, cluster-wide. */
const INTERVAL_MS = { min: 1000, max: 10 * 60_000 };
/** Interval between clean-ups, as a fraction of the age limit of ended transient jobs. */
const LATE_RATIO = 1 / 10;
/** Polling interval. A reduced age limit takes effect within this time. */
const TICK_MS = 1000;
/**
 * Delay of a node's first clean-up after startup, as a fraction of the interval between clean-ups.
 */
const FIRST_LOOK_RATIO = 1 / 10;
/** Number of pages of jobs compared with the index per clean-up. */
const COMPARED_PAGES_MAX = 10;
/** Number of fair-share groups checked per clean-up. Idle groups are removed. */
const SWEPT_GROUPS_MAX = 200;

/** Age up to which routine events are kept, so that followers can resume. */
const ROUTINE_EVENT_AGE_MS_MAX = 15 * 60_000;

export interface CleanUpParts extends RemoveJobParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly subspace: Subspace;
  readonly index: JobIndex;
  readonly abandoned: AbandonedReplications;
  readonly loginGates: Pick<StoredLoginGates, "forgetIdle">;
  readonly replicator: Pick<Replicator, "nodes" | "figures" | "bulk">;
  /** Age limits. Read at each use, so that changed settings apply. */
  readonly config: Pick<
    ReplicatorConfig,
    "transientJobAgeSecMax" | "eventAgeSecMax" | "eventBytesMax" | "abandonedSecMax"
  >;
}

/** Progress of incremental tasks. */
interface Progress {
  /** Id of the last job compared with the index; "" before the first. */
  readonly comparedId: string;
  /** Last group checked; undefined before the first. */
  readonly sweptGroup: string | undefined;
}

interface Turn extends Progress {
  readonly beganMs: number;
}

export class CleanUp {
  readonly name = "replicator.clean-up";
  readonly #parts: CleanUpParts;
  readonly #key: Uint8Array;

  constructor(parts: CleanUpParts) {
    this.#parts = parts;
    this.#key = replicatorKeys(parts.subspace).cleanUp.key({});
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts.runtime;
    let lookedAtMs = clock.nowMs();
    let untilMs = lookedAtMs + this.#intervalMs * FIRST_LOOK_RATIO;
    while (!signal.aborted) {
      await clock.sleep(TICK_MS, signal).catch(() => {});
      if (signal.aborted) return;
      const nowMs = clock.nowMs();
      // After the clock was set back or the interval was reduced, `untilMs` no longer counts.
      const isEarly =
        nowMs < untilMs && nowMs >= lookedAtMs && nowMs - lookedAtMs < this.#intervalMs;
      if (isEarly) continue;
      lookedAtMs = nowMs;
      const { beganMs, isOurs } = await this.#takeTurn(nowMs);
      if (isOurs) await this.once();
      untilMs = beganMs + this.#intervalMs;
    }
  }

  /** Performs one clean-up. */
  async once(): Promise<void> {
    const { kv, index, replicator, abandoned, config } = this.#parts;
    await index.foldAll(kv);
    await this.#forgetEvents();
    await this.removeOldTransients();
    await replicator.nodes.forgetOld();
    await replicator.figures.forgetZeros();
    await kv.transact((tx) => this.#parts.halted.forgetLost(tx), { whenUnknown: "retry" });
    await abandoned.prune(config.abandonedSecMax);
    await this.compareIndex();
    await this.#forgetGroups();
    while (await replicator.bulk.forget());
    await this.#parts.loginGates.forgetIdle();
  }

  /** Removes transient jobs that ended longer ago than `transient_job_max_age_sec`. */
  async removeOldTransients(): Promise<void> {
    const { kv, index, config, runtime } = this.#parts;
    const ageMs = config.transientJobAgeSecMax * 1000;
    const endMs = Math.floor(runtime.clock.nowMs() - ageMs) + 1;
    let after: EndedJob | undefined;
    do {
      const page: readonly EndedJob[] = await index.endedTransients(kv, endMs, after);
      for (const { jobId } of page) await this.#removeOld(jobId);
      after = page.at(-1);
    } while (after !== undefined);
  }

  /**
   * Compares the next pages of jobs with the job index, and repairs the index. Nodes of older
   * versions change jobs without updating the index.
   */
  async compareIndex(): Promise<void> {
    const { kv, index, runtime } = this.#parts;
    let { comparedId } = await this.#progress();
    let repairedCount = 0;
    for (let count = 0; count < COMPARED_PAGES_MAX; count++) {
      const page = await index.repair(kv, comparedId);
      repairedCount += page.repairedCount;
      comparedId = page.lastId ?? "";
      if (page.lastId === undefined) break;
    }
    await this.#note({ comparedId });
    if (repairedCount > 0) runtime.trace.event("replication.index-repaired", { repairedCount });
  }

  /**
   * Claims the next clean-up. Returns whether this node performs it, and when the previous clean-up
   * began.
   */
  #takeTurn(nowMs: number): Promise<{ readonly beganMs: number; readonly isOurs: boolean }> {
    return this.#parts.kv.transact(
      async (tx) => {
        const stored = await tx.get(this.#key);
        const last = decodeTurn(stored);
        // A new store needs no clean-up yet: only the time is recorded.
        const isOurs = stored !== undefined && this.#isOver(last, nowMs);
        const beganMs = isOurs || stored === undefined ? nowMs : last.beganMs;
        if (beganMs !== last.beganMs) tx.set(this.#key, encodeTurn({ ...last, beganMs }));
        return { beganMs, isOurs };
      },
      { whenUnknown: "retry" },
    );
  }

  /**
   * Whether the interval since the last clean-up has passed. Uses the absolute difference, because
   * another node's clock might be ahead, or this node's clock might have been set back.
   */
  #isOver({ beganMs }: Turn, nowMs: number): boolean {
    return Math.abs(nowMs - beganMs) >= this.#intervalMs;
  }

  get #intervalMs(): number {
    const wantedMs = this.#parts.config.transientJobAgeSecMax * 1000 * LATE_RATIO;
    return Math.min(Math.max(wantedMs, INTERVAL_MS.min), INTERVAL_MS.max);
  }

  async #progress(): Promise<Progress> {
    return decodeTurn(await this.#parts.kv.read((tx) => tx.get(this.#key)));
  }

  async #note(progress: Partial<Progress>): Promise<void> {
    await this.#parts.kv.transact(
      async (tx) => {
        const turn = decodeTurn(await tx.get(this.#key));
        tx.set(this.#key, encodeTurn({ ...turn, ...progress }));
      },
      { whenUnknown: "retry" },
    );
  }

  async #forgetEvents(): Promise<void> {
    const { kv, events, runtime, config } = this.#parts;
    const { eventAgeSecMax, eventBytesMax } = config;
    const nowMs = runtime.clock.nowMs();
    const oldMs = nowMs - eventAgeSecMax * 1000;
    const routineMs = Math.max(oldMs, nowMs - ROUTINE_EVENT_AGE_MS_MAX);
    const once = { whenUnknown: "retry" } as const;
    while (await kv.transact((tx) => events.thin(tx, routineMs), once));
    while (await kv.transact((tx) => events.forget(tx, oldMs, eventBytesMax), once));
  }

  async #removeOld(jobId: string): Promise<void> {
    const { kv, jobs, controls } = this.#parts;
    await kv.transact(async (tx) => {
      const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id: jobId });
      if (job === undefined || (await stepFor(tx, controls, job, "old")) !== "remove") return;
      await removeJob(this.#parts, tx, job);
    });
  }

  async #forgetGroups(): Promise<void> {
    const { kv, jobs, runtime } = this.#parts;
    const page = { after: (await this.#progress()).sweptGroup, limit: SWEPT_GROUPS_MAX };
    const { last, forgottenCount } = await kv.transact(
      (tx) => jobs.idleGroups.forget(tx, REPLICATION_JOB_TYPE, page),
      { whenUnknown: "retry" },
    );
    await this.#note({ sweptGroup: last });
    if (forgottenCount > 0) runtime.trace.event("jobs.groups-forgotten", { forgottenCount });
  }
}

/** State of a store that has never been cleaned up. */
const NO_TURN: Turn = { beganMs: 0, comparedId: "", sweptGroup: undefined };

/** Format version, stored as the first element. */
const FORMAT = 1;

function encodeTurn({ beganMs, comparedId, sweptGroup }: Turn): Uint8Array {
  return packTuple([FORMAT, Math.floor(beganMs), comparedId, sweptGroup ?? null]);
}

function decodeTurn(value: Uint8Array | undefined): Turn {
  if (value === undefined) return NO_TURN;
  const [format, beganMs, comparedId, sweptGroup] = unpackTuple(value);
  assert(format === FORMAT, "A clean-up record must have a supported format version");
  return {
    beganMs: Number(beganMs),
    comparedId: String(comparedId),
    sweptGroup: sweptGroup === null ? undefined : String(sweptGroup),
  };
}
