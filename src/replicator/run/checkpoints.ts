/** The two replication logs of a run: found at its start, and written during the run. */
import { errorCode, type JsonText } from "../../base/index.ts";
import {
  type Endpoint,
  EndpointError,
  type EndpointInfo,
  type SourceSequence,
  type StartTimes,
} from "../endpoints/endpoint.ts";
import type { ReplicationId } from "../request/replication-id.ts";
import type { OwnCheckpointStore } from "./own-checkpoint.ts";
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
  /** The revision of the stored log, to write over it. */
  revision: string | undefined;
}

/** A database, and when it was made. */
interface OpenSide {
  readonly endpoint: Endpoint;
  readonly info: Pick<EndpointInfo, "instanceStartTime">;
}

interface FoundRecord {
  readonly body: JsonText;
  readonly revision: string | undefined;
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

  /** Reads what both sides remember of the replication. */
  static async find(
    { source, target }: { readonly source: OpenSide; readonly target: OpenSide },
    ids: Pick<ReplicationId, "baseId" | "olderBaseIds">,
    own: OwnCheckpointStore,
    signal: AbortSignal,
  ): Promise<Checkpoints> {
    const [targetRecord, sourceRecord] = await findRecords(
      source.endpoint,
      target.endpoint,
      ids,
      signal,
    );
    const sides: Side[] = [
      {
        name: "source",
        endpoint: source.endpoint,
        instanceStartTime: source.info.instanceStartTime,
        revision: sourceRecord?.revision,
      },
      {
        name: "target",
        endpoint: target.endpoint,
        instanceStartTime: target.info.instanceStartTime,
        revision: targetRecord?.revision,
      },
    ];
    const targetLog = parseLog(targetRecord);
    const ownCopy = await own.read();
    // It is of use while both databases are those that it speaks of.
    const isCurrent =
      ownCopy !== undefined &&
      ownCopy.log.session_id === targetLog?.session_id &&
      sameStartTime(ownCopy.sourceStartTime, source.info.instanceStartTime);
    const sourceLog = isCurrent ? ownCopy.log : parseLog(sourceRecord);
    return new Checkpoints(ids.baseId, sides, sourceLog, targetLog, own);
  }

  /** Whether both sides have the log of a run that came as far as `sequence`, and no further. */
  isAt(sequence: SourceSequence): boolean {
    const isStored = this.#sides.every(({ revision }) => revision !== undefined);
    const found = this.ancestry.sequence;
    return isStored && found !== 0 && JSON.stringify(found) === JSON.stringify(sequence);
  }

  get startTimes(): StartTimes {
    const [source, target] = this.#sides.map(({ instanceStartTime }) => instanceStartTime);
    return { source: source ?? UNKNOWN_START_TIME, target: target ?? UNKNOWN_START_TIME };
  }

  /**
   * Makes durable what both sides have, then records it on both, source first. Rejects when a side is not the database any
   * more that it was at the start: what was copied may be gone. `areRead`: what both sides remember was read since the last document
   * was written. So they are the databases that they were, and a server that acknowledges nothing that is not durable is not asked.
   */
  async write(
    log: ReplicationLog,
    signal: AbortSignal,
    { areRead = false }: { readonly areRead?: boolean } = {},
  ): Promise<void> {
    const startTimes = await Promise.all(
      this.#sides.map((side) =>
        areRead && side.endpoint.writesDurably ? side.instanceStartTime : commit(side, signal),
      ),
    );
    const changed = this.#sides.filter(
      ({ instanceStartTime }, index) => !sameStartTime(instanceStartTime, startTimes[index]),
    );
    if (changed.length > 0) {
      const names = changed.map(({ name }) => name).join(" and ");
      throw new EndpointError(
        "checkpoint_commit_failure",
        `instance_start_time on ${names} database has changed since last checkpoint.`,
      );
    }
    const body = JSON.stringify(log);
    for (const side of this.#sides) {
      try {
        await this.#writeSide(side, body, signal);
      } catch (error) {
        if (side.name !== "source" || !isReadOnly(error)) throw error;
        await this.#own.write({ log, sourceStartTime: side.instanceStartTime });
      }
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

/** What the target remembers, and the source. */
async function findRecords(
  source: Endpoint,
  target: Endpoint,
  ids: Pick<ReplicationId, "baseId" | "olderBaseIds">,
  signal: AbortSignal,
): Promise<[target: FoundRecord | undefined, source: FoundRecord | undefined]> {
  if (ids.olderBaseIds.length === 0) {
    return Promise.all([findRecord(target, ids, signal), findRecord(source, ids, signal)]);
  }
  const atTarget = await findRecord(target, ids, signal);
  // Without a record on the target nothing is in common, whatever the source knows under older ids.
  const sourceIds = atTarget === undefined ? { ...ids, olderBaseIds: [] } : ids;
  return [atTarget, await findRecord(source, sourceIds, signal)];
}

/** What an endpoint remembers, under the id of today or under an older one: that is written under the new one, so it has no revision here. */
async function findRecord(
  endpoint: Endpoint,
  { baseId, olderBaseIds }: Pick<ReplicationId, "baseId" | "olderBaseIds">,
  signal: AbortSignal,
): Promise<FoundRecord | undefined> {
  const current = await endpoint.readLocal(baseId, signal);
  if (current !== undefined) return current;
  for (const id of olderBaseIds) {
    const older = await endpoint.readLocal(id, signal);
    if (older !== undefined) return { body: older.body, revision: undefined };
  }
  return undefined;
}

async function commit(side: Side, signal: AbortSignal): Promise<string> {
  try {
    return await side.endpoint.commit(signal);
  } catch (error) {
    signal.throwIfAborted();
    if (errorCode(error) !== "REPLICATOR_ENDPOINT_FAILED") throw error;
    const { reason } = error as EndpointError;
    throw new EndpointError(
      "checkpoint_commit_failure",
      `Failure on ${side.name} commit: ${reason}`,
      { cause: error },
    );
  }
}

/** The endpoint may be read, and not written. */
function isReadOnly(error: unknown): boolean {
  return error instanceof EndpointError && error.error === "read_only";
}

function sameStartTime(before: string, now: string | undefined): boolean {
  return before === now || before === UNKNOWN_START_TIME || now === UNKNOWN_START_TIME;
}

function parseLog(record: FoundRecord | undefined): ReplicationLog | undefined {
  return record && parseReplicationLog(record.body);
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
