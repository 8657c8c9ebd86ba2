/** The replication logs of both sides: finds the common checkpoint, and writes new checkpoints. */
import {
  EndpointError,
  isSameSequence,
  type SourceSequence,
  type StartTimes,
} from "../endpoints/endpoint.ts";
import { type Continuation, LoggedSide } from "./logged-side.ts";
import type { OwnCheckpointStore } from "./own-checkpoint.ts";
import {
  type CommonAncestry,
  commonAncestry,
  passedFailures,
  type ReplicationLog,
} from "./replication-log.ts";
import { type FoundSide, isReadOnly, mayBeSame } from "./stored-log.ts";

interface Sides {
  readonly source: LoggedSide;
  readonly target: LoggedSide;
}

export class Checkpoints {
  readonly ancestry: CommonAncestry;
  /** The source's log at the start of the run. */
  readonly sourceLog: ReplicationLog | undefined;
  /** Whether earlier runs might have skipped failed documents. */
  readonly passedFailures: boolean;
  readonly #sides: Sides;
  readonly #own: OwnCheckpointStore;

  private constructor(
    sides: Sides,
    sourceLog: ReplicationLog | undefined,
    own: OwnCheckpointStore,
  ) {
    const targetLog = sides.target.log;
    this.#sides = sides;
    this.#own = own;
    this.sourceLog = sourceLog;
    this.passedFailures = passedFailures(sourceLog) || passedFailures(targetLog);
    this.ancestry = commonAncestry(sourceLog, targetLog);
  }

  /**
   * Determines the common checkpoint from both logs or, if they differ, from the target's log and
   * this node's copy of the source's log (`own-checkpoint.ts`).
   */
  static async of(
    baseId: string,
    found: { readonly source: FoundSide; readonly target: FoundSide },
    own: OwnCheckpointStore,
  ): Promise<Checkpoints> {
    const source = new LoggedSide("source", found.source, baseId);
    const target = new LoggedSide("target", found.target, baseId);
    const mayUseCopy = target.log !== undefined && source.log?.session_id !== target.log.session_id;
    const ownCopy = mayUseCopy ? await own.read() : undefined;
    // The local copy is valid only if both databases are unchanged.
    const isCurrent =
      ownCopy !== undefined &&
      ownCopy.log.session_id === target.log?.session_id &&
      mayBeSame(ownCopy.sourceStartTime, source.instanceStartTime);
    return new Checkpoints({ source, target }, isCurrent ? ownCopy.log : source.log, own);
  }

  /** Whether both sides have the log of a run that ended at exactly `sequence`. */
  isAt(sequence: SourceSequence): boolean {
    const { source, target } = this.#sides;
    const found = this.ancestry.sequence;
    return source.hasLog && target.hasLog && found !== 0 && isSameSequence(found, sequence);
  }

  get startTimes(): StartTimes {
    const { source, target } = this.#sides;
    return { source: source.instanceStartTime, target: target.instanceStartTime };
  }

  /**
   * Makes the writes to both sides durable, then writes the log to both sides. Rejects if a
   * database was re-created after the start of the run, because it might lack copied documents.
   * With `isShort`, a server whose acknowledged writes are durable gets no commit request. If it
   * also supports `continueLog`, one request verifies its database and writes the log.
   */
  async write(
    log: ReplicationLog,
    signal: AbortSignal,
    { isShort }: { readonly isShort: boolean },
  ): Promise<void> {
    const sides = [this.#sides.source, this.#sides.target].map((side) => ({
      side,
      continuation: isShort ? side.continuation(log) : undefined,
    }));
    const areSame = await Promise.all(
      sides.map(async ({ side, continuation }) =>
        continuation === undefined ? side.makeDurable(isShort, signal) : true,
      ),
    );
    assertSame(sides.flatMap(({ side }, index) => (areSame[index] ? [] : [side])));
    const recorded = await Promise.allSettled(
      sides.map(({ side, continuation }) => this.#record(side, log, continuation, signal)),
    );
    for (const outcome of recorded) if (outcome.status === "rejected") throw outcome.reason;
  }

  async #record(
    side: LoggedSide,
    log: ReplicationLog,
    continuation: Continuation | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    if (continuation !== undefined) {
      if (await side.continue(continuation, signal)) return;
      if (!(await side.makeDurable(true, signal))) assertSame([side]);
    }
    try {
      await side.write(JSON.stringify(log), signal);
    } catch (error) {
      if (side.name !== "source" || !isReadOnly(error)) throw error;
      await this.#own.write({ log, sourceStartTime: side.instanceStartTime });
    }
  }
}

/** Throws if `changed`, the sides whose database has changed, is not empty. */
function assertSame(changed: readonly LoggedSide[]): void {
  if (changed.length === 0) return;
  const names = changed.map(({ name }) => name).join(" and ");
  throw new EndpointError(
    "checkpoint_commit_failure",
    `instance_start_time on ${names} database has changed since last checkpoint.`,
  );
}
