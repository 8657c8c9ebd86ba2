/**
 * One side of a run with its replication log, read at the start and replaced later. A Tandem server
 * continues a log in one request: between Tandem servers, a job of ten documents sends 9.5 requests
 * on average instead of 12 (`bench/replication/short-jobs.mjs`).
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

/** A log that the endpoint writes with the stored history appended (`Endpoint.continueLog`). */
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
   * The log found at the start. Cleared once a checkpoint has confirmed that the log still exists.
   */
  #found: FoundLog | undefined;
  /** Revision of the log stored under the current id, if there is one. */
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
   * undefined if the endpoint does not support this or may acknowledge non-durable writes, or if it
   * has a log that this run does not continue.
   */
  continuation(log: ReplicationLog): Continuation | undefined {
    const [entry, ...earlier] = log.history ?? [];
    const { continuesLogs, writesDurably } = this.#endpoint;
    if (entry === undefined || !continuesLogs || !writesDurably) return undefined;
    if (this.#found !== undefined) {
      if (!this.hasLog || !this.#endsAt(entry.start_last_seq)) return undefined;
      return { body: JSON.stringify({ ...log, history: [entry] }), options: {} };
    }
    // Undefined in two cases: an earlier write has already verified this side, or the history comes
    // from the local copy of the source's log, so that the source has no log with this history.
    if (this.hasLog || earlier.length > 0) return undefined;
    const madeAt = this.instanceStartTime;
    return madeAt === UNKNOWN_START_TIME
      ? undefined
      : { body: JSON.stringify(log), options: { madeAt } };
  }

  /**
   * Writes a log with `continueLog`. If this returns false, the caller must verify the database and
   * write the log in separate requests.
   */
  async continue({ body, options }: Continuation, signal: AbortSignal): Promise<boolean> {
    const written = await this.#endpoint.continueLog(this.#id, body, signal, options);
    if (typeof written !== "string") return false;
    this.#revision = written;
    this.#found = undefined;
    return true;
  }

  /**
   * Makes the writes to this side durable. Returns false if its database is known to differ from
   * the one at the start of the run. With `isShort`, sends no commit request to a server whose
   * acknowledged writes are durable.
   *
   * The commit and the read of the checkpoint are concurrent. If the database was re-created
   * between them, the checkpoint is missing, and the call rejects.
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
    // If another run has replaced the log, its presence does not prove that this run's writes are
    // in the database, so commit after all.
    const isOther = log.revision !== found.revision || log.body !== found.body;
    return isDurable && isOther ? this.#commit(signal) : isSame;
  }

  /** Replaces the last known log. Rejects if a different log is stored. */
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
   * Records a written log. If the creation time is unknown, the next checkpoint verifies that this
   * log still exists.
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

  /**
   * Returns the value that `asking` resolves to, and reports an endpoint's error as a failed
   * commit.
   */
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
