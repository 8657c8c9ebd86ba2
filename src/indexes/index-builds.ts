/**
 * The first build of an index. It is a job in the queue, so that any node can run it, and another
 * node resumes it if the first node dies. The build reads documents in id order, page by page. Each
 * page is processed in one transaction, which also stores the progress. If a document is written
 * during the build, either the write adds its entries, or it conflicts with the page.
 *
 * If no worker runs the build, a query that waits for the build processes pages itself.
 */
import { currentSec, errorCode, type Runtime, waitAtMost } from "../base/index.ts";
import type { Database, DatabaseRegistry } from "../databases/index.ts";
import type { HeldJob, Job, JobData, Jobs, Worker } from "../jobs/index.ts";
import type { KeyValueStore, Transaction } from "../kv/index.ts";
import type { Indexes, ScheduleBuild } from "./indexes.ts";

export const INDEX_JOB_TYPE = "index";

/** Number of documents per page, adapted to the sizes of the documents. */
const PAGE = { countMin: 1, countFirst: 10, countMax: 500, bytesAim: 500_000 };
/**
 * Maximum number of retries of a page after conflicts. The page size is then reduced, because a
 * smaller page conflicts with fewer writers.
 */
const CONFLICTS_MAX = 3;
/**
 * Time without a heartbeat after which a build is moved to another node. Each page counts as a
 * heartbeat.
 */
const SILENT_SEC_MAX = 90;
/** Pause before a failed build is retried. */
const PAUSE_SEC = 5;
/**
 * Maximum number of documents that a query indexes itself instead of waiting for the job. Indexing
 * them takes about as long as a worker takes to accept the job.
 */
const SMALL_COUNT = 500;
/** Time that a query waits for a heartbeat of the build before it processes pages itself. */
const SILENCE_MS = 1_000;

export interface IndexBuildsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly databases: DatabaseRegistry;
  readonly indexes: Indexes;
}

/** A running build, for display. */
export interface RunningBuild {
  readonly database: string;
  /** Id of the design document. */
  readonly design: string;
  /** Worker that runs the build; undefined if the worker was just expelled. */
  readonly worker: Worker | undefined;
  /**
   * `doneCount`: number of documents processed. `totalCount`: number of documents in the database
   * when the build began.
   */
  readonly doneCount: number;
  readonly totalCount: number;
  readonly startedMs: number;
  readonly updatedMs: number;
}

type PageEnd = "gone" | "ready" | "more";

/** Adaptive size of the next page of a build. */
class PageCount {
  count = PAGE.countFirst;

  learn(documentCount: number, byteCount: number): void {
    const fitting = (PAGE.bytesAim * documentCount) / Math.max(1, byteCount);
    const allowed = Math.min(PAGE.countMax, this.count * 2, Math.floor(fitting));
    this.count = Math.max(PAGE.countMin, allowed);
  }

  shrink(): void {
    this.count = Math.max(PAGE.countMin, this.count >> 1);
  }
}

/**
 * Returns a function that schedules a build. Separate from `IndexBuilds`, because the composition
 * root creates the indexes before the builds.
 */
export function scheduleBuild(jobs: Jobs): ScheduleBuild {
  return async (tx, database, { number, design, name }) => {
    await jobs.setTypeTimeout(tx, INDEX_JOB_TYPE, SILENT_SEC_MAX);
    await jobs.add(
      tx,
      { type: INDEX_JOB_TYPE, id: `${database.uuid}-${number}` },
      { database: database.name, uuid: database.uuid, number, design, name },
    );
  };
}

export class IndexBuilds {
  readonly type = INDEX_JOB_TYPE;
  readonly #parts: IndexBuildsParts;

  constructor(parts: IndexBuildsParts) {
    this.#parts = parts;
  }

  /**
   * Runs a job until the index is complete. If the build fails or the signal aborts, returns the
   * job to the queue. Never rejects: a job that cannot be returned is detected by its missing
   * heartbeats.
   */
  async run(held: HeldJob, { data }: Pick<Job, "data">, signal: AbortSignal): Promise<void> {
    const { kv, jobs, runtime } = this.#parts;
    try {
      await this.#build(held, data, signal);
    } catch (error) {
      if (errorCode(error) === "JOBS_HALTED") return;
      const pauseSec = signal.aborted ? 0 : PAUSE_SEC;
      if (!signal.aborted) {
        const { database, design } = data;
        const fields = { database: String(database), design: String(design) };
        runtime.trace.event("index.build-failed", { ...fields, error: String(error) });
      }
      const nowSec = currentSec(runtime.clock);
      await kv
        .transact(async (tx) => {
          await jobs.resubmit(tx, held, nowSec + pauseSec);
          await jobs.finish(tx, held);
        })
        .catch(() => {});
    }
  }

  /** Returns the running builds, in order of their last heartbeats. */
  async running(): Promise<RunningBuild[]> {
    const { kv, jobs, databases, indexes } = this.#parts;
    return kv.read(async (tx) => {
      const ids = await jobs.runningIds(tx, INDEX_JOB_TYPE);
      const builds = await Promise.all(
        ids.map(async (id): Promise<RunningBuild[]> => {
          const job = await jobs.get(tx, { type: INDEX_JOB_TYPE, id });
          const database = await databases.find(tx, String(job?.data.database));
          if (job === undefined || database === undefined) return [];
          if (database.uuid !== job.data.uuid) return [];
          const state = await indexes.state(tx, database, Number(job.data.number));
          if (state === undefined) return [];
          const worker = job.worker && (await jobs.workers.member(tx, job.worker));
          const { doneCount, totalCount = 0, startedMs, updatedMs } = state;
          return [
            {
              database: database.name,
              design: String(job.data.design),
              worker: worker || undefined,
              ...{ doneCount, totalCount, startedMs, updatedMs },
            },
          ];
        }),
      );
      return builds.flat();
    });
  }

  /**
   * Resolves with true when the index is complete, or with false if it no longer exists. Throws
   * STORE_DATABASE_NOT_FOUND.
   */
  async whenReady(database: Database, number: number, signal: AbortSignal): Promise<boolean> {
    const { runtime, kv, indexes } = this.#parts;
    const size = new PageCount();
    let hasTakenOver = false;
    for (;;) {
      const seen = await kv.transact(
        async (tx) => {
          await database.assertExists(tx);
          const state = await indexes.state(tx, database, number);
          if (state === undefined || state.isReady) return state;
          const { documentCount } = await database.info(tx.snapshot);
          const watch = indexes.watchState(tx, database, number);
          return { watch, isSmall: documentCount <= SMALL_COUNT };
        },
        { signal, whenUnknown: "retry" },
      );
      if (seen === undefined) return false;
      if (!("watch" in seen)) return true;
      const { watch, isSmall } = seen;
      try {
        const isMoved =
          !hasTakenOver &&
          !isSmall &&
          (await waitAtMost(runtime.clock, SILENCE_MS, signal, (over) => watch.fired(over)));
        signal.throwIfAborted();
        if (isMoved) continue;
        hasTakenOver = true;
        await this.#page(database, number, size, signal);
      } finally {
        watch.cancel();
      }
    }
  }

  async #build(held: HeldJob, data: JobData, signal: AbortSignal): Promise<void> {
    const { kv, jobs, databases } = this.#parts;
    const database = await kv.read(async (tx) => {
      const found = await databases.find(tx, data.database as string);
      return found?.uuid === data.uuid ? found : undefined;
    });
    const size = new PageCount();
    let end: PageEnd = database === undefined ? "gone" : "more";
    while (database !== undefined && end === "more") {
      signal.throwIfAborted();
      end = await this.#page(database, data.number as number, size, signal, (tx) =>
        jobs.update(tx, held),
      );
    }
    await kv.transact(
      async (tx) => {
        await jobs.verify(tx, held);
        await jobs.remove(tx, held);
      },
      { whenUnknown: "retry" },
    );
  }

  /** Processes one page. Calls `first` in the page's transaction before anything else. */
  async #page(
    database: Database,
    number: number,
    size: PageCount,
    signal: AbortSignal,
    first: (tx: Transaction) => Promise<void> = async () => {},
  ): Promise<PageEnd> {
    const { kv } = this.#parts;
    try {
      const { end, documentCount, byteCount } = await kv.transact(
        async (tx) => {
          await first(tx);
          return this.#buildPage(tx, database, number, size.count);
        },
        { signal, whenUnknown: "retry", retryCountMax: CONFLICTS_MAX },
      );
      size.learn(documentCount, byteCount);
      return end;
    } catch (error) {
      if (errorCode(error) === "STORE_DATABASE_NOT_FOUND") return "gone";
      const code = errorCode(error);
      const isTooMuch = code === "KV_CONFLICT" || code === "KV_TOO_LARGE" || code === "KV_TOO_OLD";
      if (!isTooMuch || (code === "KV_TOO_LARGE" && size.count === PAGE.countMin)) throw error;
      size.shrink();
      return "more";
    }
  }

  async #buildPage(tx: Transaction, database: Database, number: number, count: number) {
    const { indexes, runtime } = this.#parts;
    await database.assertExists(tx);
    const nothing = { documentCount: 0, byteCount: 0 };
    const [state, all] = await Promise.all([
      indexes.state(tx, database, number),
      indexes.list(tx, database),
    ]);
    const index = all.find((each) => each.number === number);
    if (state === undefined || index === undefined) return { end: "gone" as const, ...nothing };
    if (state.isReady) return { end: "ready" as const, ...nothing };
    const { lastId, doneCount } = state;
    const { totalCount = (await database.info(tx.snapshot)).documentCount } = state;
    const page = await database.allDocuments.page(tx, {
      ...(lastId === undefined ? {} : { startId: lastId }),
      limit: count + (lastId === undefined ? 0 : 1),
      withDocument: true,
    });
    const rows = page.entries.filter(({ id }) => id !== lastId);
    const documents = rows.filter(({ id }) => !id.startsWith("_design/"));
    await indexes.index(
      tx,
      database,
      [index],
      documents.map(({ id, document }) => ({ id, document })),
    );
    const isReady = page.stoppedBy === "exhausted";
    indexes.setState(tx, database, number, {
      ...state,
      isReady,
      lastId: isReady ? undefined : (rows.at(-1)?.id ?? lastId),
      doneCount: doneCount + rows.length,
      totalCount,
      updatedMs: runtime.clock.nowMs(),
    });
    const byteCount = rows.reduce((sum, { document }) => sum + (document?.body.length ?? 0), 0);
    return {
      end: isReady ? ("ready" as const) : ("more" as const),
      documentCount: rows.length,
      byteCount,
    };
  }
}
