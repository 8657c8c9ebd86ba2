/**
 * Detects runs that have stalled without an error, for example because of a dead connection or a
 * hanging server.
 */
import { OperationalError, type Runtime } from "../../base/index.ts";
import type { ReplicationOptions } from "../../contract/index.ts";
import type { Activity } from "../../http-client/index.ts";
import type { ReplicationRun } from "./replication-run.ts";

/** Number of checks per stall timeout. */
const LOOKS_PER_TIMEOUT = 8;

export class StallError extends OperationalError {
  override readonly name = "StallError";

  constructor(reason: string) {
    super("REPLICATOR_STALLED", "The replication is stalled", { reason });
  }
}

export interface WatchedRun {
  readonly run: ReplicationRun;
  readonly activity: Activity;
  /**
   * Whether an idle feed of the source shows activity. A server sends heartbeats, but a local
   * database does not.
   */
  readonly hasLiveFeed: boolean;
}

/** Throws a StallError when the run has made no progress for `timeoutMs`, although it has work. */
export async function watchRun(
  { clock }: Pick<Runtime, "clock">,
  { run, activity, hasLiveFeed }: WatchedRun,
  timeoutMs: number,
  ended: AbortSignal,
): Promise<void> {
  let movedAtMs = clock.monotonicMs();
  let before = run.progress;
  while (!ended.aborted) {
    await clock.sleep(timeoutMs / LOOKS_PER_TIMEOUT, ended).catch(() => {});
    const { progress } = run;
    const nowMs = clock.monotonicMs();
    const isMoving =
      progress.statistics !== before.statistics ||
      progress.throughSequence !== before.throughSequence ||
      progress.highestSequence !== before.highestSequence;
    const isIdle = run.hasBegun && !hasLiveFeed && !run.hasWork;
    if (isMoving || isIdle) movedAtMs = nowMs;
    before = progress;
    const silentMs = nowMs - Math.max(movedAtMs, activity.lastMs);
    if (silentMs > timeoutMs && !ended.aborted) {
      throw new StallError(`no progress for ${Math.round(silentMs / 1000)} s`);
    }
  }
}

/**
 * Returns the options for a run after `stallCount` consecutive stalls. Each stall after the first
 * halves the number of copiers and the maximum number of connections.
 */
export function afterStalls(stallCount: number, options: ReplicationOptions): ReplicationOptions {
  const divisor = 2 ** Math.max(0, stallCount - 1);
  const fewer = (count: number): number => Math.max(1, Math.floor(count / divisor));
  return {
    ...options,
    workerProcesses: fewer(options.workerProcesses),
    workerProcessesMax: fewer(options.workerProcessesMax),
    httpConnectionsMax: fewer(options.httpConnectionsMax),
  };
}
