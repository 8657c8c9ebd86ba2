/**
 * One side of a run with its replication log, which is read at the start of the run and replaced by
 * each checkpoint. A Tandem server can verify its database and continue its log in one request.
 * Between Tandem servers, this reduces the requests of a job of ten documents from 12 to 9.5 on
 * average (`bench/replication/short-jobs.mjs`).
 */
import { allTogether, errorCode, type JsonText } from "../../base/index.ts";
import {
  type Endpoint,
  EndpointError,
  isSameSequence,
  type SourceSequence,
} from "../endpoints/endpoint.ts";
import { parseReplicationLog, type ReplicationLog } from "./replication-log.ts";
import {
  type FoundLog,
  type FoundSide,
  mayBeSame,
  readLog,
  UNKNOWN_START_TIME,
  writeLog,
} from "./stored-log.ts";

/** A log to be written with `Endpoint.continueLog`, which appends the stored history. */
export interface Continuation {
  readonly body: JsonText;
  readonly options: { readonly madeAt?: string };
}

export class LoggedSide {
  readonly name: "source" | "target";
  /** Creation time of the database at the start of the run. */
  readonly instanceStartTime: string;
  /** The log at the start of the run. */
  readonly log: ReplicationLog | undefined;
  readonly #endpoint: Endpoint;
  readonly #id: string;
  /**
   * The log found at the start of the run. Cleared when a checkpoint has confirmed that the log
   * still exists.
   */
  #found: FoundLog | undefined;
  /** Revision of the log stored under the current id, if such a log exists. */
  #revision: string | undefined;

  constructor(name: LoggedSide["name"], { endpoint, info, log }: FoundSide, id: string) {
    this.name = name;
    this.instanceStartTime = info.instanceStartTime;
    this.log = log && parseReplicationLog(log.body);
    this.#endpoint = endpoint;
    this.#id = id;
    this.#found = log;
    this.#revision = log?.id === id ? log.revision : undefined;
  }

  /** Whether a log is stored under the current id. */
  get hasLog(): boolean {
    return this.#revision !== undefined;
  }

  /**
   * Returns the request that writes `log` and also verifies the database (decision 297). Returns
   * undefined if this run does not continue the side's log, if the endpoint does not support such
   * requests, or if the endpoint might acknowledge writes before they are durable.
   */
  continuation(log: ReplicationLog): Continuation | undefined {
    const [entry, ...earlier] = log.history ?? [];
    const { continuesLogs, writesDurably } = this.#endpoint;
    if (entry === undefined || !continuesLogs || !writesDurably) return undefined;
    if (this.#found !== undefined) {
      if (!this.hasLog || !this.#endsAt(entry.start_last_seq)) return undefined;
      return { body: JSON.stringify({ ...log, history: [entry] }), options: {} };
    }
    // If this side has a log, an earlier write has already verified the database. If there is an
    // earlier history, it comes from the local copy of the source's log, and the source has no log
    // with it.
    if (this.hasLog || earlier.length > 0) return undefined;
    const madeAt = this.instanceStartTime;
    return madeAt === UNKNOWN_START_TIME
      ? undefined
      : { body: JSON.stringify(log), options: { madeAt } };
  }

  /**
   * Writes a log with `continueLog`. Returns false if the log was not written: the caller must then
   * verify the database and write the log in separate requests.
   */
  async continue({ body, options }: Continuation, signal: AbortSignal): Promise<boolean> {
    const written = await this.#endpoint.continueLog(this.#id, body, signal, options);
    if (typeof written !== "string") return false;
    this.#revision = written;
    this.#found = undefined;
    return true;
  }

  /**
   * Makes the writes to this side durable. Returns false if the database is known to differ from
   * the database at the start of the run. With `isShort`, sends no commit request to a server whose
   * acknowledged writes are durable.
   *
   * The commit and the read of the checkpoint run concurrently. If the database was re-created
   * between them, the checkpoint is missing, and the promise rejects.
   */
  async makeDurable(isShort: boolean, signal: AbortSignal): Promise<boolean> {
    const found = this.#found;
    if (found === undefined) return this.#commit(signal);
    const isDurable = isShort && this.#endpoint.writesDurably;
    const [isSame, log] = await allTogether<[boolean, FoundLog | undefined]>(signal, [
      async (taskSignal) => isDurable || this.#commit(taskSignal),
      (taskSignal) => this.#asCommit(readLog(this.#endpoint, found.id, taskSignal), taskSignal),
    ]);
    if (log === undefined) {
      const reason = `The checkpoint no longer exists in the ${this.name} database.`;
      throw new EndpointError("checkpoint_commit_failure", reason);
    }
    this.#found = undefined;
    // If another run has replaced the log, the stored log does not prove that this run's writes are
    // in the database. Therefore, request a commit even if acknowledged writes are durable.
    const isOther = log.revision !== found.revision || log.body !== found.body;
    return isDurable && isOther ? this.#commit(signal) : isSame;
  }

  /** Replaces the last known log. Rejects if the stored log is a different one. */
  async write(body: JsonText, signal: AbortSignal): Promise<void> {
    const endpoint = this.#endpoint;
    const parent = this.#revision;
    const madeAt = this.instanceStartTime;
    const written = await writeLog(endpoint, { id: this.#id, body, parent, madeAt }, signal);
    if (written === undefined) {
      const reason = `Error updating the ${this.name} checkpoint document: conflict`;
      throw new EndpointError("checkpoint_commit_failure", reason);
    }
    this.#wrote(written, body);
  }

  /**
   * Remembers the log that was written. If the creation time is unknown, the next checkpoint
   * verifies that this log still exists.
   */
  #wrote(revision: string, body: JsonText): void {
    this.#revision = revision;
    if (this.instanceStartTime === UNKNOWN_START_TIME) {
      this.#found = { id: this.#id, revision, body };
    }
  }

  #endsAt(sequence: SourceSequence): boolean {
    return this.log !== undefined && isSameSequence(this.log.source_last_seq, sequence);
  }

  async #commit(signal: AbortSignal): Promise<boolean> {
    const startTime = await this.#asCommit(this.#endpoint.commit(signal), signal);
    return mayBeSame(this.instanceStartTime, startTime);
  }

  /** Returns the value of `asking`, and reports an error of the endpoint as a failed commit. */
  async #asCommit<T>(asking: Promise<T>, signal: AbortSignal): Promise<T> {
    try {
      return await asking;
    } catch (error) {
      signal.throwIfAborted();
      if (errorCode(error) !== "REPLICATOR_ENDPOINT_FAILED") throw error;
      const { reason } = error as EndpointError;
      const failure = `Failure on ${this.name} commit: ${reason}`;
      throw new EndpointError("checkpoint_commit_failure", failure, { cause: error });
    }
  }
}
