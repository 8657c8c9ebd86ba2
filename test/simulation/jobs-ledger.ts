/**
 * What holders of jobs did, in the order of the commits: each of their transactions adds a row that the commit stamps. It is written
 * without reading anything, so that it prevents nothing that it is to find.
 */
import type { HeldJob } from "../../src/jobs/index.ts";
import {
  packTuple,
  type ReadTransaction,
  Subspace,
  type Transaction,
  unpackTuple,
  Versionstamp,
} from "../../src/kv/index.ts";

const LEDGER = Subspace.fromTuple(["ledger"]);

export type Deed = "accept" | "write" | "finish";

export function enter(tx: Transaction, { id, lock }: HeldJob, deed: Deed): void {
  const stamp = Versionstamp.incomplete(tx.nextUserVersion());
  tx.setVersionstampedKey(LEDGER.packVersionstamped([id, stamp]), packTuple([lock, deed]));
}

/** What must not be: two acceptances with one lock, and a write by somebody who was not the last to accept. */
export async function checkLedger(tx: ReadTransaction): Promise<string[]> {
  const problems: string[] = [];
  const locks = new Set<unknown>();
  const holders = new Map<unknown, unknown>();
  for await (const { key, value } of tx.getRange(LEDGER.range())) {
    const [id] = LEDGER.unpack(key);
    const [lock, deed] = unpackTuple(value);
    if (deed === "accept") {
      if (locks.has(lock)) problems.push(`lock ${lock} was given twice`);
      locks.add(lock);
      holders.set(id, lock);
      continue;
    }
    if (holders.get(id) !== lock) problems.push(`${deed} of ${id} by a former holder, ${lock}`);
    if (deed === "finish") holders.delete(id);
  }
  return problems;
}
