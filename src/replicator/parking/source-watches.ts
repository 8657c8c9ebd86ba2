/**
 * The watchers of sources that this node runs (`source-watcher.ts`). They are jobs of the queue, so each runs on one node of the
 * cluster, and on another one when that node dies. They run beside the scheduler's jobs, as the same worker, and take no slots.
 */
import {
  abortWith,
  type Clock,
  Notifier,
  type Runtime,
  runTogether,
  waitAtMost,
} from "../../base/index.ts";
import type { DatabaseRegistry } from "../../databases/index.ts";
import type { HeldJob, Jobs, Membership } from "../../jobs/index.ts";
import type { KeyValueStore, Watch } from "../../kv/index.ts";
import type { Endpoints } from "../endpoints/endpoints.ts";
import { describeFailure } from "../failures/failure.ts";
import type { JobControls } from "../jobs/job-controls.ts";
import { REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { decodeJob, isReadable } from "../jobs/job-data-record.ts";
import { type ParkedJobs, SOURCE_WATCH_TYPE } from "../jobs/parked-jobs.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import type { HttpAddress } from "../request/replication.ts";
import { LOCAL_SOURCE, serverOf, serverUrlOf } from "../request/watched-place.ts";
import { ParkedJobsWaking } from "./parked-jobs-waking.ts";
import { SourceWatcher } from "./source-watcher.ts";
import { SweepPace } from "./sweep-pace.ts";
import { WatchedHttpServer, type WatchedServer, WatchedStore } from "./watched-server.ts";

/** Watchers that are accepted in one transaction. There is no limit to all: a job whose source nobody watches would sleep on. */
const ACCEPTED_MAX = 100;
/** Signs of life in one activity timeout. */
const SIGNS_PER_TIMEOUT = 4;
/** How old an empty answer of the queue may be: wall clocks can be set. */
const EMPTY_MS_MAX = 60_000;
/** Before a source is watched again that could not be: so long at first, and twice as long each time. */
const PAUSE_SEC = { min: 1, max: 60 };

export interface SourceWatchesParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly controls: JobControls;
  readonly parked: ParkedJobs;
  readonly databases: DatabaseRegistry;
  readonly endpoints: Endpoints;
  /** Read at each use. */
  readonly config: Pick<ReplicatorConfig, "activityTimeoutSec">;
}

/**
 * Attempts, some two minutes of them, after which the jobs of a source that cannot be asked are woken: each then tries for itself, and
 * is listed as failing. They had seemed to run and to have caught up.
 */
const LOST_ATTEMPTS_MAX = 7;

/** How a watcher's run ended: no job is parked any more, it was to stop, or the source could not be asked. */
type Ending = "unwatched" | "stopped" | "lost";

export class SourceWatches {
  readonly #parts: SourceWatchesParts;
  readonly #clock: Clock;
  readonly #running = new Map<HeldJob, Promise<void>>();
  readonly #changed = new Notifier();
  readonly #pace: SweepPace;
  #stopping = new AbortController();

  constructor(parts: SourceWatchesParts) {
    this.#parts = parts;
    this.#clock = parts.runtime.clock;
    this.#pace = new SweepPace(this.#clock);
  }

  /** While it drains, other nodes watch. */
  setDraining(isDraining: boolean): void {
    if (isDraining) this.#stopping.abort(new Error("The node drains"));
    else if (this.#stopping.signal.aborted) this.#stopping = new AbortController();
    this.#changed.notify();
  }

  /** Runs watchers as this member of the workers, until the signal aborts or the member is expelled. */
  async run({ id, expelled }: Membership, signal: AbortSignal): Promise<void> {
    const over = AbortSignal.any([signal, expelled]);
    const stop = new AbortController();
    const unfollow = abortWith(over, stop);
    try {
      while (!over.aborted) {
        if (this.#stopping.signal.aborted) await this.#changed.notified(over).catch(() => {});
        else await this.#accept(id, stop.signal);
      }
    } finally {
      unfollow();
      stop.abort(new Error("The node stops"));
      await Promise.all(this.#running.values());
    }
  }

  async #accept(worker: string, signal: AbortSignal): Promise<void> {
    const { kv, jobs } = this.#parts;
    const dueBySec = Math.floor(this.#clock.nowMs() / 1000);
    const acceptance = await kv.transact((tx) =>
      jobs.accept(tx, SOURCE_WATCH_TYPE, { dueBySec, countMax: ACCEPTED_MAX, worker }),
    );
    if (acceptance.kind === "none-due") {
      await this.#wait(acceptance.enqueued, acceptance.firstDueSec, signal);
      return;
    }
    for (const [index, held] of acceptance.held.entries()) {
      const attempt = Number(acceptance.jobs[index]?.data.attempt ?? 0);
      const run = this.#run(held, attempt, signal).finally(() => {
        this.#running.delete(held);
        this.#changed.notify();
      });
      this.#running.set(held, run);
    }
  }

  async #wait(
    enqueued: Watch,
    firstDueSec = Number.POSITIVE_INFINITY,
    signal: AbortSignal,
  ): Promise<void> {
    const dueInMs = Math.max(0, firstDueSec * 1000 - this.#clock.nowMs());
    await waitAtMost(this.#clock, Math.min(EMPTY_MS_MAX, dueInMs), signal, (over) =>
      Promise.race([enqueued.fired(over), this.#changed.notified(over)]),
    );
    enqueued.cancel();
  }

  /** Never rejects: a job that this cannot give back is found by its silence. */
  async #run(held: HeldJob, attempt: number, signal: AbortSignal): Promise<void> {
    const { trace } = this.#parts.runtime;
    const stopped = AbortSignal.any([signal, this.#stopping.signal]);
    const fields = { source: serverUrlOf(held.id) };
    let ending: Ending = "unwatched";
    let hasWatched = false;
    try {
      await runTogether(stopped, [
        async (taskSignal) => {
          await this.#watch(held, taskSignal, () => {
            hasWatched = true;
          });
          throw new Unwatched();
        },
        (taskSignal) => this.#showLife(held, taskSignal),
      ]);
    } catch (error) {
      if (stopped.aborted) ending = "stopped";
      else if (!(error instanceof Unwatched)) {
        ending = "lost";
        const { error: name, reason } = describeFailure(error);
        trace.event("replication.source-lost", { ...fields, error: `${name}: ${reason}` });
      }
    }
    try {
      const attempts = hasWatched ? 1 : attempt + 1;
      if (ending === "lost" && attempts >= LOST_ATTEMPTS_MAX) await this.#waking(held.id).wakeAll();
      await this.#end(held, ending, attempts);
    } catch (error) {
      trace.event("replication.source-lost", { ...fields, error: String(error) });
    }
  }

  async #watch(held: HeldJob, signal: AbortSignal, onWatched: () => void): Promise<void> {
    const server = await this.#open(held.id);
    if (server === undefined) return;
    await new SourceWatcher(
      { ...this.#parts, pace: this.#pace },
      this.#waking(held.id),
      server,
    ).watch(signal, onWatched);
  }

  #waking(source: string): ParkedJobsWaking {
    return new ParkedJobsWaking(this.#parts, source);
  }

  /** Asks as one of the parked jobs does; undefined when there is none. */
  async #open(source: string): Promise<WatchedServer | undefined> {
    const { kv, jobs, parked, databases, endpoints } = this.#parts;
    if (source === LOCAL_SOURCE) return new WatchedStore(kv, databases);
    const address = await kv.read(async (tx): Promise<HttpAddress | undefined> => {
      for (const { jobId: id } of await parked.page(tx, source, { limit: 10 })) {
        const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
        const from =
          job !== undefined && isReadable(job) ? decodeJob(job).replication?.source : undefined;
        if (from?.kind === "http") return serverOf(from)?.server;
      }
      return undefined;
    });
    return address && new WatchedHttpServer(endpoints.openServer(address));
  }

  async #showLife(held: HeldJob, signal: AbortSignal): Promise<void> {
    const { kv, jobs, config } = this.#parts;
    while (!signal.aborted) {
      const pauseMs = (config.activityTimeoutSec * 1000) / SIGNS_PER_TIMEOUT;
      await this.#clock.sleep(pauseMs, signal).catch(() => {});
      if (!signal.aborted) await kv.transact((tx) => jobs.update(tx, held));
    }
  }

  async #end(held: HeldJob, ending: Ending, attempt: number): Promise<void> {
    const { kv, jobs, parked } = this.#parts;
    const nowSec = Math.floor(this.#clock.nowMs() / 1000);
    const pauseSec = Math.min(PAUSE_SEC.max, PAUSE_SEC.min * 2 ** Math.min(attempt - 1, 10));
    await kv.transact(async (tx) => {
      const isLeft = (await parked.page(tx, held.id, { limit: 1 })).length > 0;
      if (isLeft) await jobs.resubmit(tx, held, ending === "lost" ? nowSec + pauseSec : nowSec);
      await jobs.finish(tx, held, { attempt: ending === "lost" ? attempt : 0 });
      if (!isLeft) await jobs.remove(tx, held);
    });
  }
}

/** No job of the source is parked any more. */
class Unwatched extends Error {}
