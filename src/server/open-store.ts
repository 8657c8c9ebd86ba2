/** The key-value store selected by the configuration. */
import { resolve } from "node:path";
import type { Runtime } from "../base/index.ts";
import {
  clusterFileOf,
  LmdbLeaseRenewer,
  openFoundationDbEngine,
  openLmdbEngine,
  ProcessLeaseRenewer,
} from "../host/index.ts";
import { InLoopLeaseRenewer, type LeaseRenewer, Workers } from "../jobs/index.ts";
import { type Engine, KeyValueStore, MemoryEngine } from "../kv/index.ts";
import { SUBSPACES } from "./layout.ts";
import type { ServerConfig } from "./settings/config.ts";
import { checkOpenedStore } from "./whole-store.ts";

type StorePlace = Pick<ServerConfig, "store" | "dataDirectory" | "clusterFile" | "foundationDb">;

export interface OpenedStore {
  readonly kv: KeyValueStore;
  /** Renews the leases of this store's workers. */
  readonly renewer: LeaseRenewer;
}

/** Opens the store. Rejects if the checks of the whole store fail. */
export async function openStore(runtime: Runtime, config: ServerConfig): Promise<OpenedStore> {
  const opened = await open(runtime, config);
  try {
    await checkOpenedStore(opened.kv, placeOf(config));
    return opened;
  } catch (error) {
    await opened.kv.close();
    throw error;
  }
}

/** Opens this store's part of the cluster, without reading it. */
export async function openCluster(
  runtime: Runtime,
  { clusterFile, foundationDb }: ServerConfig,
): Promise<KeyValueStore> {
  const engine = await openFoundationDbEngine({ runtime, clusterFile, ...foundationDb });
  return new KeyValueStore({ runtime, engine });
}

/** Name of the store in messages. */
export function placeOf({ store, dataDirectory, ...config }: StorePlace): string {
  if (store !== "foundationdb") return store === "memory" ? "the memory" : resolve(dataDirectory);
  const { prefix } = config.foundationDb;
  const cluster = `the cluster of ${clusterFileOf(config.clusterFile)}`;
  return prefix === undefined ? cluster : `${cluster} (prefix ${JSON.stringify(prefix)})`;
}

async function open(runtime: Runtime, config: ServerConfig): Promise<OpenedStore> {
  switch (config.store) {
    case "memory":
      return renewedInLoop(runtime, new MemoryEngine({ runtime }));
    case "foundationdb": {
      const { clusterFile, foundationDb } = config;
      const options = { kind: "foundationdb", clusterFile, ...foundationDb } as const;
      return {
        kv: await openCluster(runtime, config),
        renewer: new ProcessLeaseRenewer(options, SUBSPACES.jobs),
      };
    }
    case "lmdb": {
      const directory = resolve(config.dataDirectory);
      return {
        kv: new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) }),
        renewer: new LmdbLeaseRenewer(directory, SUBSPACES.jobs),
      };
    }
  }
}

/** Leases renewed by this process's own event loop, which must not be blocked for long. */
function renewedInLoop(runtime: Runtime, engine: Engine): OpenedStore {
  const kv = new KeyValueStore({ runtime, engine });
  const workers = new Workers(runtime, SUBSPACES.jobs);
  return { kv, renewer: new InLoopLeaseRenewer({ clock: runtime.clock, kv, workers }) };
}
