/** Batches bounded in count and total length. */
export interface BatchSizes<Item> {
  readonly countMax: number;
  /** Maximum total length. A longer item gets its own batch. */
  readonly lengthMax: number;
  lengthOf(item: Item): number;
  /** Limits the number of items per batch that have the same key. */
  readonly alike?: { keyOf(item: Item): string; readonly countMax: number };
}

/**
 * Splits the items, in order, into batches as large as the sizes permit. Reads the items lazily,
 * batch by batch.
 */
export function* batchesOf<Item>(
  items: Iterable<Item>,
  { countMax, lengthMax, lengthOf, alike }: BatchSizes<Item>,
): Generator<readonly Item[]> {
  let batch: Item[] = [];
  let batchLength = 0;
  const alikeCounts = new Map<string, number>();
  for (const item of items) {
    const length = lengthOf(item);
    const key = alike?.keyOf(item) ?? "";
    const isFull =
      batch.length >= countMax ||
      batchLength + length > lengthMax ||
      (alike !== undefined && (alikeCounts.get(key) ?? 0) >= alike.countMax);
    if (isFull && batch.length > 0) {
      yield batch;
      batch = [];
      batchLength = 0;
      alikeCounts.clear();
    }
    if (alike !== undefined) alikeCounts.set(key, (alikeCounts.get(key) ?? 0) + 1);
    batch.push(item);
    batchLength += length;
  }
  if (batch.length > 0) yield batch;
}
