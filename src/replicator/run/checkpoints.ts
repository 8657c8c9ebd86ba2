/** The two replication logs of a run: found at its start, and written during the run. */
import { allTogether, errorCode, type JsonText } from "../../base/index.ts";
import {
  type Endpoint,
  EndpointError,
  type EndpointInfo,
  isSameSequence,
  type SourceSequence,
  type StartTimes,
} from "../endpoints/endpoint.ts";
import type { OwnCheckpoint, OwnCheckpointStore } from "./own-checkpoint.ts";
import {
  type CommonAncestry,
  commonAncestry,
  parseReplicationLog,
  passedFailures,
  type ReplicationLog,
} from "./replication-log.ts";

interface Side {
  readonly name: "source" | "target";
  readonly endpoint: Endpoint;
  readonly instanceStartTime: string;
  /** The log that the run began from, until a checkpoint has shown that it is still there; undefined: there was none. */
  found: FoundLog | undefined;
  /** The revision of the stored log, to write over it. */
  revision: string | undefined;
}

/** A database as a run finds it: when it was made, and what it remembers of the replication. */
export interface FoundSide {
  readonly endpoint: Endpoint;
  readonly info: Pick<EndpointInfo, "instanceStartTime">;
  readonly log: FoundLog | undefined;
}

/** The text of a log, and where it is. */
export interface FoundLog {
  /** That of today, or an older one. */
  readonly id: string;
  readonly revision: string;
  readonly body: JsonText;
}

interface WriteOptions {
  readonly isShort: boolean;
}

/** Servers that do not know when a database was made say so; it compares equal to anything (CouchDB 3.5). */
const UNKNOWN_START_TIME = "0";

export class Checkpoints {
  readonly ancestry: CommonAncestry;
  /** The source's log as it was found. */
  readonly sourceLog: ReplicationLog | undefined;
  /** Whether earlier runs may have left documents behind. */
  readonly passedFailures: boolean;
  readonly #id: string;
  readonly #sides: readonly Side[];
  readonly #own: OwnCheckpointStore;

  private constructor(
    id: string,
    sides: readonly Side[],
    sourceLog: ReplicationLog | undefined,
    targetLog: ReplicationLog | undefined,
    own: OwnCheckpointStore,
  ) {
    this.#id = id;
    this.#sides = sides;
    this.#own = own;
    this.sourceLog = sourceLog;
    this.passedFailures = passedFailures(sourceLog) || passedFailures(targetLog);
    this.ancestry = commonAncestry(sourceLog, targetLog);
  }

  /** What both sides remember of the replication, and we ourselves (`own-checkpoint.ts`). */
  static of(
    baseId: string,
    { source, target }: { readonly source: FoundSide; readonly target: FoundSide },
    ownCopy: OwnCheckpoint | undefined,
    own: OwnCheckpointStore,
  ): Checkpoints {
    const sides = [openSide("source", source, baseId), openSide("target", target, baseId)];
    const targetLog = parseLog(target.log);
    // It is of use while both databases are those that it speaks of.
    const isCurrent =
      ownCopy !== undefined &&
      ownCopy.log.session_id === targetLog?.session_id &&
      sameStartTime(ownCopy.sourceStartTime, source.info.instanceStartTime);
    const sourceLog = isCurrent ? ownCopy.log : parseLog(source.log);
    return new Checkpoints(baseId, sides, sourceLog, targetLog, own);
  }

  /** Whether both sides have the log of a run that came as far as `sequence`, and no further. */
  isAt(sequence: SourceSequence): boolean {
    const isStored = this.#sides.every(({ revision }) => revision !== undefined);
    const found = this.ancestry.sequence;
    return isStored && found !== 0 && isSameSequence(found, sequence);
  }

  get startTimes(): StartTimes {
    const [source, target] = this.#sides.map(({ instanceStartTime }) => instanceStartTime);
    return { source: source ?? UNKNOWN_START_TIME, target: target ?? UNKNOWN_START_TIME };
  }

  /**
   * Makes durable what both sides have, and then records it on both. Rejects when a side is not the database any more that it was
   * at the start: what was copied may be gone. `isShort`: the run is so short that a server which acknowledges nothing that is not
   * durable need not be asked for that.
   */
  async write(log: ReplicationLog, signal: AbortSignal, { isShort }: WriteOptions): Promise<void> {
    // One whose copy of the source's log is our own has a history, and nothing to put it behind.
    const isFirst = log.history?.length === 1;
    const comparing = new Set(isShort && isFirst ? this.#sides.filter(comparesByItself) : []);
    const startTimes = await Promise.all(
      this.#sides.map((side) =>
        comparing.has(side) ? side.instanceStartTime : makeDurable(side, isShort, signal),
      ),
    );
    assertSame(
      this.#sides.filter(
        ({ instanceStartTime }, index) => !sameStartTime(instanceStartTime, startTimes[index]),
      ),
    );
    const body = JSON.stringify(log);
    const recorded = await Promise.allSettled(
      this.#sides.map(async (side) => {
        if (comparing.has(side) && (await this.#begin(side, body, signal))) return;
        await this.#record(side, log, body, signal);
      }),
    );
    for (const outcome of recorded) if (outcome.status === "rejected") throw outcome.reason;
  }

  /** Writes the first log of a side that compares by itself. False: it was not written, and the database is the one that it was. */
  async #begin(side: Side, body: JsonText, signal: AbortSignal): Promise<boolean> {
    const { endpoint, instanceStartTime: madeAt } = side;
    const written = await endpoint.continueLog(this.#id, body, signal, { madeAt });
    if (typeof written === "string") {
      side.revision = written;
      return true;
    }
    if (!sameStartTime(madeAt, await commit(side, signal))) assertSame([side]);
    return false;
  }

  async #record(
    side: Side,
    log: ReplicationLog,
    body: JsonText,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await this.#writeSide(side, body, signal);
    } catch (error) {
      if (side.name !== "source" || !isReadOnly(error)) throw error;
      await this.#own.write({ log, sourceStartTime: side.instanceStartTime });
    }
  }

  async #writeSide(side: Side, body: JsonText, signal: AbortSignal): Promise<void> {
    const { endpoint, revision, instanceStartTime } = side;
    const written = await endpoint.writeLocal(this.#id, body, revision, signal, instanceStartTime);
    if (written !== undefined) {
      side.revision = written;
      return;
    }
    // An answer may have been lost: what is there may be what we wrote.
    const current = await side.endpoint.readLocal(this.#id, signal);
    if (current !== undefined && sameJson(current.body, body)) {
      side.revision = current.revision;
      return;
    }
    throw new EndpointError(
      "checkpoint_commit_failure",
      `Error updating the ${side.name} checkpoint document: conflict`,
    );
  }
}

/** The log that an endpoint has under this id. */
export async function readLog(
  endpoint: Endpoint,
  id: string,
  signal: AbortSignal,
): Promise<FoundLog | undefined> {
  const stored = await endpoint.readLocal(id, signal);
  return stored && { id, revision: stored.revision, body: stored.body };
}

/** The log that an endpoint has under one of these ids, the first that there is. */
export async function readOlderLog(
  endpoint: Endpoint,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<FoundLog | undefined> {
  const found = await allTogether(
    signal,
    ids.map((id) => (taskSignal: AbortSignal) => readLog(endpoint, id, taskSignal)),
  );
  return found.find((log) => log !== undefined);
}

/** What was found under an older id is written under that of today, so it has no revision there. */
function openSide(name: Side["name"], { endpoint, info, log }: FoundSide, baseId: string): Side {
  const { instanceStartTime } = info;
  const revision = log?.id === baseId ? log.revision : undefined;
  return { name, endpoint, instanceStartTime, found: log, revision };
}

/**
 * Whether the side writes its first log only if the database is the one that it was, in one request (decision 299), and acknowledges
 * nothing that is not durable.
 */
function comparesByItself({ endpoint, found, revision, instanceStartTime }: Side): boolean {
  const isEmpty = found === undefined && revision === undefined;
  const isKnown = instanceStartTime !== UNKNOWN_START_TIME;
  return isEmpty && isKnown && endpoint.writesDurably && endpoint.continuesLogs;
}

/** Throws when there are sides whose database is not the one that it was. */
function assertSame(changed: readonly Side[]): void {
  if (changed.length === 0) return;
  const names = changed.map(({ name }) => name).join(" and ");
  throw new EndpointError(
    "checkpoint_commit_failure",
    `instance_start_time on ${names} database has changed since last checkpoint.`,
  );
}

/**
 * Makes durable what the side has; when it was made, as it says then.
 *
 * What it is and what it remembers are asked at once. So it may have been made anew in between, and the run have begun where
 * the former one was: then the log is gone.
 */
async function makeDurable(side: Side, isShort: boolean, signal: AbortSignal): Promise<string> {
  const { endpoint, name, found, instanceStartTime } = side;
  const isDurable = isShort && endpoint.writesDurably;
  if (found === undefined) return commit(side, signal);
  const [startTime, log] = await allTogether<[string, FoundLog | undefined]>(signal, [
    async (taskSignal) => (isDurable ? instanceStartTime : commit(side, taskSignal)),
    (taskSignal) => asCommit(name, readLog(endpoint, found.id, taskSignal), taskSignal),
  ]);
  if (log === undefined) {
    const reason = `The checkpoint is gone from the ${name} database.`;
    throw new EndpointError("checkpoint_commit_failure", reason);
  }
  side.found = undefined;
  // Another run of the same replication has written one: it tells less of the database.
  const isOther = log.revision !== found.revision || log.body !== found.body;
  return isDurable && isOther ? commit(side, signal) : startTime;
}

function commit({ name, endpoint }: Side, signal: AbortSignal): Promise<string> {
  return asCommit(name, endpoint.commit(signal), signal);
}

/** Settles as `asking` does; what fails is a commit. */
async function asCommit<T>(
  name: Side["name"],
  asking: Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  try {
    return await asking;
  } catch (error) {
    signal.throwIfAborted();
    if (errorCode(error) !== "REPLICATOR_ENDPOINT_FAILED") throw error;
    const { reason } = error as EndpointError;
    throw new EndpointError("checkpoint_commit_failure", `Failure on ${name} commit: ${reason}`, {
      cause: error,
    });
  }
}

/** The endpoint may be read, and not written. */
function isReadOnly(error: unknown): boolean {
  return error instanceof EndpointError && error.error === "read_only";
}

/** Whether a database is surely the one that it was; one that does not say when it was made may be another. */
export function isSameDatabase(before: string, now: string): boolean {
  return before === now && now !== UNKNOWN_START_TIME;
}

/** Whether a database may be the one that it was, as far as it says when it was made. */
export function sameStartTime(before: string, now: string | undefined): boolean {
  return before === now || before === UNKNOWN_START_TIME || now === UNKNOWN_START_TIME;
}

function parseLog(log: FoundLog | undefined): ReplicationLog | undefined {
  return log && parseReplicationLog(log.body);
}

function sameJson(left: JsonText, right: JsonText): boolean {
  return JSON.stringify(sorted(JSON.parse(left))) === JSON.stringify(sorted(JSON.parse(right)));
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(entries.map(([name, item]) => [name, sorted(item)]));
}
