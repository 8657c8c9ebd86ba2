/** A node in virtual time. Hours pass immediately, and runs are deterministic. */
import { setMaxListeners } from "node:events";
import { Utf8Text } from "../../src/base/index.ts";
import { ActivityMonitor } from "../../src/jobs/index.ts";
import { JOB_TYPES } from "../../src/replicator/index.ts";
import type { NodeTraits } from "../simulation/kernel/simulated-node.ts";
import { World } from "../simulation/kernel/world.ts";
import { SYNCHRONOUS_SANDBOX } from "../simulation/network/synchronous-sandbox.ts";
import { composeNode, type NodeParts } from "./compose-node.ts";
import { ADMIN } from "./open-node.ts";

export interface VirtualNodeOptions extends Omit<NodeParts, "runtime" | "kv"> {
  /** A simulated world that the node shares with other nodes. */
  readonly world?: World;
  readonly traits?: Partial<NodeTraits>;
}

export function openVirtualNode({
  world = new World("node"),
  traits = {},
  ...options
}: VirtualNodeOptions) {
  /** Names of all events in the world from now on. */
  const names: string[] = [];
  world.listeners.push((name) => names.push(name));
  const simulated = world.openNode(traits);
  const { runtime, kv } = simulated;
  const node = composeNode({ sandbox: SYNCHRONOUS_SANDBOX, ...options, runtime, kv });
  const { databases, jobs, replicator, scheduler, cleanUp, indexFolder } = node;
  const stopping = new AbortController();
  // Allows any number of listeners, as in a server: every service listens to this signal.
  setMaxListeners(0, stopping.signal);
  const { signal } = stopping;
  let running: Promise<unknown> = Promise.resolve();
  return {
    ...node,
    world,
    names,
    /** Lets a test crash the node, or cut it off. */
    simulated,
    /** Starts the services that every node has, and the scheduler unless the node is a frontend. */
    async start({ runsJobs = true } = {}): Promise<void> {
      await world.until(replicator.prepare());
      const monitors = JOB_TYPES.map((type) => new ActivityMonitor(runtime, kv, jobs, type));
      const services = [
        ...monitors,
        cleanUp,
        node.removedDatabases,
        node.remover,
        indexFolder,
        runsJobs ? scheduler : node.localRules,
      ];
      const run = (service: (typeof services)[number]): Promise<void> =>
        service.run(signal).catch((error: unknown) => {
          if (error !== signal.reason) throw error;
        });
      running = Promise.all(services.map(run));
    },
    async stop(): Promise<void> {
      stopping.abort(new Error("The test is over"));
      await world.until(running);
    },
    async createDatabase(name: string): Promise<void> {
      await world.until(kv.transact((tx) => databases.create(tx, name)));
    },
    async put(database: string, id: string, members: object): Promise<void> {
      const body = Utf8Text.of(JSON.stringify(members));
      const edit = { mode: "interactive", parent: undefined, deleted: false } as const;
      const writing = kv.transact(async (tx) => {
        const opened = await databases.open(tx, database);
        return opened.write(tx, { ...edit, id, body, attachments: [] }, ADMIN);
      });
      const outcome = await world.until(writing);
      if (outcome.kind !== "written") throw new Error(JSON.stringify(outcome));
    },
    /** Returns the job of a replication document, once `passes` accepts the job. */
    async document(
      id: string,
      passes: (entry: NonNullable<Awaited<ReturnType<typeof replicator.find>>>) => boolean,
    ) {
      const { uuid } = await world.until(kv.read((tx) => databases.open(tx, "_replicator")));
      for (;;) {
        const entry = await world.until(replicator.findDocument(uuid, id));
        if (entry !== undefined && passes(entry)) return entry;
        await world.time.run(world.time.nowMs + 100);
      }
    },
  };
}
