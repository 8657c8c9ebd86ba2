/** The key-value store that the configuration names. */
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import type { Runtime } from "../base/index.ts";
import { openLmdbEngine } from "../host/index.ts";
import { KeyValueStore, MemoryEngine } from "../kv/index.ts";
import type { ServerConfig } from "./config.ts";

export async function openStore(
  runtime: Runtime,
  { store, dataDirectory }: Pick<ServerConfig, "store" | "dataDirectory" | "clusterFile">,
): Promise<KeyValueStore> {
  if (store === "memory") {
    return new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  }
  const directory = resolve(dataDirectory);
  mkdirSync(directory, { recursive: true });
  return new KeyValueStore({ runtime, engine: await openLmdbEngine({ runtime, directory }) });
}
