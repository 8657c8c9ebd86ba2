/** Stores the nodes' reports and drain orders. Calls run within the caller's transaction. */
import { EMPTY_BYTES } from "../../base/index.ts";
import type { ReadTransaction, Subspace, Transaction, Watch } from "../../kv/index.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { decodeReport, encodeReport, type NodeId, type NodeReport } from "./node-report.ts";

export interface StoredNode {
  readonly id: NodeId;
  readonly report: NodeReport;
  /** Whether the process was ordered to drain. */
  readonly isDraining: boolean;
}

export class NodeStore {
  readonly #keys: ReplicatorKeys;

  constructor(subspace: Subspace) {
    this.#keys = replicatorKeys(subspace);
  }

  report(tx: Transaction, id: NodeId, report: NodeReport): void {
    tx.set(this.#keys.node.key({ node: id }), encodeReport(report));
  }

  async isDraining(tx: ReadTransaction, id: NodeId): Promise<boolean> {
    return (await tx.get(this.#keys.drain.key({ node: id }))) !== undefined;
  }

  /** Returns a watch that fires when a drain order of any node changes. */
  watchDrains(tx: Transaction): Watch {
    return tx.watch(this.#keys.drainsChanged.key({}));
  }

  /** Sets or removes a drain order. Returns whether the order has changed. */
  async setDraining(tx: Transaction, id: NodeId, isDraining: boolean): Promise<boolean> {
    if ((await this.isDraining(tx, id)) === isDraining) return false;
    if (isDraining) tx.set(this.#keys.drain.key({ node: id }), EMPTY_BYTES);
    else tx.clear(this.#keys.drain.key({ node: id }));
    tx.add(this.#keys.drainsChanged.key({}), 1n);
    return true;
  }

  /** Removes the report and the drain order of a process that has ended. */
  remove(tx: Transaction, id: NodeId): void {
    tx.clear(this.#keys.node.key({ node: id }));
    tx.clear(this.#keys.drain.key({ node: id }));
  }

  /** Returns all reports, ordered by id. */
  async list(tx: ReadTransaction): Promise<readonly StoredNode[]> {
    const found: StoredNode[] = [];
    for await (const { key, value } of tx.getRange(this.#keys.node.range())) {
      const id = this.#keys.node.unpack(key).node;
      const report = decodeReport(value);
      if (report !== undefined)
        found.push({ id, report, isDraining: await this.isDraining(tx, id) });
    }
    return found;
  }
}
