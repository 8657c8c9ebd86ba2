/** The key-value store that the configuration names. */
import { resolve } from "node:path";
import type { Runtime } from "../base/index.ts";
import {
  isCopyUnfinished,
  LmdbLeaseRenewer,
  openFoundationDbEngine,
  openLmdbEngine,
  ProcessLeaseRenewer,
} from "../host/index.ts";
import { InLoopLeaseRenewer, type LeaseRenewer, Workers } from "../jobs/index.ts";
import { type Engine, KeyValueError, KeyValueStore, MemoryEngine } from "../kv/index.ts";
import { SUBSPACES } from "./layout.ts";
import type { ServerConfig } from "./settings/config.ts";

export interface OpenedStore {
  readonly kv: KeyValueStore;
  /** How this store's workers keep their leases. */
  readonly renewer: LeaseRenewer;
}

export async function openStore(
  runtime: Runtime,
  { store, dataDirectory, clusterFile, foundationDb }: ServerConfig,
): Promise<OpenedStore> {
  switch (store) {
    case "memory":
      return renewedInLoop(runtime, new MemoryEngine({ runtime }));
    case "foundationdb": {
      const options = { clusterFile, ...foundationDb };
      const engine = await openFoundationDbEngine({ runtime, ...options });
      const kv = new KeyValueStore({ runtime, engine });
      await refuseUnfinished(kv);
      return {
        kv,
        renewer: new ProcessLeaseRenewer({ kind: "foundationdb", ...options }, SUBSPACES.jobs),
      };
    }
    case "lmdb": {
      const directory = resolve(dataDirectory);
      return {
        kv: new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) }),
        renewer: new LmdbLeaseRenewer(directory, SUBSPACES.jobs),
      };
    }
  }
}

/** A store whose copy into the cluster was cut off lacks rows. */
async function refuseUnfinished(kv: KeyValueStore): Promise<void> {
  if (!(await isCopyUnfinished(kv))) return;
  await kv.close();
  const reason = "a copy of a store into this cluster was cut off: repeat tandem store copy";
  throw new KeyValueError("KV_UNAVAILABLE", { reason });
}

/** Leases that this process's own event loop renews: it must not be blocked for long. */
function renewedInLoop(runtime: Runtime, engine: Engine): OpenedStore {
  const kv = new KeyValueStore({ runtime, engine });
  const workers = new Workers(runtime, SUBSPACES.jobs);
  return { kv, renewer: new InLoopLeaseRenewer({ clock: runtime.clock, kv, workers }) };
}
