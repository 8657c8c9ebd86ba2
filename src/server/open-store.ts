/** The key-value store that the configuration names. */
import { resolve } from "node:path";
import type { Runtime } from "../base/index.ts";
import { openFoundationDbEngine, openLmdbEngine } from "../host/index.ts";
import { type Engine, KeyValueStore, MemoryEngine } from "../kv/index.ts";
import type { ServerConfig } from "./config.ts";

export async function openStore(runtime: Runtime, config: ServerConfig): Promise<KeyValueStore> {
  return new KeyValueStore({ runtime, engine: await openEngine(runtime, config) });
}

async function openEngine(
  runtime: Runtime,
  { store, dataDirectory, clusterFile, foundationDbVersions }: ServerConfig,
): Promise<Engine> {
  switch (store) {
    case "memory":
      return new MemoryEngine({ runtime });
    case "foundationdb":
      return openFoundationDbEngine({ runtime, clusterFile, ...foundationDbVersions });
    case "lmdb":
      return openLmdbEngine({ runtime, directory: resolve(dataDirectory) });
  }
}
