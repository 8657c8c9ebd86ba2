/** Stores the nodes' reports and drain orders. Calls run within the caller's transaction. */
import { EMPTY_BYTES } from "../../base/index.ts";
import type { ReadTransaction, Subspace, Transaction, Watch } from "../../kv/index.ts";
import { ReplicatorKeys } from "../replicator-keys.ts";
import { decodeReport, encodeReport, type NodeId, type NodeReport } from "./node-report.ts";

export interface StoredNode {
  readonly id: NodeId;
  readonly report: NodeReport;
  /** Whether it was ordered to drain. */
  readonly isDraining: boolean;
}

export class NodeStore {
  readonly #keys: ReplicatorKeys;

  constructor(subspace: Subspace) {
    this.#keys = new ReplicatorKeys(subspace);
  }

  report(tx: Transaction, id: NodeId, report: NodeReport): void {
    tx.set(this.#keys.node(id), encodeReport(report));
  }

  async isDraining(tx: ReadTransaction, id: NodeId): Promise<boolean> {
    return (await tx.get(this.#keys.drain(id))) !== undefined;
  }

  /** Fires when a drain order of any node changes. */
  watchDrains(tx: Transaction): Watch {
    return tx.watch(this.#keys.drainsChanged());
  }

  /** Returns whether the order changed. */
  async setDraining(tx: Transaction, id: NodeId, isDraining: boolean): Promise<boolean> {
    if ((await this.isDraining(tx, id)) === isDraining) return false;
    if (isDraining) tx.set(this.#keys.drain(id), EMPTY_BYTES);
    else tx.clear(this.#keys.drain(id));
    tx.add(this.#keys.drainsChanged(), 1n);
    return true;
  }

  /** Removes a process that has ended. */
  remove(tx: Transaction, id: NodeId): void {
    tx.clear(this.#keys.node(id));
    tx.clear(this.#keys.drain(id));
  }

  /** All reports, by id. */
  async list(tx: ReadTransaction): Promise<readonly StoredNode[]> {
    const found: StoredNode[] = [];
    for await (const { key, value } of tx.getRange(this.#keys.nodes())) {
      const id = this.#keys.nodeId(key);
      const report = decodeReport(value);
      if (report !== undefined)
        found.push({ id, report, isDraining: await this.isDraining(tx, id) });
    }
    return found;
  }
}
