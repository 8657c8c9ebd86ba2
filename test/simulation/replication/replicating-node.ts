/**
 * A node that runs replications. It has the components and the services of a server, without
 * sockets.
 */
import type { DatabaseHook } from "../../../src/databases/index.ts";
import type { Fetch } from "../../../src/http-client/index.ts";
import { ActivityMonitor, Jobs } from "../../../src/jobs/index.ts";
import { type Endpoints, JOB_TYPES } from "../../../src/replicator/index.ts";
import { supervise } from "../../../src/server/supervise.ts";
import { composeNode, JOBS_SUBSPACE } from "../../support/compose-node.ts";
import { recordJobs } from "../jobs/ledger.ts";
import { OlderJobs } from "../jobs/older-jobs.ts";
import type { SimulatedNode } from "../kernel/simulated-node.ts";
import type { World } from "../kernel/world.ts";
import { SYNCHRONOUS_SANDBOX } from "../network/synchronous-sandbox.ts";
import { recordCopies, recordHolds } from "./copies.ts";
import { Fences } from "./fences.ts";
import type { ReplicationKnobs } from "./knobs.ts";

export interface ReplicatingNodeParts {
  readonly world: World;
  readonly node: SimulatedNode;
  readonly knobs: ReplicationKnobs;
  readonly jobsMax: number;
  readonly format: 1 | 2 | undefined;
  readonly fetch: Fetch;
  readonly refusing: DatabaseHook;
  /** Databases into which at most one job may write at a time. */
  readonly targets: ReadonlySet<string>;
  /** Modifies the node's endpoints, for example to inject faults. */
  readonly endpointsOver?: ((endpoints: Endpoints) => void) | undefined;
  readonly openJobs?: ((...parts: ConstructorParameters<typeof Jobs>) => Jobs) | undefined;
}

/** Runs the node until the signal aborts. */
export async function runReplicatingNode(
  parts: ReplicatingNodeParts,
  signal: AbortSignal,
): Promise<void> {
  const { world, node, knobs, jobsMax, fetch, refusing, targets, endpointsOver } = parts;
  const { runtime, kv, name } = node;
  const fences = new Fences((id) => world.announce(name, "simulation.unfenced", { id }));
  const composed = composeNode({
    runtime,
    kv,
    nodeName: name,
    config: { ...knobs.config, jobsMax },
    ...(knobs.failuresMax === undefined ? {} : { failuresMax: knobs.failuresMax }),
    jobs: fences.watchJobs(
      recordHolds(recordJobs(openJobs(parts), JOBS_SUBSPACE, world, node), node),
    ),
    fetch,
    hooks: [recordCopies(node, targets), refusing],
    sandbox: SYNCHRONOUS_SANDBOX,
  });
  fences.watchEndpoints(composed.endpoints);
  endpointsOver?.(composed.endpoints);
  const { jobs, budgets, removedDatabases, remover, outages, scheduler } = composed;
  const monitors = JOB_TYPES.map((type) => new ActivityMonitor(runtime, kv, jobs, type));
  const services = [...monitors, budgets, removedDatabases, remover, outages, scheduler];
  await Promise.race([supervise(runtime, services, signal), node.crashed]);
}

function openJobs({ node, format, openJobs: open }: ReplicatingNodeParts): Jobs {
  if (open !== undefined) return open(node.runtime, JOBS_SUBSPACE);
  if (format !== undefined) return new OlderJobs(node.runtime, JOBS_SUBSPACE, format);
  return new Jobs(node.runtime, JOBS_SUBSPACE);
}
