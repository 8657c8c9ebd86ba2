/**
 * The parts of a node, and how they are connected. They work on any runtime and store, so a server,
 * tests and a simulated cluster all use them. A server adds the parts that serve requests
 * (`open-server.ts`).
 */
import type { JsonText, Runtime, Seal } from "../base/index.ts";
import { AttachmentStore, type DatabaseHook, DatabaseRegistry } from "../databases/index.ts";
import { type DesignFunctions, VALIDATION_HOOK } from "../documents/index.ts";
import { INDEX_JOB_TYPE, IndexBuilds, Indexes, scheduleBuild } from "../indexes/index.ts";
import {
  Jobs,
  JobWorker,
  type Labels,
  type LeaseRenewer,
  type Program,
  SlotlessJobs,
} from "../jobs/index.ts";
import {
  type KeyValueStore,
  type ReadTransaction,
  Remover,
  type StoreFormat,
} from "../kv/index.ts";
import {
  AbandonedReplications,
  Backlogs,
  BacklogWatch,
  Budgets,
  CHAIN_TYPE,
  ChainJobs,
  Chains,
  CleanUp,
  ClockSteps,
  COMMAND_TYPE,
  CommandJobs,
  continueLog,
  Endpoints,
  type EndpointsParts,
  FailureLists,
  HaltedRuns,
  IndexFolder,
  JOB_TYPES,
  JobControls,
  JobEventLog,
  JobIndex,
  JobRuns,
  LOCAL_RULE_TYPE,
  NodeReporter,
  NodeStore,
  Outages,
  OwnCheckpoints,
  ParkedJobs,
  type ProcessMeasure,
  Questions,
  REPLICATION_JOB_TYPE,
  RemovedDatabases,
  ReplicationChecks,
  ReplicationHook,
  type ReplicationIdContext,
  ReplicationJob,
  ReplicationOwnership,
  Replicator,
  type ReplicatorConfig,
  RULE_TYPES,
  RuleFollowers,
  RulePlans,
  RuleStore,
  type RunCounts,
  Scheduler,
  SourceWatches,
  StoredLoginGates,
  SweepPace,
} from "../replicator/index.ts";
import { DOCUMENTS_FORMAT, JOB_LISTS_FORMAT, PLACEMENT_FORMAT } from "./formats.ts";
import { SUBSPACES } from "./layout.ts";
import { sealedRequests } from "./secrets/sealed-forms.ts";

/** The job types that a node runs. */
export const ALL_JOB_TYPES: readonly string[] = [...JOB_TYPES, INDEX_JOB_TYPE];

export interface NodePartsOptions {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  /** The format in which rows are written. Default: the newest. */
  readonly format?: Pick<StoreFormat, "includes">;
  readonly ids: ReplicationIdContext;
  readonly config: ReplicatorConfig;
  /** Executes expensive selectors, and functions of design documents. */
  readonly functions: DesignFunctions;
  readonly hooks?: readonly DatabaseHook[];
  readonly securityDefault?: () => JsonText;
  readonly keepOldBodiesMs?: () => number;
  readonly timeMinMs?: () => number;
  readonly jobs?: Jobs;
  /** Seals job requests and replication documents in the store. Default: stored unsealed. */
  readonly seal?: Seal;
  /** Maximum number of failed documents listed for a job. */
  readonly failuresMax?: number | undefined;
  readonly nodeName: string;
}

export type NodeParts = ReturnType<typeof joinNodeParts>;

/**
 * Creates the databases, the queue and the replicator. Every node has them, because a frontend also
 * accepts jobs, which other nodes then run.
 */
export function joinNodeParts({
  runtime,
  kv,
  format = { includes: async () => true },
  ids,
  config,
  functions,
  hooks = [],
  securityDefault,
  keepOldBodiesMs,
  timeMinMs,
  seal,
  jobs = new Jobs(runtime, SUBSPACES.jobs, seal && sealedRequests(seal)),
  failuresMax,
  nodeName,
}: NodePartsOptions) {
  const subspace = SUBSPACES.replicator;
  const events = new JobEventLog(runtime.clock, subspace);
  const ruleStore = new RuleStore(subspace, seal);
  const index = new JobIndex(jobs, subspace, events, (tx) => format.includes(tx, JOB_LISTS_FORMAT));
  jobs.setObserver(REPLICATION_JOB_TYPE, index);
  const ownership = new ReplicationOwnership(subspace, jobs);
  const controls = new JobControls(subspace);
  const budgets = new Budgets({ runtime, kv, subspace });
  const failureLists = new FailureLists(subspace, runtime.digests, index, failuresMax);
  const backlogs = new Backlogs(subspace, index);
  const runs = new JobRuns(subspace);
  const parked = new ParkedJobs(subspace, jobs);
  const halted = new HaltedRuns({ runtime, kv, jobs, subspace, config });
  const chains: Chains = new Chains({
    runtime,
    jobs,
    subspace,
    findDatabase: (tx, name) => databases.find(tx, name),
    findRule: (tx, name) => ruleStore.get(tx, name),
  });
  const loginGates = new StoredLoginGates({ runtime, kv, subspace, seal });
  const owned = {
    runtime,
    kv,
    jobs,
    ownership,
    controls,
    backlogs,
    runs,
    events,
    parked,
    halted,
    chains,
    loginGates,
    hasPlacement: (tx: ReadTransaction) => format.includes(tx, PLACEMENT_FORMAT),
  };
  const removedDatabases = new RemovedDatabases({ ...owned, subspace });
  const replicationHook = new ReplicationHook({ ...owned, removedDatabases, ids, config, seal });
  const indexes = new Indexes({ runtime, functions, scheduleBuild: scheduleBuild(jobs) });
  const databases = new DatabaseRegistry({
    runtime,
    root: SUBSPACES.databases,
    isFormat3: (tx) => format.includes(tx, DOCUMENTS_FORMAT),
    hooks: [replicationHook, ...hooks, VALIDATION_HOOK, indexes.hook],
    ...(securityDefault === undefined ? {} : { securityDefault }),
    ...(keepOldBodiesMs === undefined ? {} : { keepOldBodiesMs }),
    ...(timeMinMs === undefined ? {} : { timeMinMs }),
  });
  const indexBuilds = new IndexBuilds({ runtime, kv, jobs, databases, indexes });
  const attachments = new AttachmentStore({ runtime, kv });
  const abandoned = new AbandonedReplications(runtime, kv, subspace, failureLists);
  const replicator = new Replicator({
    ...owned,
    subspace,
    index,
    events,
    failureLists,
    databases,
    ids,
    config,
    ruleStore,
    removedDatabases,
    seal,
  });
  const remover = new Remover({
    runtime,
    kv,
    node: nodeName,
    handlers: { "replication-jobs": (tx, removal) => removedDatabases.removePage(tx, removal) },
  });
  const indexFolder = new IndexFolder({ kv, index, events });
  const cleanUp = new CleanUp({ ...owned, subspace, index, events, abandoned, replicator, config });
  return {
    ...owned,
    cleanUp,
    remover,
    indexFolder,
    index,
    events,
    ids,
    config,
    budgets,
    failureLists,
    removedDatabases,
    databases,
    indexes,
    indexBuilds,
    attachments,
    replicator,
    ruleStore,
  };
}

/** Access to databases, local and remote. */
export type Reach = Pick<
  EndpointsParts,
  | "functions"
  | "resolveUser"
  | "documentLimits"
  | "serverUrl"
  | "fetch"
  | "parseMultipart"
  | "userAgent"
  | "lookUpSecret"
>;

export function joinEndpoints(parts: NodeParts, reach: Reach): Endpoints {
  return new Endpoints({
    ...parts,
    ...reach,
    continueLog,
    // The URL can change until the node listens.
    get serverUrl() {
      return reach.serverUrl;
    },
    spendingFor: (address) => parts.budgets.spendingFor(address),
  });
}

export interface JoinReplicationOptions {
  readonly reach: Reach;
  readonly renewer: LeaseRenewer;
  readonly nodeName: string;
  readonly processId: string;
  readonly labels?: Labels;
  readonly program: Program;
  readonly measureProcess: () => ProcessMeasure;
  readonly measureRuns: () => RunCounts;
}

/** Creates the parts that run jobs, on a replication node. */
export function joinReplication(
  parts: NodeParts,
  {
    reach,
    renewer,
    nodeName: node,
    processId,
    labels = [],
    program,
    ...measures
  }: JoinReplicationOptions,
) {
  const { runtime, kv, jobs, controls, config } = parts;
  const subspace = SUBSPACES.replicator;
  const endpoints = joinEndpoints(parts, reach);
  const worker = new JobWorker({
    runtime,
    kv,
    jobs,
    renewer,
    node,
    processId,
    types: ALL_JOB_TYPES,
    labels,
    leaseMs: config.workerLeaseSec * 1000,
    program,
  });
  const outages = new Outages({ runtime, kv, jobs, controls, fetch: reach.fetch, subspace });
  const clockSteps = new ClockSteps({ runtime, kv, jobs, parked: parts.parked, config });
  const ownCheckpoints = new OwnCheckpoints(kv, subspace);
  const running = { held: { ...parts, outages }, endpoints, ownCheckpoints, ids: parts.ids };
  const watching = {
    ...parts,
    store: parts.ruleStore,
    endpoints,
    pace: new SweepPace(runtime.clock),
  };
  const slotlessJobs = new SlotlessJobs(parts, [
    new SourceWatches(watching),
    ...RULE_TYPES.map((type) => new RuleFollowers(watching, type)),
    parts.indexBuilds,
    new CommandJobs({ ...parts, bulk: parts.replicator.bulk }),
    new ChainJobs(parts),
    new Questions({
      ...parts,
      checks: new ReplicationChecks({ ...parts, endpoints }),
      rulePlans: new RulePlans({ ...parts, rules: parts.replicator.rules, endpoints }),
    }),
  ]);
  const scheduler = new Scheduler(
    { ...parts, nodes: new NodeStore(subspace) },
    worker,
    slotlessJobs,
    (held, job, runningCount) => new ReplicationJob(running, held, job, runningCount),
  );
  parts.removedDatabases.haltJobs = (idPrefix) => scheduler.haltJobs(idPrefix);
  const backlogWatch = new BacklogWatch({ ...parts, endpoints, subspace, labels });
  const nodeReporter = new NodeReporter({
    runtime,
    kv,
    subspace,
    identity: { node, processId, version: program.version },
    scheduler,
    ...measures,
    measureHosts: () => endpoints.hostMeasures(),
  });
  return { endpoints, outages, clockSteps, scheduler, backlogWatch, nodeReporter };
}

export interface FollowLocalRulesOptions {
  readonly endpoints: Endpoints;
  readonly renewer: LeaseRenewer;
  readonly nodeName: string;
  readonly processId: string;
  readonly program: Program;
}

/**
 * Creates the worker of a frontend. The worker follows rules whose source is the local store, and
 * executes commands that concern many jobs. Neither task needs connections to other servers. The
 * worker also detects dead workers, even if no replication node is left.
 */
export function followLocalRules(
  parts: NodeParts,
  { endpoints, renewer, nodeName: node, processId, program }: FollowLocalRulesOptions,
) {
  const { runtime, config, ruleStore: store } = parts;
  const types = [LOCAL_RULE_TYPE, COMMAND_TYPE, CHAIN_TYPE];
  const leaseMs = config.workerLeaseSec * 1000;
  const worker = new JobWorker({ ...parts, renewer, node, processId, types, leaseMs, program });
  const watching = { ...parts, store, endpoints, pace: new SweepPace(runtime.clock) };
  const slotlessJobs = new SlotlessJobs(parts, [
    new RuleFollowers(watching, LOCAL_RULE_TYPE),
    new CommandJobs({ ...parts, bulk: parts.replicator.bulk }),
    new ChainJobs(parts),
  ]);
  return {
    name: "replicator.local-rules",
    run: (signal: AbortSignal): Promise<void> =>
      worker.run(signal, (membership) => slotlessJobs.run(membership, signal)),
  };
}
