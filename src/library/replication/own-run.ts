/** A single run of a replication in this process, with the same parts as on a node. */
import {
  type Endpoint,
  type MemoryRunFailures,
  NO_OWN_CHECKPOINT,
  REPLICATOR_CONFIG_DEFAULT,
  type Replication,
  type ReplicationIdContext,
  ReplicationRun,
  readFilterCode,
  replicationId,
  type TargetOrigin,
} from "../../replicator/index.ts";
import { CaughtUp } from "./caught-up.ts";
import type { Connections } from "./connections.ts";

/**
 * Fixed uuid, so that a run finds the checkpoints of an earlier run in any other process.
 */
const OWN_UUID = "0".repeat(32);

export interface OwnRun {
  readonly run: ReplicationRun;
  readonly source: Endpoint;
  readonly target: Endpoint;
  readonly caughtUp: CaughtUp;
}

export interface OwnRunParts {
  readonly connections: Pick<Connections, "runtime" | "secrets" | "open">;
  readonly failures: MemoryRunFailures;
  /** Context of the replication id if a side is a database of a node. */
  readonly ids?: ReplicationIdContext | undefined;
  /** Called when the progress or `caughtUp` changes. */
  readonly onProgress?: () => void;
  /**
   * Whether a one-shot run has to count its pending changes, for those who follow its progress.
   * Default: yes.
   */
  readonly isFollowed?: () => boolean;
}

class MemoryOrigin implements TargetOrigin {
  isCreatedHere = false;

  async note(isCreatedHere: boolean): Promise<void> {
    this.isCreatedHere = isCreatedHere;
  }
}

/** Opens a run. Fetches the code of the replication's filter, if any, from the source. */
export async function openOwnRun(
  { connections, failures, ids, onProgress = () => {}, isFollowed = () => true }: OwnRunParts,
  replication: Replication,
  signal: AbortSignal,
): Promise<OwnRun> {
  const { runtime, secrets } = connections;
  const config = REPLICATOR_CONFIG_DEFAULT;
  const context = ids ?? {
    digests: runtime.digests,
    serverUuid: OWN_UUID,
    hostName: "",
    port: 0,
    serverUrl: "",
  };
  const source = connections.open(replication, "source");
  const limit = { clock: runtime.clock, timeoutMs: config.stallTimeoutSec * 1000 };
  const filterCode = await readFilterCode(replication, () => source, limit, signal);
  const target = connections.open(replication, "target");
  const run = new ReplicationRun({
    runtime,
    source,
    target,
    replication,
    targetOrigin: new MemoryOrigin(),
    ids: replicationId(context, replication, filterCode),
    mayWrite: async () => {},
    failures,
    secrets,
    ownCheckpoint: NO_OWN_CHECKPOINT,
    copyLimits: config.copyLimits,
    onProgress: () => {
      caughtUp.look();
      onProgress();
    },
  });
  const caughtUp = new CaughtUp({
    clock: runtime.clock,
    run,
    source,
    isNeeded: () => replication.continuous || isFollowed(),
    onChange: onProgress,
  });
  return { run, source, target, caughtUp };
}
