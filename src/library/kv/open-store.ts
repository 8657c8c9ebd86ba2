/** Stores in the caller's process, on the engines of a node or on another one. */
import type { Runtime } from "../../base/index.ts";
import { createSystemRuntime } from "../../host/index.ts";
import {
  type Engine,
  type KeyValueError,
  MemoryEngine,
  MemoryStorage,
  type ReadOptions,
  type ReadTransaction,
  type Transaction,
  type TransactOptions,
} from "../../kv/index.ts";
import { type OpenedStore, openEngine, openStore, type StorePlace } from "../../server/index.ts";

export interface LmdbPlace {
  readonly kind: "lmdb";
  /** Folder of the store, created if missing. */
  readonly directory: string;
}

/** A FoundationDB cluster. Requires the package `foundationdb`. */
export interface ClusterPlace {
  readonly kind: "foundationdb";
  /** Path of the cluster file. Default: FoundationDB's own default. */
  readonly clusterFile?: string;
  /** Prefix of every key. Default: empty, for a cluster that contains only this store. */
  readonly prefix?: string;
  readonly apiVersion?: number;
  readonly headerVersion?: number;
}

/**
 * Location of a store. Several processes on one machine can share an LMDB folder; several machines
 * can share a FoundationDB cluster.
 */
export type StoreLocation = "memory" | { readonly kind: "memory" } | LmdbPlace | ClusterPlace;

/** An ordered transactional key-value store with FoundationDB's semantics. */
export interface Store {
  /**
   * Runs `body` in a transaction and commits it; after a conflict, runs it again. Resolves with the
   * result of the committed attempt.
   */
  transact<T>(body: (tx: Transaction) => Promise<T>, options?: TransactOptions): Promise<T>;
  /** Runs `body` on a snapshot of the store, without a commit and therefore without conflicts. */
  read<T>(body: (tx: ReadTransaction) => Promise<T>, options?: ReadOptions): Promise<T>;
  /** Resolves with the reason when the store can no longer serve this process. */
  readonly failed: Promise<KeyValueError>;
  /** Whether the store responds. */
  isAvailable(): boolean;
  /**
   * Whether the store refuses writes because the disk is full. Writes succeed again once there is
   * free space.
   */
  isFull(): boolean;
  /** Ends running calls, waits for commits in progress, and closes the engine. Idempotent. */
  close(): Promise<void>;
}

/** The parts of a store that queues need. */
export interface StoreParts extends OpenedStore {
  readonly runtime: Runtime;
}

const parts = new WeakMap<Store, StoreParts>();

/** Registers the parts of a store for `partsOf`. */
export function knownStore(store: StoreParts): Store {
  parts.set(store.kv, store);
  return store.kv;
}

/** Returns the parts of a store. Throws a TypeError if the store was not opened by this package. */
export function partsOf(store: Store): StoreParts {
  const found = parts.get(store);
  if (found === undefined) throw new TypeError("expected a store of openKeyValueStore or openNode");
  return found;
}

/** Opens a store. Rejects with a KeyValueError if it cannot be used. */
export async function openKeyValueStore(location: StoreLocation): Promise<Store> {
  const runtime = createSystemRuntime();
  return knownStore({ runtime, ...(await openStore(runtime, placeOf(location))) });
}

/** Opens an engine whose data is lost when the process ends. */
export function openMemoryEngine(): Engine {
  const storage = new MemoryStorage({ clearsRangesAtOnce: true });
  return new MemoryEngine({ runtime: createSystemRuntime(), storage });
}

/** Opens a store on the caller's engine. Closing the store closes the engine, too. */
export function openEngineStore(engine: Engine): Store {
  const runtime = createSystemRuntime();
  return knownStore({ runtime, ...openEngine(runtime, engine) });
}

function placeOf(location: StoreLocation): StorePlace {
  const place = typeof location === "string" ? { kind: location } : location;
  const { clusterFile, apiVersion, headerVersion, prefix }: Partial<ClusterPlace> =
    place.kind === "foundationdb" ? place : {};
  return {
    store: place.kind,
    dataDirectory: place.kind === "lmdb" ? place.directory : "",
    clusterFile,
    foundationDb: { apiVersion, headerVersion, prefix },
  };
}
