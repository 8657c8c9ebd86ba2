/** State shared by the workloads of one run. */

import { errorCode } from "../../../src/base/index.ts";
import type { Database, DatabaseRegistry } from "../../../src/databases/index.ts";
import type { ReadTransaction } from "../../../src/kv/index.ts";
import { parseReplication, replicationId } from "../../../src/replicator/index.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { World } from "../kernel/world.ts";
import type { Client, ComposedNode } from "./client.ts";
import type { Topology } from "./topology.ts";

export interface Scene {
  readonly world: World;
  readonly random: SeededRandom;
  readonly topology: Topology;
  /** Node that only observes the others, and has no faults. */
  readonly observer: ComposedNode;
  readonly client: Client;
  /** Databases that have been deleted at least once. */
  readonly removed: Set<string>;
}

/** The `_replicator` database that is never deleted. */
export const JOBS_DATABASE = "_replicator";

/** Returns the id of a replication's checkpoints. Does not support filter functions. */
export function baseIdOf({ client }: Scene, body: Readonly<Record<string, unknown>>): string {
  return replicationId(client.node.ids, parseReplication(body), undefined).baseId;
}

export async function openIfExists(
  tx: ReadTransaction,
  databases: DatabaseRegistry,
  name: string,
): Promise<Database | undefined> {
  try {
    return await databases.open(tx, name);
  } catch (error) {
    if (errorCode(error) === "STORE_DATABASE_NOT_FOUND") return undefined;
    throw error;
  }
}
