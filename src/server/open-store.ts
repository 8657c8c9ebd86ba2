/** The kinds of key-value stores. The configuration selects one of them. */
import { resolve } from "node:path";
import type { Runtime } from "../base/index.ts";
import type { UpgradeStatus } from "../contract/index.ts";
import {
  checkLmdbStore,
  clusterFileOf,
  LmdbLeaseRenewer,
  openFoundationDbEngine,
  openLmdbEngine,
} from "../host/index.ts";
import { InLoopLeaseRenewer, type LeaseRenewer, Workers } from "../jobs/index.ts";
import { type Engine, KeyValueStore, MemoryEngine, type Subspace } from "../kv/index.ts";
import { Formats } from "./formats.ts";
import { SUBSPACES } from "./layout.ts";
import type { ServerConfig, StoreName } from "./settings/config.ts";
import { checkOpenedStore, readRecords } from "./whole-store.ts";

/** Location of a store. */
export type StorePlace = Pick<
  ServerConfig,
  "store" | "dataDirectory" | "clusterFile" | "foundationDb"
>;

export interface OpenedStore {
  readonly kv: KeyValueStore;
  /** Creates the renewer of leases for a queue in this subspace. */
  renewerOf(jobs: Subspace): LeaseRenewer;
}

interface StoreKind {
  /** Whether several machines can share the store. */
  readonly isShared: boolean;
  /** Name of the store in messages. */
  place(config: StorePlace): string;
  open(runtime: Runtime, config: StorePlace): Promise<OpenedStore>;
}

/** The stores, by the value of `[tandem] store`. */
export const STORES: Readonly<Record<StoreName, StoreKind>> = {
  lmdb: {
    isShared: false,
    place: ({ dataDirectory }) => resolve(dataDirectory),
    async open(runtime, { dataDirectory }) {
      const directory = resolve(dataDirectory);
      const engine = await openLmdbEngine({ runtime, directory });
      const renewerOf = (jobs: Subspace) => new LmdbLeaseRenewer(directory, jobs);
      return { kv: new KeyValueStore({ runtime, engine }), renewerOf };
    },
  },
  memory: {
    isShared: false,
    place: () => "the memory",
    async open(runtime) {
      return openEngine(runtime, new MemoryEngine({ runtime }));
    },
  },
  foundationdb: {
    isShared: true,
    place({ clusterFile, foundationDb: { prefix } }) {
      const cluster = `the cluster of ${clusterFileOf(clusterFile)}`;
      return prefix === undefined ? cluster : `${cluster} (prefix ${JSON.stringify(prefix)})`;
    },
    async open(runtime, config) {
      return storeOn(runtime, await openCluster(runtime, config));
    },
  },
};

/**
 * Opens a store on any engine. Leases are renewed by this process's own event loop, which must not
 * be blocked for long.
 */
export function openEngine(runtime: Runtime, engine: Engine): OpenedStore {
  return storeOn(runtime, new KeyValueStore({ runtime, engine }));
}

/** Returns an opened store whose leases are renewed by this process's own event loop. */
function storeOn(runtime: Runtime, kv: KeyValueStore): OpenedStore {
  const { clock } = runtime;
  const renewerOf = (jobs: Subspace) =>
    new InLoopLeaseRenewer({ clock, kv, workers: new Workers(runtime, jobs) });
  return { kv, renewerOf };
}

/** Opens the configured store. Rejects if the store fails the checks in `whole-store.ts`. */
export async function openStore(runtime: Runtime, config: StorePlace): Promise<OpenedStore> {
  const opened = await STORES[config.store].open(runtime, config);
  try {
    await checkOpenedStore(opened.kv, placeOf(config));
    return opened;
  } catch (error) {
    await opened.kv.close();
    throw error;
  }
}

/** Reads the format of a store and the list of its nodes, without joining the store. */
export async function readUpgrade(runtime: Runtime, config: StorePlace): Promise<UpgradeStatus> {
  if (config.store === "lmdb") checkLmdbStore(resolve(config.dataDirectory));
  const { kv } = await STORES[config.store].open(runtime, config);
  try {
    await readRecords(kv, placeOf(config));
    const workers = new Workers(runtime, SUBSPACES.jobs);
    return await new Formats({ runtime, kv, workers, enablesAlone: false }).status();
  } finally {
    await kv.close();
  }
}

/** Opens the store at its prefix in the cluster, without reading it. */
export async function openCluster(
  runtime: Runtime,
  { clusterFile, foundationDb }: StorePlace,
): Promise<KeyValueStore> {
  const engine = await openFoundationDbEngine({ runtime, clusterFile, ...foundationDb });
  return new KeyValueStore({ runtime, engine });
}

/** Name of the configured store in messages. */
export function placeOf(config: StorePlace): string {
  return STORES[config.store].place(config);
}
