/** `replicate` with the options, events and results of `PouchDB.replicate`. */
import { EventEmitter } from "node:events";
import type {
  DocumentOptions,
  FailedRevision,
  ReplicateOptions,
  ReplicationEndpoint,
  ReplicationProgress,
} from "../replication/options.ts";
import { observedReplication } from "../replication/replicate.ts";
import { ReplicationError, replicationError } from "../replication/replication-error.ts";

/** Options of PouchDB, and those of replication documents. The target is created by default. */
export interface PouchReplicateOptions extends DocumentOptions {
  /** Whether to follow later changes. */
  readonly live?: boolean;
  /** Whether to run again after an error. */
  readonly retry?: boolean;
  /** Returns the next pause in milliseconds, given the previous one. */
  readonly back_off_function?: (delayMs: number) => number;
  readonly since?: unknown;
  /** Maximum number of changes per batch. */
  readonly batch_size?: number;
  /** Maximum number of concurrent batches. */
  readonly batches_limit?: number;
  /** Whether to write checkpoints on both sides. Default: true. */
  readonly checkpoint?: boolean;
}

export interface PouchProgress {
  readonly ok: boolean;
  readonly start_time: string;
  readonly docs_read: number;
  readonly docs_written: number;
  readonly doc_write_failures: number;
  /** The first documents that the target rejected. */
  readonly errors: readonly FailedRevision[];
  readonly last_seq: unknown;
  /** Changes that are not copied yet, if known. */
  readonly pending?: number;
}

export interface PouchResult extends PouchProgress {
  readonly end_time: string;
  readonly status: "complete" | "cancelled";
}

export interface PouchEvents {
  /** Documents were copied. Unlike PouchDB's, the event does not contain them. */
  change: [progress: PouchProgress];
  /** The replication has caught up, or waits after an error. */
  paused: [error?: ReplicationError];
  active: [];
  /** The target rejected a document because of missing rights or a validation function. */
  denied: [failure: FailedRevision];
  complete: [result: PouchResult];
  error: [error: ReplicationError];
}

/** A promise of the result, with events. */
export interface PouchReplication extends Promise<PouchResult> {
  on<Name extends keyof PouchEvents>(
    event: Name,
    listener: (...args: PouchEvents[Name]) => void,
  ): this;
  once<Name extends keyof PouchEvents>(
    event: Name,
    listener: (...args: PouchEvents[Name]) => void,
  ): this;
  off<Name extends keyof PouchEvents>(
    event: Name,
    listener: (...args: PouchEvents[Name]) => void,
  ): this;
  /** Stops after a last checkpoint; the status of the result is then `cancelled`. */
  cancel(): void;
}

/** Copies the source to the target, like `PouchDB.replicate`. */
export function pouchReplicate(
  source: ReplicationEndpoint,
  target: ReplicationEndpoint,
  options: PouchReplicateOptions = {},
): PouchReplication {
  const emitter = new EventEmitter();
  const run = new PouchRun(emitter);
  const replication = observedReplication(source, target, optionsOf(options), run);
  const result = (async (): Promise<PouchResult> => {
    try {
      const { ok, stopped, start_time, end_time, source_last_seq, ...counts } = await replication;
      const { docs_read, docs_written, doc_write_failures, failures: errors } = counts;
      const shown = { docs_read, docs_written, doc_write_failures, errors };
      const status = stopped ? "cancelled" : "complete";
      const last_seq = source_last_seq;
      const done: PouchResult = { ok, start_time, end_time, ...shown, last_seq, status };
      emitter.emit("complete", done);
      return done;
    } catch (cause) {
      const error = replicationError(cause);
      if (emitter.listenerCount("error") > 0) emitter.emit("error", error);
      throw error;
    }
  })();
  // As in PouchDB, a listener can handle failures instead.
  result.catch(() => {});
  const follow =
    (method: "on" | "once" | "off") => (event: string, listener: (...args: never[]) => void) => {
      emitter[method](event, listener as (...args: unknown[]) => void);
      return shown;
    };
  const shown: PouchReplication = Object.assign(result, {
    on: follow("on"),
    once: follow("once"),
    off: follow("off"),
    cancel: () => {
      void replication.stop().catch(() => {});
    },
  }) as PouchReplication;
  return shown;
}

function optionsOf({
  live,
  retry,
  back_off_function: backOff,
  since,
  batch_size,
  batches_limit,
  checkpoint,
  ...document
}: PouchReplicateOptions): ReplicateOptions {
  let delayMs = 0;
  const nextPause = backOff && (() => (delayMs = backOff(delayMs)));
  return {
    create_target: true,
    ...document,
    ...(live === undefined ? {} : { continuous: live }),
    ...(since === undefined || since === 0 ? {} : { since_seq: since }),
    ...(batch_size === undefined ? {} : { worker_batch_size: batch_size }),
    ...(batches_limit === undefined ? {} : { worker_processes: batches_limit }),
    ...(checkpoint === undefined ? {} : { use_checkpoints: checkpoint }),
    retry: retry === true ? (nextPause ?? true) : false,
  };
}

/** Maximum number of rejected documents in a progress event. */
const ERRORS_MAX = 1_000;

/** Turns progress into events. */
class PouchRun {
  readonly #emitter: EventEmitter;
  readonly #startTime = new Date().toISOString();
  readonly #errors: FailedRevision[] = [];
  #shownCount = 0;
  #state: "active" | "paused" = "active";

  constructor(emitter: EventEmitter) {
    this.#emitter = emitter;
  }

  progress({ failure, caught_up: isCaughtUp, ...progress }: ReplicationProgress): void {
    const { docs_read, docs_written, doc_write_failures, through_seq, changes_pending } = progress;
    const doneCount = docs_written + doc_write_failures;
    if (doneCount > this.#shownCount) {
      this.#enter("active");
      this.#shownCount = doneCount;
      this.#emitter.emit("change", {
        ok: this.#errors.length === 0,
        start_time: this.#startTime,
        docs_read,
        docs_written,
        doc_write_failures,
        errors: [...this.#errors],
        last_seq: through_seq,
        ...(changes_pending === null ? {} : { pending: changes_pending }),
      } satisfies PouchProgress);
    }
    if (failure !== null) {
      this.#enter("paused", new ReplicationError(failure.error, failure.reason, 0));
    } else if (isCaughtUp) this.#enter("paused");
  }

  failed(failures: readonly FailedRevision[]): void {
    for (const failure of failures) {
      if (this.#errors.length < ERRORS_MAX) this.#errors.push(failure);
      const isDenied = failure.error === "forbidden" || failure.error === "unauthorized";
      if (isDenied) this.#emitter.emit("denied", failure);
    }
  }

  #enter(state: "active" | "paused", error?: ReplicationError): void {
    if (state === this.#state) return;
    this.#state = state;
    if (state === "active") this.#emitter.emit("active");
    else if (error === undefined) this.#emitter.emit("paused");
    else this.#emitter.emit("paused", error);
  }
}
