/**
 * Queue of ranges that are removed in the background. The transaction that drops an object adds one
 * row to the queue. A `Remover` clears the range page by page, and then the row. The caller
 * guarantees that a queued range is never written again: its prefix contains the id of a single
 * instance (a uuid, an index number, a content id).
 */
import { assert } from "../base/index.ts";
import type { KeyShape } from "./key-shape.ts";
import { Subspace } from "./subspace.ts";
import type { Key, ReadTransaction, Transaction } from "./transaction.ts";
import { packTuple, unpackTuple } from "./tuple.ts";

/**
 * The queue is in the tuple key space, so that copies and backups of the store contain it together
 * with the ranges.
 */
const REMOVALS = Subspace.fromTuple(["removals"]);
const QUEUED = 0;
const ROW = 1;

/** Version of the stored form. */
const FORMAT = 1;

export const REMOVAL_KEY_SHAPES: readonly KeyShape[] = [
  {
    key: '("removals", 0)',
    value: "counter",
    note: "counter of queued removals; watched by the removers of all nodes",
  },
  {
    key: '("removals", 1, begin)',
    value: "(1, end, kind, subject, sinceMs, updatedMs, keys, bytes, claim, node, untilMs)",
    note: "a range to be removed in the background: its owner, the progress, and the remover that has claimed it",
  },
];

/**
 * Kind of a removal. For `replication-jobs`, jobs are removed rather than the keys of the range.
 */
export type RemovalKind =
  | "database"
  | "index"
  | "rule"
  | "command"
  | "attachment"
  | "replication-jobs";

/** Object that a removal belongs to, for operators and for the handler of its kind. */
export interface RemovalOrigin {
  readonly kind: RemovalKind;
  /**
   * Name of the database or rule; for `replication-jobs`, the uuid with which the ids of the jobs
   * begin.
   */
  readonly subject: string;
  readonly nowMs: number;
}

/** A remover's exclusive right to remove the next pages of a range. It lapses at `untilMs`. */
export interface RemovalClaim {
  readonly id: string;
  readonly node: string;
  readonly untilMs: number;
}

export interface Removal {
  readonly begin: Key;
  readonly end: Key;
  readonly kind: RemovalKind;
  readonly subject: string;
  readonly sinceMs: number;
  readonly updatedMs: number;
  /** Number of keys removed so far. */
  readonly keyCount: number;
  readonly byteCount: number;
  readonly claim: RemovalClaim | undefined;
}

/**
 * Queues the range for removal, in the transaction that drops the object it belongs to. Idempotent
 * for equal ranges.
 */
export function removeInBackground(
  tx: Transaction,
  { begin, end }: { readonly begin: Key; readonly end: Key },
  { kind, subject, nowMs }: RemovalOrigin,
): void {
  const sinceMs = Math.floor(nowMs);
  const progress = { sinceMs, updatedMs: sinceMs, keyCount: 0, byteCount: 0, claim: undefined };
  setRemoval(tx, { begin, end, kind, subject, ...progress });
  tx.add(REMOVALS.pack([QUEUED]), 1n);
}

export function setRemoval(tx: Transaction, removal: Removal): void {
  tx.set(rowKey(removal), encodeRemoval(removal));
}

export function clearRemoval(tx: Transaction, removal: Pick<Removal, "begin">): void {
  tx.clear(rowKey(removal));
}

export async function getRemoval(
  tx: ReadTransaction,
  removal: Pick<Removal, "begin">,
): Promise<Removal | undefined> {
  const key = rowKey(removal);
  const value = await tx.get(key);
  return value && decodeRemoval(key, value);
}

/** Returns the first removals in the queue, in key order. */
export async function listRemovals(tx: ReadTransaction, limit: number): Promise<Removal[]> {
  const { entries } = await tx.getRangePage(REMOVALS.range([ROW]), { limit });
  return entries.map(({ key, value }) => decodeRemoval(key, value));
}

/** Returns a watch that fires after the next commit that queues a removal. */
export function watchRemovals(tx: Transaction) {
  return tx.watch(REMOVALS.pack([QUEUED]));
}

function rowKey({ begin }: Pick<Removal, "begin">): Key {
  return REMOVALS.pack([ROW, begin]);
}

function encodeRemoval(removal: Removal): Uint8Array {
  const { end, kind, subject, sinceMs, updatedMs, keyCount, byteCount, claim } = removal;
  const claimed = claim === undefined ? [null, null, null] : [claim.id, claim.node, claim.untilMs];
  const progress = [sinceMs, updatedMs, keyCount, byteCount];
  return packTuple([FORMAT, end, kind, subject, ...progress, ...claimed]);
}

function decodeRemoval(key: Key, value: Uint8Array): Removal {
  const [format, end, kind, subject, sinceMs, updatedMs, keyCount, byteCount, id, node, untilMs] =
    unpackTuple(value);
  assert(format === FORMAT, "A removal must have a supported format version");
  return {
    begin: REMOVALS.unpack(key)[1] as Uint8Array,
    end: end as Uint8Array,
    kind: kind as RemovalKind,
    subject: String(subject),
    sinceMs: Number(sinceMs),
    updatedMs: Number(updatedMs),
    keyCount: Number(keyCount),
    byteCount: Number(byteCount),
    claim:
      id === null ? undefined : { id: String(id), node: String(node), untilMs: Number(untilMs) },
  };
}
