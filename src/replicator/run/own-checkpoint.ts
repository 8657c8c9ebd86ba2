/**
 * Our own copy of a source's replication log, for sources that we may read but not write. It takes the place of the
 * source's log. Its sessions must match the target's log, which tells whether the target is still the same.
 */
import { assert, utf8Decode, utf8Encode } from "../../base/index.ts";
import {
  type KeyValueStore,
  packTuple,
  type ReadTransaction,
  type Subspace,
  unpackTuple,
} from "../../kv/index.ts";
import { ReplicatorKeys } from "../replicator-keys.ts";
import type { ReplicationLog } from "./replication-log.ts";

export interface OwnCheckpoint {
  readonly log: ReplicationLog;
  /** Of the source that the log speaks of: one that was created again has another. */
  readonly sourceStartTime: string;
}

export interface OwnCheckpointStore {
  read(): Promise<OwnCheckpoint | undefined>;
  write(checkpoint: OwnCheckpoint): Promise<void>;
}

/** For a run that remembers nothing itself. */
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
    this.#keys = new ReplicatorKeys(subspace);
  }

  /** Of one replication. `verify` throws when its job was taken away. */
  of(baseId: string, verify: (tx: ReadTransaction) => Promise<void>): OwnCheckpointStore {
    const key = this.#keys.ownCheckpoint(baseId);
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

/** The stored form; the first element is the format's version. */
function encode(checkpoint: OwnCheckpoint): Uint8Array {
  return packTuple([FORMAT, utf8Encode(JSON.stringify(checkpoint))]);
}

function decode(value: Uint8Array): OwnCheckpoint {
  const [format, text] = unpackTuple(value);
  assert(
    format === FORMAT && text instanceof Uint8Array,
    "A checkpoint of ours has a format of this version",
  );
  return JSON.parse(utf8Decode(text)) as OwnCheckpoint;
}
