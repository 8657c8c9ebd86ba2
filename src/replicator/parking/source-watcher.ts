/**
 * Watches the source of parked jobs, once per server and account, and wakes jobs whose databases
 * have changed. A watcher is itself a queue job (`SOURCE_WATCH_TYPE`), so another node takes over
 * when the watcher's node dies.
 *
 * To miss no change, a watcher compares all databases with the positions at which their jobs
 * parked. It does so when it starts, and after it has lost its feed. Recently changed databases
 * come first. Meanwhile, the watcher follows the feed, from the end that the feed had before the
 * comparison began. Jobs parked later are compared when they park. If the server offers no feed to
 * this account, comparisons are repeated at a bounded rate.
 */
import { chunksOf, type Runtime, runTogether } from "../../base/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import { isSamePosition, type SourceSequence } from "../endpoints/endpoint.ts";
import type { ParkedJob, ParkedJobs } from "../job-watching/parked-jobs.ts";
import { serverUrlOf } from "../request/watched-place.ts";
import type { ParkedJobsWaking } from "./parked-jobs-waking.ts";
import type { SweepPace } from "./sweep-pace.ts";
import type { WatchedServer } from "./watched-server.ts";

/** Number of databases compared per request: CouchDB's limit (`max_db_number_for_dbs_info_req`). */
const COMPARED_MAX = 100;
/** Number of newly parked jobs processed per transaction. */
const NEW_MAX = 100;
/** Delay for collecting events, so that a busy server is not asked for each change. */
const GATHER_MS = 100;
/** Maximum delay for a busy server: jobs running together cost less per job (decision 205). */
const GATHER_MS_MAX = 150;
/**
 * Delay per changed database. At more than fifty changes per second, more databases change during
 * the delay than it was computed for, so it rises to its maximum.
 */
const GATHER_MS_EACH = 20;
/** Minimum duration of a round of comparisons, for servers without a feed. */
const SWEEP_MS_MIN = 1000;
/** Minimum duration of the next round if every request of a round found a change. */
const SWEEP_MS_MIN_BUSY = 250;

export interface SourceWatcherParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly parked: ParkedJobs;
  /** Rate limit of comparisons, shared by all watchers of this node. */
  readonly pace: SweepPace;
}

export class SourceWatcher {
  readonly #parts: SourceWatcherParts;
  readonly #source: string;
  readonly #waking: ParkedJobsWaking;
  readonly #server: WatchedServer;

  constructor(parts: SourceWatcherParts, waking: ParkedJobsWaking, server: WatchedServer) {
    this.#parts = parts;
    this.#source = waking.source;
    this.#waking = waking;
    this.#server = server;
  }

  /**
   * Watches until the signal aborts, or no job of the source is parked any more. Rejects if the
   * server does not respond. `onWatched` is called whenever an answer proves that no change was
   * missed.
   */
  async watch(signal: AbortSignal, onWatched: () => void): Promise<void> {
    const { trace } = this.#parts.runtime;
    const last = await this.#server.lastUpdate(signal);
    const by = last === undefined ? "comparison" : "feed";
    trace.event("replication.source-watched", { source: serverUrlOf(this.#source), by });
    if (last === undefined) {
      await this.compareFirst("all", signal);
      onWatched();
      return this.#sweep(signal, onWatched);
    }
    let isCompared = false;
    const onAnswered = (): void => {
      if (isCompared) onWatched();
    };
    await runTogether(signal, [
      (taskSignal) => this.#follow(last, taskSignal, onAnswered),
      async (taskSignal) => {
        await this.compareFirst("latest, then all", taskSignal);
        isCompared = true;
        onWatched();
      },
      async (taskSignal) => {
        await this.#compareNew(taskSignal);
        throw new Unwatched();
      },
    ]).catch((error: unknown) => {
      if (!(error instanceof Unwatched)) throw error;
    });
  }

  /**
   * Finds changes that were made while the source was not watched. A separate method, so that
   * simulations can replace it.
   */
  async compareFirst(order: "all" | "latest, then all", signal: AbortSignal): Promise<void> {
    if (order === "latest, then all") await this.#compareLatest(signal);
    await this.#compareAll(signal);
  }

  /** Wakes the jobs of each database in the feed. */
  async #follow(since: SourceSequence, signal: AbortSignal, onAnswered: () => void): Promise<void> {
    const { clock } = this.#parts.runtime;
    let from = since;
    while (!signal.aborted) {
      const { names, last } = await this.#server.updates(from, signal);
      const changed = [...new Set(names)];
      await this.#waking.wakeDatabases(changed);
      onAnswered();
      from = last;
      const gatherMs = Math.max(GATHER_MS, changed.length * GATHER_MS_EACH);
      await clock.sleep(Math.min(gatherMs, GATHER_MS_MAX), signal);
    }
  }

  /**
   * Compares the position of each newly parked job with the update sequence of its database. Ends
   * when no parked job is left.
   */
  async #compareNew(signal: AbortSignal): Promise<void> {
    const { kv, parked, runtime } = this.#parts;
    for (;;) {
      const { jobs, isEmpty, watch } = await kv.transact(async (tx) => ({
        jobs: await parked.takeNew(tx, this.#source, NEW_MAX),
        isEmpty: (await parked.page(tx.snapshot, this.#source, { limit: 1 })).length === 0,
        watch: parked.watch(tx, this.#source),
      }));
      if (jobs.length > 0 || isEmpty) watch.cancel();
      if (jobs.length > 0) {
        await this.#compare(jobs, signal);
        continue;
      }
      if (isEmpty) return;
      try {
        await watch.fired(signal);
      } finally {
        watch.cancel();
      }
      await runtime.clock.sleep(GATHER_MS, signal);
    }
  }

  /** Repeats comparisons until no job of the source is parked. */
  async #sweep(signal: AbortSignal, onSwept: () => void): Promise<void> {
    const { clock } = this.#parts.runtime;
    for (;;) {
      const startMs = clock.monotonicMs();
      const { jobCount, requestCount, changedCount } = await this.#compareAll(signal);
      if (jobCount === 0) return;
      onSwept();
      const roundMs = changedCount < requestCount ? SWEEP_MS_MIN : SWEEP_MS_MIN_BUSY;
      const waitMs = Math.max(0, startMs + roundMs - clock.monotonicMs());
      await clock.sleep(waitMs, signal);
    }
  }

  /**
   * Compares recently changed databases. They include nearly all databases that changed while the
   * source was not watched (decision 205).
   */
  async #compareLatest(signal: AbortSignal): Promise<void> {
    const { kv, parked, pace } = this.#parts;
    await pace.turn(serverUrlOf(this.#source), this.#server.requestCount(1), signal);
    for (const names of chunksOf(await this.#server.latestChanged(signal), COMPARED_MAX)) {
      // One page of jobs per database is enough here. All other jobs are compared along with the
      // rest of the source.
      const pages = await kv.read((tx) =>
        Promise.all(
          names.map((database) =>
            parked.page(tx.snapshot, this.#source, { database, limit: COMPARED_MAX }),
          ),
        ),
      );
      await this.#compare(pages.flat(), signal);
    }
  }

  async #compareAll(signal: AbortSignal): Promise<Comparison> {
    const { kv, parked } = this.#parts;
    const forgetNew = () =>
      kv.transact((tx) => parked.forgetNew(tx, this.#source), { whenUnknown: "retry" });
    while (await forgetNew());
    const all = { jobCount: 0, requestCount: 0, changedCount: 0 };
    let after: ParkedJob | undefined;
    do {
      const place = after === undefined ? {} : { after };
      const page = await kv.read((tx) =>
        parked.page(tx.snapshot, this.#source, { ...place, limit: COMPARED_MAX }),
      );
      const { jobCount, requestCount, changedCount } = await this.#compare(page, signal);
      all.jobCount += jobCount;
      all.requestCount += requestCount;
      all.changedCount += changedCount;
      after = page.length === COMPARED_MAX ? page.at(-1) : undefined;
    } while (after !== undefined);
    return all;
  }

  /** Wakes jobs whose databases have changed or were deleted. */
  async #compare(jobs: readonly ParkedJob[], signal: AbortSignal): Promise<Comparison> {
    const jobCount = jobs.length;
    if (jobCount === 0) return { jobCount, requestCount: 0, changedCount: 0 };
    const names = [...new Set(jobs.map(({ database }) => database))];
    const requestCount = this.#server.requestCount(names.length);
    await this.#parts.pace.turn(serverUrlOf(this.#source), requestCount, signal);
    const places = await this.#server.sequences(names, signal);
    const changed = jobs.filter(({ database, updateSequence }) => {
      const place = places.get(database);
      return place !== undefined && !isSamePosition(place, updateSequence);
    });
    await this.#waking.wake(changed.map(({ jobId }) => jobId));
    return { jobCount, requestCount, changedCount: changed.length };
  }
}

/** Result of comparing databases with the positions of their parked jobs. */
interface Comparison {
  readonly jobCount: number;
  readonly requestCount: number;
  readonly changedCount: number;
}

/** Thrown when no job of the source is parked any more. */
class Unwatched extends Error {}
