/** One side of a run, and its replication log there: found at the start, written over during the run. */
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

/** A log for an endpoint that puts it before what it has, or begins with it (`Endpoint.continueLog`). */
export interface Continuation {
  readonly body: JsonText;
  readonly options: { readonly madeAt?: string };
}

export class LoggedSide {
  readonly name: "source" | "target";
  /** When the database was made that the run began with. */
  readonly instanceStartTime: string;
  /** The log as it was found. */
  readonly log: ReplicationLog | undefined;
  readonly #endpoint: Endpoint;
  readonly #id: string;
  /** The log that the run began from, until a checkpoint has shown that it is still there; undefined: there was none. */
  #found: FoundLog | undefined;
  /** The revision of the stored log, to write over it. What was found under an older id is written under `id`, where it has none. */
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

  /** Whether it has a log under the id of today. */
  get hasLog(): boolean {
    return this.#revision !== undefined;
  }

  /**
   * How its log comes to be `log` in one request, which compares the database as well (decision 299). Undefined: the endpoint does not
   * offer it, or may acknowledge what is not durable, or has a log that the run does not go on from.
   */
  continuation(log: ReplicationLog): Continuation | undefined {
    const [entry, ...earlier] = log.history ?? [];
    const { continuesLogs, writesDurably } = this.#endpoint;
    if (entry === undefined || !continuesLogs || !writesDurably) return undefined;
    if (this.#found !== undefined) {
      if (!this.hasLog || !this.#endsAt(entry.start_last_seq)) return undefined;
      return { body: JSON.stringify({ ...log, history: [entry] }), options: {} };
    }
    // A run that wrote one here has shown already what is to be compared. One whose copy of the source's log is our own has a history,
    // and nothing to put it behind.
    if (this.hasLog || earlier.length > 0) return undefined;
    const madeAt = this.instanceStartTime;
    return madeAt === UNKNOWN_START_TIME
      ? undefined
      : { body: JSON.stringify(log), options: { madeAt } };
  }

  /** Writes a log by its continuation. False: it was not written; the side has to be compared, and to be written as elsewhere. */
  async continue({ body, options }: Continuation, signal: AbortSignal): Promise<boolean> {
    const written = await this.#endpoint.continueLog(this.#id, body, signal, options);
    if (typeof written !== "string") return false;
    this.#revision = written;
    this.#found = undefined;
    return true;
  }

  /**
   * Makes durable what the side has; whether the database is the one that the run began with, as far as it says. `isShort`: the run is
   * so short that a server which acknowledges nothing that is not durable need not be asked for that.
   *
   * The information about the database and its checkpoint are requested at the same time. If the database was created again in
   * between, the run began at the checkpoint of the former one: then the checkpoint is gone, and this rejects.
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
      const reason = `The checkpoint is gone from the ${this.name} database.`;
      throw new EndpointError("checkpoint_commit_failure", reason);
    }
    this.#found = undefined;
    // Another run of the same replication has written one: it tells less of the database.
    const isOther = log.revision !== found.revision || log.body !== found.body;
    return isDurable && isOther ? this.#commit(signal) : isSame;
  }

  /** Writes a log over the one that is known to be there. Rejects when it is another one. */
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

  /** Where nothing else tells whether the database is the one that it was, the next checkpoint asks whether this one is there. */
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

  /** Settles as `asking` does; what fails is a commit. */
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
