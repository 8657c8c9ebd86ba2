/** The keys of the replicator itself, under its own subspace. */
import type { Key, KeyShape, Subspace } from "../kv/index.ts";

const REPLICATION_ID = 1;

export const REPLICATOR_KEY_SHAPES: readonly KeyShape[] = [
  {
    key: "(1, replicationId)",
    value: "(jobId)",
    note: "which job runs a replication; two jobs never run the same one",
  },
];

export class ReplicatorKeys {
  readonly #replicator: Subspace;

  constructor(replicator: Subspace) {
    this.#replicator = replicator;
  }

  replicationId(replicationId: string): Key {
    return this.#replicator.pack([REPLICATION_ID, replicationId]);
  }
}
