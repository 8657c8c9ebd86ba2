/** A node without sockets: store, databases, queue, replicator, scheduler; several can share a storage. */

import type { Runtime } from "../../src/base/index.ts";
import { AttachmentStore, DatabaseRegistry, type WriteContext } from "../../src/databases/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import { SandboxPool } from "../../src/host/sandbox-pool.ts";
import type { Fetch } from "../../src/http-client/index.ts";
import { InLoopLeaseRenewer, Jobs, JobWorker } from "../../src/jobs/index.ts";
import { KeyValueStore, MemoryEngine, MemoryStorage, Subspace } from "../../src/kv/index.ts";
import {
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

export const ADMIN: WriteContext = { userName: null, roles: ["_admin"], isAdmin: true };

export async function openNode({
  storage = new MemoryStorage(),
  config = {},
  failuresMax,
  runtimeOver = (system) => system,
  fetch = async () => {
    throw new Error("No network here");
  },
}: {
  readonly storage?: MemoryStorage;
  readonly config?: Partial<ReplicatorConfig>;
  /** The longest list of failures. */
  readonly failuresMax?: number;
  /** The world as the node shall see it, made of the machine's. */
  readonly runtimeOver?: (system: Runtime) => Runtime;
  readonly fetch?: Fetch;
} = {}) {
  const events: { name: string; fields: Readonly<Record<string, unknown>> }[] = [];
  const listeners = new Set<() => void>();
  const system = createSystemRuntime({
    event: (name, fields = {}) => {
      events.push({ name, fields });
      for (const listener of listeners) listener();
    },
  });
  const runtime = runtimeOver(system);
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime, storage }) });
  // A getter stays one: settings are read at each use.
  const settings: ReplicatorConfig = Object.defineProperties(
    { ...REPLICATOR_CONFIG_DEFAULT, penaltySecMin: 1 },
    Object.getOwnPropertyDescriptors(config),
  );
  const jobs = new Jobs(runtime, Subspace.fromTuple(["jobs"]));
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
    hooks: [hook, VALIDATION_HOOK],
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
    node: "tandem@test",
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
      nodeName: "tandem@test",
      processId: "1",
    },
    replicator,
    worker,
  );
  await replicator.prepare();
  const stopping = new AbortController();
  let running: Promise<void> | undefined;
  return {
    runtime,
    kv,
    jobs,
    databases,
    replicator,
    events,
    start(): void {
      const { signal } = stopping;
      const removing = removedDatabases.run(signal).catch(() => {});
      running = Promise.all([scheduler.run(signal), outages.run(signal), removing]).then(() => {});
    },
    async stop(): Promise<void> {
      stopping.abort(new Error("The test is over"));
      await running;
    },
    /** Resolves with the first event of this name, past or future, that passes. */
    async event(
      name: string,
      passes: (fields: Readonly<Record<string, unknown>>) => boolean = () => true,
    ): Promise<Readonly<Record<string, unknown>>> {
      for (;;) {
        const found = events.find((event) => event.name === name && passes(event.fields));
        if (found !== undefined) return found.fields;
        await new Promise<void>((resolve) => {
          const listener = (): void => {
            listeners.delete(listener);
            resolve();
          };
          listeners.add(listener);
        });
      }
    },
    async createDatabase(name: string): Promise<void> {
      await kv.transact((tx) => databases.create(tx, name));
    },
    /** Writes a document over its winner, or creates it. */
    async put(database: string, id: string, body: string, deleted = false): Promise<void> {
      const outcome = await kv.transact(async (tx) => {
        const opened = await databases.open(tx, database);
        const parent = (await opened.read(tx, id))?.revision;
        const edit = { mode: "interactive", id, parent, deleted, body, attachments: [] } as const;
        return opened.write(tx, edit, ADMIN);
      });
      if (outcome.kind !== "written") throw new Error(JSON.stringify(outcome));
    },
    async read(database: string, id: string) {
      return kv.read(async (tx) => (await databases.open(tx, database)).read(tx, id));
    },
    /** Every document with its leaves: what two equal databases have in common. */
    async content(database: string): Promise<Record<string, string[]>> {
      const page = await kv.read(async (tx) =>
        (await databases.open(tx, database)).changes(tx, { limit: 100_000 }),
      );
      const rows = page.entries.map(
        ({ id, leaves }) => [id, leaves.map(({ revision }) => revision)] as const,
      );
      return Object.fromEntries(rows.toSorted(([left], [right]) => (left < right ? -1 : 1)));
    },
  };
}

export type Node = Awaited<ReturnType<typeof openNode>>;
