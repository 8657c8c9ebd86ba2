/**
 * One replication run between distant servers in virtual time. The run and the endpoints are real,
 * and there is no job.
 */

import { SecretsInUse } from "../../../src/http-client/index.ts";
import {
  MemoryRunFailures,
  NO_OWN_CHECKPOINT,
  parseReplication,
  REPLICATOR_CONFIG_DEFAULT,
  ReplicationRun,
  replicationId,
  StopRequest,
} from "../../../src/replicator/index.ts";
import { composeNode } from "../../support/compose-node.ts";
import { World } from "../kernel/world.ts";
import {
  DistantServers,
  type DistantServersOptions,
  SOURCE_URL,
  TARGET_URL,
} from "./distant-servers.ts";

export interface FarRun {
  readonly servers: DistantServers;
  /** Duration of the replication in virtual time. */
  readonly elapsedMs: number;
}

/** Runs the replication until it ends, or until `untilMs`. */
export async function replicateFar(
  options: DistantServersOptions,
  members: object = {},
  untilMs?: number,
): Promise<FarRun> {
  const world = new World("distance");
  const { runtime, kv } = world.openNode();
  const servers = new DistantServers(world.time, options);
  const { endpoints } = composeNode({ runtime, kv, fetch: servers.fetch });
  const replication = parseReplication({ source: SOURCE_URL, target: TARGET_URL, ...members });
  const owner = { userName: null };
  const context = {
    digests: runtime.digests,
    serverUuid: "0".repeat(32),
    hostName: "",
    port: 0,
    serverUrl: "",
  };
  const run = new ReplicationRun({
    runtime,
    source: endpoints.open(replication.source, replication.options, owner),
    target: endpoints.open(replication.target, replication.options, owner),
    replication,
    ids: replicationId(context, replication, undefined),
    mayWrite: async () => {},
    failures: new MemoryRunFailures(),
    secrets: new SecretsInUse(),
    ownCheckpoint: NO_OWN_CHECKPOINT,
    copyLimits: REPLICATOR_CONFIG_DEFAULT.copyLimits,
  });
  const stopping = new AbortController();
  const running = run.run(stopping.signal);
  if (untilMs !== undefined) {
    await world.time.run(untilMs);
    stopping.abort(new StopRequest());
  }
  await world.until(running);
  return { servers, elapsedMs: world.time.nowMs };
}
