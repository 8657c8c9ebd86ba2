/** The parts of a node as `src/server` puts them together, on any runtime and store, without sockets. */
import type { Runtime } from "../../src/base/index.ts";
import { AttachmentStore, type DatabaseHook, DatabaseRegistry } from "../../src/databases/index.ts";
import { SandboxPool } from "../../src/host/sandbox-pool.ts";
import type { Fetch } from "../../src/http-client/index.ts";
import { InLoopLeaseRenewer, Jobs, JobWorker } from "../../src/jobs/index.ts";
import { type KeyValueStore, Subspace } from "../../src/kv/index.ts";
import {
  AbandonedReplications,
  Budgets,
  Endpoints,
  FailureList,
  JobControls,
  Outages,
  OwnCheckpoints,
  REPLICATION_JOB_TYPE,
  REPLICATOR_CONFIG_DEFAULT,
  RemovedDatabases,
  ReplicationHook,
  ReplicationOwnership,
  Replicator,
  type ReplicatorConfig,
  Scheduler,
  VALIDATION_HOOK,
} from "../../src/replicator/index.ts";

export const JOBS_SUBSPACE = Subspace.fromTuple(["jobs"]);

export interface NodeParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly config?: Partial<ReplicatorConfig>;
  /** The longest list of failures. */
  readonly failuresMax?: number;
  readonly fetch?: Fetch;
  readonly nodeName?: string;
  readonly jobs?: Jobs;
  /** Beside those of the program. */
  readonly hooks?: readonly DatabaseHook[];
}

export function composeNode({
  runtime,
  kv,
  config = {},
  failuresMax,
  fetch = async () => {
    throw new Error("No network here");
  },
  nodeName = "tandem@test",
  jobs = new Jobs(runtime, JOBS_SUBSPACE),
  hooks = [],
}: NodeParts) {
  // A getter stays one: settings are read at each use.
  const settings: ReplicatorConfig = Object.defineProperties(
    { ...REPLICATOR_CONFIG_DEFAULT, penaltySecMin: 1 },
    Object.getOwnPropertyDescriptors(config),
  );
  const ownership = new ReplicationOwnership(Subspace.fromTuple(["replicator"]), jobs);
  const replicatorSpace = Subspace.fromTuple(["replicator"]);
  const controls = new JobControls(replicatorSpace);
  const budgets = new Budgets({ runtime, kv, subspace: replicatorSpace });
  const failureList = new FailureList(replicatorSpace, runtime.digests, failuresMax);
  const removedDatabases = new RemovedDatabases({
    runtime,
    kv,
    subspace: replicatorSpace,
    jobs,
    ownership,
    controls,
  });
  const hook = new ReplicationHook({
    runtime,
    jobs,
    ownership,
    controls,
    removedDatabases,
    config: settings,
  });
  const databases = new DatabaseRegistry({
    runtime,
    root: Subspace.fromTuple(["databases"]),
    hooks: [hook, VALIDATION_HOOK, ...hooks],
  });
  const attachments = new AttachmentStore({ runtime, kv });
  // Its threads do not outlive the tests.
  const sandbox = new SandboxPool(runtime);
  const serverUrl = "http://127.0.0.1:5984/";
  const ids = {
    digests: runtime.digests,
    serverUuid: "0".repeat(32),
    hostName: "host",
    port: 5984,
    serverUrl,
  };
  const endpoints = new Endpoints({
    runtime,
    kv,
    databases,
    attachments,
    functions: { sandbox, timeoutMs: 1_000 },
    resolveUser: async (userName) => ({ userName, roles: [], isAdmin: true }),
    limits: { documentBytesMax: 8 * 1024 * 1024 },
    serverUrl,
    fetch,
    parseMultipart: async function* () {},
    userAgent: "Tandem",
    spendingFor: (address) => budgets.spendingFor(address),
    config: settings,
  });
  const replicator = new Replicator({
    runtime,
    kv,
    jobs,
    ownership,
    failureList,
    controls,
    abandoned: new AbandonedReplications(runtime, kv, replicatorSpace),
    databases,
    ids,
    config: settings,
  });
  const { workers } = jobs;
  const worker = new JobWorker({
    runtime,
    kv,
    jobs,
    renewer: new InLoopLeaseRenewer({ clock: runtime.clock, kv, workers }),
    node: nodeName,
    processId: "1",
    types: [REPLICATION_JOB_TYPE],
    leaseMs: settings.workerLeaseSec * 1000,
  });
  const outages = new Outages({ runtime, kv, jobs, fetch, subspace: replicatorSpace });
  const scheduler = new Scheduler(
    {
      runtime,
      kv,
      jobs,
      databases,
      endpoints,
      ownership,
      failureList,
      controls,
      ownCheckpoints: new OwnCheckpoints(kv, replicatorSpace),
      outages,
      ids,
      config: settings,
      nodeName,
      processId: "1",
    },
    replicator,
    worker,
  );
  return {
    runtime,
    kv,
    jobs,
    databases,
    failureList,
    ids,
    endpoints,
    replicator,
    scheduler,
    outages,
    removedDatabases,
  };
}
