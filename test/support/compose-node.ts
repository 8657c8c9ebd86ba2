/**
 * Composes the parts of a node as `src/server` does. The node can have any runtime and store, and
 * has no sockets.
 */
import type { Runtime, Seal } from "../../src/base/index.ts";
import type { DatabaseHook, Sandbox } from "../../src/databases/index.ts";
import { DesignCodes } from "../../src/documents/index.ts";
import { parseMultipart } from "../../src/host/http/multipart-parser.ts";
import { SandboxPool } from "../../src/host/sandbox/pool.ts";
import type { Fetch } from "../../src/http-client/index.ts";
import { InLoopLeaseRenewer, Jobs, type Labels } from "../../src/jobs/index.ts";
import type { KeyValueStore } from "../../src/kv/index.ts";
import {
  NO_RUNS,
  REPLICATOR_CONFIG_DEFAULT,
  ReplicationChecks,
  type ReplicatorConfig,
  RulePlans,
  type SecretLookup,
} from "../../src/replicator/index.ts";
import { SUBSPACES } from "../../src/server/layout.ts";
import {
  followLocalRules,
  joinNodeParts,
  joinReplication,
  type NodePartsOptions,
} from "../../src/server/node-parts.ts";
import { sealedRequests } from "../../src/server/secrets/sealed-forms.ts";

export const JOBS_SUBSPACE = SUBSPACES.jobs;

export interface NodeParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly config?: Partial<ReplicatorConfig>;
  /** Maximum number of documents in a failure list. */
  readonly failuresMax?: number;
  readonly fetch?: Fetch;
  readonly nodeName?: string;
  /** Labels of the node. Default: none. */
  readonly labels?: Labels;
  /** Format of the store. Default: the newest. */
  readonly format?: NodePartsOptions["format"];
  readonly jobs?: Jobs;
  /** Seals and opens secrets. Without it, secrets are not sealed. */
  readonly seal?: Seal;
  /** Resolves references to secrets. Default: no reference can be resolved. */
  readonly lookUpSecret?: SecretLookup;
  /** Hooks in addition to the program's hooks. */
  readonly hooks?: readonly DatabaseHook[];
  readonly sandbox?: Sandbox;
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
  labels = [],
  format,
  seal,
  lookUpSecret = (reference) => ({ kind: "missing", reason: `${reference} is not here` }),
  jobs = new Jobs(runtime, JOBS_SUBSPACE, seal && sealedRequests(seal)),
  hooks = [],
  // The sandbox uses a thread pool whose threads end with the tests.
  sandbox = new SandboxPool(runtime),
}: NodeParts) {
  // A getter must remain a getter, because settings are read at each use.
  const settings: ReplicatorConfig = Object.defineProperties(
    // `parkAfterSec: 0` disables parking, because most tests of running jobs need the jobs to keep
    // running.
    { ...REPLICATOR_CONFIG_DEFAULT, penaltySecMin: 1, parkAfterSec: 0 },
    Object.getOwnPropertyDescriptors(config),
  );
  const serverUrl = "http://127.0.0.1:5984/";
  const ids = {
    digests: runtime.digests,
    serverUuid: "0".repeat(32),
    hostName: "host",
    port: 5984,
    serverUrl,
  };
  const sealing = seal === undefined ? {} : { seal };
  const written = format === undefined ? {} : { format };
  const functions = { runtime, sandbox, timeoutMs: 1_000, codes: new DesignCodes() };
  const parts = joinNodeParts({
    ...{ runtime, kv, functions, ids, config: settings, hooks, jobs, failuresMax, nodeName },
    ...sealing,
    ...written,
  });
  const renewer = new InLoopLeaseRenewer({ clock: runtime.clock, kv, workers: jobs.workers });
  const program = { version: "0", formats: { min: 1, max: 1 } };
  const process = { renewer, nodeName, processId: "1", program };
  const replication = joinReplication(parts, {
    reach: {
      functions,
      resolveUser: async (userName) => ({ userName, roles: [], isAdmin: true }),
      documentLimits: { documentBytesMax: 8 * 1024 * 1024 },
      serverUrl,
      fetch,
      parseMultipart,
      userAgent: "Tandem",
      lookUpSecret,
    },
    ...process,
    labels,
    measureProcess: () => ({ memoryBytes: 1, eventLoopDelayMs: 2 }),
    measureRuns: () => NO_RUNS,
  });
  const checks = new ReplicationChecks({ ...parts, endpoints: replication.endpoints });
  const { rules } = parts.replicator;
  const rulePlans = new RulePlans({ ...parts, rules, endpoints: replication.endpoints });
  // In a frontend, this service replaces the scheduler.
  const localRules = followLocalRules(parts, { endpoints: replication.endpoints, ...process });
  return { ...parts, ...replication, checks, rulePlans, localRules };
}
