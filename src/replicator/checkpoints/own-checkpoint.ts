/**
 * Local copy of the replication log of a read-only source. To detect whether the target has
 * changed, a run compares the target's log with this copy, because the source contains no log.
 */
import {
  type KeyValueStore,
  packJson,
  type ReadTransaction,
  type Subspace,
  unpackJson,
} from "../../kv/index.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import type { ReplicationLog } from "./replication-log.ts";

export interface OwnCheckpoint {
  readonly log: ReplicationLog;
  /** Creation time of the source. It differs if the source was re-created. */
  readonly sourceStartTime: string;
}

export interface OwnCheckpointStore {
  read(): Promise<OwnCheckpoint | undefined>;
  write(checkpoint: OwnCheckpoint): Promise<void>;
}

/** Stub that keeps no local checkpoint, for runs without a store. */
export const NO_OWN_CHECKPOINT: OwnCheckpointStore = {
  read: async () => undefined,
  write: async () => {},
};

const FORMAT = 1;

export class OwnCheckpoints {
  readonly #keys: ReplicatorKeys;
  readonly #kv: KeyValueStore;

  constructor(kv: KeyValueStore, subspace: Subspace) {
    this.#kv = kv;
    this.#keys = replicatorKeys(subspace);
  }

  /** Returns the store for one replication. `verify` throws if the job is lost. */
  of(baseId: string, verify: (tx: ReadTransaction) => Promise<void>): OwnCheckpointStore {
    const key = this.#keys.ownCheckpoint.key({ baseId });
    return {
      read: async () => {
        const value = await this.#kv.read((tx) => tx.get(key));
        return value && decode(value);
      },
      write: async (checkpoint) => {
        await this.#kv.transact(
          async (tx) => {
            await verify(tx);
            tx.set(key, encode(checkpoint));
          },
          { whenUnknown: "retry" },
        );
      },
    };
  }
}

/** Encodes a local checkpoint. The first element is the format version. */
function encode(checkpoint: OwnCheckpoint): Uint8Array {
  return packJson(FORMAT, checkpoint);
}

function decode(value: Uint8Array): OwnCheckpoint {
  const message = "A local checkpoint must have a supported format version";
  return unpackJson(value, FORMAT, message) as OwnCheckpoint;
}
