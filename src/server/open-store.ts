/** The key-value store that the configuration names. */
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import type { Runtime } from "../base/index.ts";
import { LmdbLeaseRenewer, openLmdbEngine } from "../host/index.ts";
import { InLoopLeaseRenewer, type LeaseRenewer, Workers } from "../jobs/index.ts";
import { KeyValueStore, MemoryEngine } from "../kv/index.ts";
import type { ServerConfig } from "./config.ts";
import { SUBSPACES } from "./layout.ts";

export interface OpenedStore {
  readonly kv: KeyValueStore;
  /** How this store's workers keep their leases. */
  readonly renewer: LeaseRenewer;
}

export async function openStore(
  runtime: Runtime,
  { store, dataDirectory }: Pick<ServerConfig, "store" | "dataDirectory" | "clusterFile">,
): Promise<OpenedStore> {
  if (store === "memory") {
    const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
    const workers = new Workers(runtime, SUBSPACES.jobs);
    return { kv, renewer: new InLoopLeaseRenewer({ clock: runtime.clock, kv, workers }) };
  }
  const directory = resolve(dataDirectory);
  mkdirSync(directory, { recursive: true });
  const engine = await openLmdbEngine({ runtime, directory });
  return {
    kv: new KeyValueStore({ runtime, engine }),
    renewer: new LmdbLeaseRenewer(directory, SUBSPACES.jobs),
  };
}
