/**
 * A replication in the caller's process. It has checkpoints on both sides, as a job has, but no
 * store of its own.
 */
import { append, backoff, LatestValues } from "../../base/index.ts";
import {
  type DocumentFailure,
  isoTime,
  MemoryRunFailures,
  type ReplicationEnding,
  StopRequest,
} from "../../replicator/index.ts";
import { VERSION } from "../../server/index.ts";
import { type Connections, openConnections } from "./connections.ts";
import { isFinal, type OwnReplication, parseOwnReplication } from "./endpoints.ts";
import type {
  FailedRevision,
  ReplicateOptions,
  Replication,
  ReplicationCounts,
  ReplicationEndpoint,
  ReplicationProgress,
  ReplicationResult,
} from "./options.ts";
import { type OwnRun, openOwnRun } from "./own-run.ts";
import { failedRevision, replicationError } from "./replication-error.ts";

/** Maximum number of failures in a result. */
const FAILURES_MAX = 10_000;
/** Bounds of the pause before another run. */
const RETRY_MS = { min: 1_000, max: 600_000 };

const NO_COUNTS: ReplicationCounts = {
  revisions_checked: 0,
  missing_revisions_found: 0,
  docs_read: 0,
  docs_written: 0,
  doc_write_failures: 0,
};

/** Copies the source to the target. See `Replication` for what the result can do. */
export function replicate(
  source: ReplicationEndpoint,
  target: ReplicationEndpoint,
  options: ReplicateOptions = {},
): Replication {
  return observedReplication(source, target, options, {});
}

/** Callbacks of the adapter for PouchDB. */
export interface ReplicationObserver {
  progress?(progress: ReplicationProgress): void;
  failed?(failures: readonly FailedRevision[]): void;
}

export function observedReplication(
  source: ReplicationEndpoint,
  target: ReplicationEndpoint,
  options: ReplicateOptions,
  observer: ReplicationObserver,
): Replication {
  const running = new RunningReplication(options, observer);
  const result = running.run(source, target);
  const ended = result.then(
    () => running.progress.end(),
    (error: unknown) => running.progress.end({ error }),
  );
  // `shown` has no handlers, so if the caller ignores a failure, the runtime reports an unhandled
  // rejection.
  const shown = result.then((value) => value);
  return Object.assign(shown, {
    [Symbol.asyncIterator]: () => {
      // The iteration reports a failure, so the rejection counts as handled.
      shown.catch(() => {});
      return running.progress.values();
    },
    stop: async () => {
      running.stop();
      await ended;
      return shown;
    },
  });
}

class RunningReplication {
  readonly progress = new LatestValues<ReplicationProgress>();
  readonly #options: ReplicateOptions;
  readonly #observer: ReplicationObserver;
  readonly #stopping = new AbortController();
  /** Counts of runs that have failed. */
  #countsBefore = NO_COUNTS;
  readonly #failures: FailedRevision[] = [];
  #failure: ReplicationProgress["failure"] = null;
  #failureCount = 0;

  constructor(options: ReplicateOptions, observer: ReplicationObserver) {
    this.#options = options;
    this.#observer = observer;
  }

  stop(): void {
    this.#stopping.abort(new StopRequest());
  }

  async run(source: ReplicationEndpoint, target: ReplicationEndpoint): Promise<ReplicationResult> {
    const { signal, retry: _, ...members } = this.#options;
    signal?.throwIfAborted();
    const onAbort = (): void => this.stop();
    signal?.addEventListener("abort", onAbort, { once: true });
    const connections = openConnections({ userAgent: `Tandem/${VERSION}` });
    try {
      const startMs = connections.runtime.clock.nowMs();
      const own = parseOwnReplication(source, target, { ...members });
      const { ending, last } = await this.#runUntilDone(connections, own);
      // A signal that aborts after everything was copied has no effect.
      if (ending.kind === "stopped") signal?.throwIfAborted();
      else this.#show(connections, last, { isComplete: true });
      const endMs = connections.runtime.clock.nowMs();
      return {
        ...(ending.kind === "completed" ? ending.result : stoppedLog(last)),
        ok: this.#failures.length === 0,
        ...this.#counts(last),
        start_time: isoTime(startMs),
        end_time: isoTime(endMs),
        stopped: ending.kind === "stopped",
        failures: this.#failures,
      };
    } catch (error) {
      if (signal?.aborted === true && error === signal.reason) throw error;
      throw replicationError(error);
    } finally {
      signal?.removeEventListener("abort", onAbort);
      await connections.close();
    }
  }

  async #runUntilDone(
    connections: Connections,
    own: OwnReplication,
  ): Promise<{ readonly ending: ReplicationEnding; readonly last: OwnRun | undefined }> {
    const { signal } = this.#stopping;
    for (;;) {
      const attempt: Attempt = { opened: undefined };
      try {
        const ending = await this.#runOnce(connections, own, attempt);
        return { ending, last: attempt.opened };
      } catch (error) {
        if (signal.aborted) return { ending: { kind: "stopped" }, last: attempt.opened };
        if (this.#options.retry === undefined || this.#options.retry === false) throw error;
        if (isFinal(error)) throw error;
        if (attempt.opened?.run.hasCheckpoint === true) this.#failureCount = 0;
        this.#countsBefore = this.#counts(attempt.opened);
        const { error: word, reason } = replicationError(error);
        this.#failure = { error: word, reason };
        this.#show(connections, undefined);
        const pauseMs = this.#pauseMs(++this.#failureCount);
        await connections.runtime.clock.sleep(pauseMs, signal).catch(() => {});
        this.#failure = null;
      }
    }
  }

  #pauseMs(failureCount: number): number {
    const { retry } = this.#options;
    return typeof retry === "function" ? retry(failureCount) : backoff(RETRY_MS, failureCount);
  }

  async #runOnce(
    connections: Connections,
    own: OwnReplication,
    attempt: Attempt,
  ): Promise<ReplicationEnding> {
    const { signal } = this.#stopping;
    const { replication, ids } = own;
    const failures = new ObservedFailures((failed) => this.#fail(failed));
    attempt.opened = await openOwnRun(
      {
        connections: { ...connections, open: (_, side) => own.open(connections, side) },
        failures,
        ids,
        onProgress: () => this.#show(connections, attempt.opened),
        isFollowed: () => this.progress.isFollowed,
      },
      replication,
      signal,
    );
    const { run, caughtUp } = attempt.opened;
    return caughtUp.during(() => run.run(signal));
  }

  #show(
    { activity }: Connections,
    opened: OwnRun | undefined,
    { isComplete = false }: { readonly isComplete?: boolean } = {},
  ): void {
    const { progress } = opened?.run ?? {};
    const { pendingChangeCount, isCaughtUp } = opened?.caughtUp ?? {};
    const shown: ReplicationProgress = {
      ...this.#counts(opened),
      bytes: activity.byteCount,
      changes_pending: isComplete ? 0 : (pendingChangeCount ?? null),
      through_seq: progress?.throughSequence ?? null,
      checkpointed_source_seq: progress?.checkpointedSequence ?? null,
      caught_up: isComplete || isCaughtUp === true,
      failure: this.#failure,
    };
    this.progress.set(shown);
    this.#observer.progress?.(shown);
  }

  #counts(opened: OwnRun | undefined): ReplicationCounts {
    const before = this.#countsBefore;
    const own = opened?.run.ownStatistics;
    if (own === undefined) return before;
    return {
      revisions_checked: before.revisions_checked + own.missingChecked,
      missing_revisions_found: before.missing_revisions_found + own.missingFound,
      docs_read: before.docs_read + own.docsRead,
      docs_written: before.docs_written + own.docsWritten,
      doc_write_failures: before.doc_write_failures + own.docWriteFailures,
    };
  }

  #fail(failed: readonly DocumentFailure[]): void {
    const shown = failed.map(failedRevision);
    append(this.#failures, shown.slice(0, FAILURES_MAX - this.#failures.length));
    this.#observer.failed?.(shown);
  }
}

/** A run that has been opened. */
interface Attempt {
  opened: OwnRun | undefined;
}

function stoppedLog(last: OwnRun | undefined): Pick<ReplicationResult, "source_last_seq"> {
  if (last?.run.hasBegun !== true) return {};
  return { source_last_seq: last.run.progress.checkpointedSequence };
}

class ObservedFailures extends MemoryRunFailures {
  readonly #onFailed: (failed: readonly DocumentFailure[]) => void;

  constructor(onFailed: (failed: readonly DocumentFailure[]) => void) {
    super();
    this.#onFailed = onFailed;
  }

  override async record(...[failed, arrived]: Parameters<MemoryRunFailures["record"]>) {
    await super.record(failed, arrived);
    if (failed.length > 0) this.#onFailed(failed);
  }
}
