/** Source watchers run by this node (`source-watcher.ts`), outside its slots. */
import { backoff, type Clock, currentSec, runTogether } from "../../base/index.ts";
import type { DatabaseRegistry } from "../../databases/index.ts";
import {
  type HeartbeatParts,
  type HeldJob,
  type Job,
  type SlotlessJobType,
  showLife,
} from "../../jobs/index.ts";
import type { Endpoints } from "../endpoints/endpoints.ts";
import { describeFailure } from "../failures/failure.ts";
import { type ParkedJobs, SOURCE_WATCH_TYPE } from "../job-watching/parked-jobs.ts";
import type { JobControls } from "../jobs/job-controls.ts";
import { REPLICATION_JOB_TYPE } from "../jobs/job-data.ts";
import { decodeJob, isReadable } from "../jobs/job-data-record.ts";
import { directionsOf } from "../request/pair.ts";
import type { HttpAddress, Replication } from "../request/replication.ts";
import { LOCAL_SOURCE, serverOf, serverUrlOf, watchedPlace } from "../request/watched-place.ts";
import { ParkedJobsWaking } from "./parked-jobs-waking.ts";
import { SourceWatcher } from "./source-watcher.ts";
import type { SweepPace } from "./sweep-pace.ts";
import { type WatchedServer, WatchedStore } from "./watched-server.ts";

/** Pause before an unreachable source is retried; doubled each time. */
const PAUSE_SEC = { min: 1, max: 60 };

export interface SourceWatchesParts extends HeartbeatParts {
  readonly controls: JobControls;
  readonly parked: ParkedJobs;
  readonly databases: DatabaseRegistry;
  readonly endpoints: Endpoints;
  /** Rate limit of requests about many databases, shared by watchers and rules of this node. */
  readonly pace: SweepPace;
}

/**
 * Number of attempts (about two minutes) after which the jobs of an unreachable source are woken.
 * Each job then contacts the source itself, and appears as failing rather than as caught up.
 */
const LOST_ATTEMPTS_MAX = 7;

/**
 * How a watcher ended: no job was parked any more, it was stopped, or the source was unreachable.
 */
type Ending = "unwatched" | "stopped" | "lost";

export class SourceWatches implements SlotlessJobType {
  readonly type = SOURCE_WATCH_TYPE;
  readonly #parts: SourceWatchesParts;
  readonly #clock: Clock;

  constructor(parts: SourceWatchesParts) {
    this.#parts = parts;
    this.#clock = parts.runtime.clock;
  }

  async run(held: HeldJob, { data }: Pick<Job, "data">, stopped: AbortSignal): Promise<void> {
    const { trace } = this.#parts.runtime;
    const fields = { source: serverUrlOf(held.id) };
    let ending: Ending = "unwatched";
    let hasWatched = false;
    const silence = new Silence(this.#parts, held.id);
    try {
      await runTogether(stopped, [
        async (taskSignal) => {
          await this.#watch(held, taskSignal, silence, () => {
            hasWatched = true;
            silence.note(false);
          });
          throw new Unwatched();
        },
        (taskSignal) => showLife(this.#parts, held, taskSignal),
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
      await silence.noted;
      const attempts = hasWatched ? 1 : Number(data.attempt ?? 0) + 1;
      if (ending === "lost" && attempts >= LOST_ATTEMPTS_MAX) await this.#waking(held.id).wakeAll();
      await this.#end(held, ending, attempts);
    } catch (error) {
      trace.event("replication.source-lost", { ...fields, error: String(error) });
    }
  }

  async #watch(
    held: HeldJob,
    signal: AbortSignal,
    silence: Silence,
    onWatched: () => void,
  ): Promise<void> {
    const server = await this.#open(held.id, silence);
    if (server === undefined) return;
    const watcher = new SourceWatcher(this.#parts, this.#waking(held.id), server);
    await watcher.watch(signal, onWatched);
  }

  #waking(source: string): ParkedJobsWaking {
    return new ParkedJobsWaking(this.#parts, source);
  }

  /**
   * Opens the source with the address and owner of a parked job. Returns undefined if no job is
   * parked.
   */
  async #open(source: string, silence: Silence): Promise<WatchedServer | undefined> {
    const { kv, jobs, parked, databases, endpoints } = this.#parts;
    if (source === LOCAL_SOURCE) return new WatchedStore(kv, databases);
    const found = await kv.read(async (tx) => {
      for (const { jobId: id } of await parked.page(tx, source, { limit: 10 })) {
        const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id });
        if (job === undefined || !isReadable(job)) continue;
        const owner = decodeJob(job);
        const server = owner.replication && this.#serverOf(owner.replication, source);
        if (server !== undefined) return { server, owner };
      }
      return undefined;
    });
    return found && endpoints.openServer(found.server, found.owner, () => silence.note(true));
  }

  /** Returns the address of the server `source`, if the replication reads from it. */
  #serverOf(replication: Replication, source: string): HttpAddress | undefined {
    const { digests } = this.#parts.runtime;
    const from = directionsOf(replication).find(
      (direction) => watchedPlace(digests, direction)?.source === source,
    )?.source;
    return from?.kind === "http" ? serverOf(from)?.server : undefined;
  }

  async #end(held: HeldJob, ending: Ending, attempt: number): Promise<void> {
    const { kv, jobs, parked } = this.#parts;
    const nowSec = currentSec(this.#clock);
    const pauseSec = backoff(PAUSE_SEC, attempt);
    await kv.transact(async (tx) => {
      const isLeft = (await parked.page(tx, held.id, { limit: 1 })).length > 0;
      if (ending !== "stopped") parked.noteSilent(tx, held.id, isLeft && ending === "lost");
      if (isLeft) await jobs.resubmit(tx, held, ending === "lost" ? nowSec + pauseSec : nowSec);
      await jobs.finish(tx, held, { attempt: ending === "lost" ? attempt : 0 });
      if (!isLeft) await jobs.remove(tx, held);
    });
  }
}

/** Records whether the source responds. If it does not, the lags of its parked jobs are unknown. */
class Silence {
  readonly #parts: Pick<SourceWatchesParts, "kv" | "parked">;
  readonly #source: string;
  /** Whether the source was silent when this watcher last recorded it; undefined before that. */
  #isSilent: boolean | undefined;
  #noted: Promise<void> = Promise.resolve();

  constructor(parts: Pick<SourceWatchesParts, "kv" | "parked">, source: string) {
    this.#parts = parts;
    this.#source = source;
  }

  /** Resolves when the last recorded value is stored. */
  get noted(): Promise<void> {
    return this.#noted;
  }

  note(isSilent: boolean): void {
    if (this.#isSilent === isSilent) return;
    this.#isSilent = isSilent;
    const { kv, parked } = this.#parts;
    const store = () =>
      kv.transact(async (tx) => parked.noteSilent(tx, this.#source, isSilent), {
        whenUnknown: "retry",
      });
    // Errors are ignored here: if the store fails, the watcher's heartbeat also fails.
    this.#noted = this.#noted.then(store).catch(() => {});
  }
}

/** Thrown when no job of the source is parked any more. */
class Unwatched extends Error {}
