/** A single run of a replication in this process, with the same parts as on a node. */
import {
  type Endpoint,
  type MemoryRunFailures,
  NO_OWN_CHECKPOINT,
  REPLICATOR_CONFIG_DEFAULT,
  type Replication,
  ReplicationRun,
  readFilterCode,
  replicationId,
  type TargetOrigin,
} from "../../replicator/index.ts";
import type { Connections } from "./connections.ts";

/**
 * Fixed uuid for runs from the shell, so that a run finds the checkpoints of a run on any other
 * machine.
 */
const SHELL_UUID = "0".repeat(32);

export interface ShellRun {
  readonly run: ReplicationRun;
  readonly source: Endpoint;
  readonly target: Endpoint;
}

class MemoryOrigin implements TargetOrigin {
  isCreatedHere = false;

  async note(isCreatedHere: boolean): Promise<void> {
    this.isCreatedHere = isCreatedHere;
  }
}

/** Fetches the code of the replication's filter, if any, from the source. */
export async function openShellRun(
  connections: Connections,
  replication: Replication,
  failures: MemoryRunFailures,
  signal: AbortSignal,
): Promise<ShellRun> {
  const { runtime } = connections;
  const config = REPLICATOR_CONFIG_DEFAULT;
  const context = {
    digests: runtime.digests,
    serverUuid: SHELL_UUID,
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
    secrets: connections.secrets,
    ownCheckpoint: NO_OWN_CHECKPOINT,
    copyLimits: config.copyLimits,
  });
  return { run, source, target };
}
