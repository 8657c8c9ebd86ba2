/**
 * Stores that the nodes of a cluster can share. Tests with several nodes run on each of these
 * stores. They run on FoundationDB only if `FDB_CLUSTER_FILE` names the cluster file of a live
 * cluster. Their keys have a separate prefix there.
 */
import { randomUUID } from "node:crypto";
import { describe, test } from "vitest";
import { createSystemRuntime, openFoundationDbEngine } from "../../src/host/index.ts";
import { KeyValueStore } from "../../src/kv/index.ts";
import type { Processes } from "./open-process.ts";

/** Options for each process that shares the store. */
export interface SharedStoreOptions {
  readonly directory: string;
  readonly storeIni?: string;
}

/** Creates a store. The store is removed when `processes` is closed. */
export type OpenSharedStore = (processes: Processes) => SharedStoreOptions;

export function onSharedStores(declare: (open: OpenSharedStore) => void): void {
  describe("on LMDB", () => declare((processes) => ({ directory: processes.directory() })));
  if (process.env.FDB_CLUSTER_FILE === undefined) {
    test.skip("on FoundationDB (skipped: FDB_CLUSTER_FILE does not name a live cluster)", () => {});
  } else {
    describe("on FoundationDB", () => declare(openFoundationDbStore));
  }
}

/** Opens a store with its own prefix in the cluster of `FDB_CLUSTER_FILE`. */
export function openFoundationDbStore(processes: Processes): SharedStoreOptions {
  const prefix = `tandem-test-${randomUUID()}`;
  processes.onClose(() => removeFromFoundationDb(prefix));
  return {
    directory: processes.directory(),
    storeIni: `[tandem]\nstore = foundationdb\n[foundationdb]\nprefix = ${prefix}\n`,
  };
}

async function removeFromFoundationDb(prefix: string): Promise<void> {
  const runtime = createSystemRuntime();
  const engine = await openFoundationDbEngine({ runtime, prefix });
  const kv = new KeyValueStore({ runtime, engine });
  const everything = { begin: new Uint8Array(), end: new Uint8Array([0xff]) };
  await kv.transact(async (tx) => tx.clearRange(everything));
  await kv.close();
}
