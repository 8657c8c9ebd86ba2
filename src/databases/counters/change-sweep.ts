/**
 * Limits the number of partial counts and boundaries of the update sequence (`change-counts.ts`
 * defines their invariant).
 *
 * A partial count without a boundary is merged: it is read and cleared, and added to the partial
 * count of the preceding boundary. If two boundaries are close, one of them is cleared. The partial
 * count of the cleared boundary remains until a later sweep merges it, because concurrent
 * transactions can still change this count.
 */
import { hexEncode } from "../../base/index.ts";
import type {
  Key,
  KeyRange,
  KeyValue,
  ReadTransaction,
  Transaction,
  Versionstamp,
} from "../../kv/index.ts";
import {
  decodeCounter,
  decodeVersionstamp,
  encodeVersionstamp,
} from "../records/counter-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";

/**
 * Number of the latest boundaries whose partial counts a sweep merges again. It exceeds the number
 * of boundaries that are usually added between two sweeps, so that counts committed during the last
 * sweep are included.
 */
const YOUNG_BOUNDARIES = 8;
const YOUNG_SHARES_MAX = 5_000;
/**
 * Number of old boundaries checked per sweep. More than are added between two sweeps, so that
 * sweeping keeps up.
 */
const OLD_BOUNDARIES_MAX = 32;
const OLD_SHARES_MAX = 128;

/** Returns the latest boundaries, newest first. */
export async function latestBoundaries(
  tx: ReadTransaction,
  keys: DatabaseKeys,
  limit: number,
): Promise<readonly Versionstamp[]> {
  const page = await tx.snapshot.getRangePage(keys.boundary.range(), { limit, reverse: true });
  return page.entries.map(({ key }) => keys.boundary.unpack(key).versionstamp);
}

/**
 * Performs one sweep, which must precede the writes of the transaction. `spacing` is the intended
 * maximum number of changes between two old boundaries.
 */
export async function sweepShares(
  tx: Transaction,
  keys: DatabaseKeys,
  spacing: number,
): Promise<void> {
  const latest = await latestBoundaries(tx, keys, YOUNG_BOUNDARIES);
  const young = latest.at(-1);
  if (young === undefined) return;
  const range = { begin: keys.share.key({ versionstamp: young }), end: keys.share.range().end };
  const page = await tx.snapshot.getRangePage(range, { limit: YOUNG_SHARES_MAX });
  joinShares(tx, keys, { shares: page.entries, boundaries: latest, spacing: 0 });
  await sweepOld(tx, keys, { end: young, spacing });
}

/**
 * Sweeps a page of the boundaries before `end`, continuing where the last sweep stopped and
 * wrapping around to the start.
 */
async function sweepOld(
  tx: Transaction,
  keys: DatabaseKeys,
  { end, spacing }: { readonly end: Versionstamp; readonly spacing: number },
): Promise<void> {
  const cursor = await tx.snapshot.get(keys.sweepCursor.key({}));
  const begin =
    cursor === undefined
      ? keys.boundary.range().begin
      : keys.boundary.key({ versionstamp: decodeVersionstamp(cursor) });
  const page = await tx.snapshot.getRangePage(
    { begin, end: keys.boundary.key({ versionstamp: end }) },
    { limit: OLD_BOUNDARIES_MAX },
  );
  const boundaries = page.entries.map(({ key }) => keys.boundary.unpack(key).versionstamp);
  const [first] = boundaries;
  const behind = page.stoppedBy === "exhausted" ? end : boundaries.at(-1);
  if (first === undefined || behind === undefined) {
    tx.clear(keys.sweepCursor.key({}));
    return;
  }
  const range: KeyRange = {
    begin: keys.share.key({ versionstamp: first }),
    end: keys.share.key({ versionstamp: behind }),
  };
  const shares = await tx.snapshot.getRangePage(range, { limit: OLD_SHARES_MAX });
  const reached = joinShares(tx, keys, { shares: shares.entries, boundaries, spacing });
  const next = shares.stoppedBy === "exhausted" ? behind : reached;
  if (next === undefined || next === end) tx.clear(keys.sweepCursor.key({}));
  else tx.set(keys.sweepCursor.key({}), encodeVersionstamp(next));
}

/** The partial counts from one boundary to the next boundary that is not cleared. */
interface Stretch {
  readonly boundary: Versionstamp;
  /**
   * Key of the boundary's partial count. The other partial counts of the stretch are added to it.
   */
  readonly key: Key;
  /** Total of all partial counts in the stretch. */
  count: number;
  /** Total of the partial counts that will be added to the boundary's own partial count. */
  joined: number;
}

/** Merges partial counts in order. Returns the last boundary that remains. */
function joinShares(
  tx: Transaction,
  keys: DatabaseKeys,
  {
    shares,
    boundaries,
    spacing,
  }: {
    readonly shares: readonly KeyValue[];
    readonly boundaries: readonly Versionstamp[];
    /** Boundaries closer together than this are cleared. With 0, no boundary is cleared. */
    readonly spacing: number;
  },
): Versionstamp | undefined {
  const byShare = new Map(
    boundaries.map((boundary) => [hexEncode(keys.share.key({ versionstamp: boundary })), boundary]),
  );
  let stretch: Stretch | undefined;
  const close = (): void => {
    if (stretch !== undefined && stretch.joined !== 0) tx.add(stretch.key, BigInt(stretch.joined));
  };
  for (const { key, value } of shares) {
    const count = decodeCounter(value);
    const boundary = byShare.get(hexEncode(key));
    if (boundary === undefined) {
      // This partial count precedes the first boundary of this page, and therefore belongs to
      // another page.
      if (stretch === undefined) continue;
      tx.addReadConflictKey(key);
      tx.clear(key);
      stretch.count += count;
      stretch.joined += count;
    } else if (stretch !== undefined && stretch.count + count <= spacing) {
      tx.clear(keys.boundary.key({ versionstamp: boundary }));
      stretch.count += count;
    } else {
      close();
      stretch = { boundary, key, count, joined: 0 };
    }
  }
  close();
  return stretch?.boundary;
}
