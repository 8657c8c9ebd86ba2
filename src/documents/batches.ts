/** Batches that are bounded in count and length. */
export interface BatchSizes<Item> {
  readonly countMax: number;
  /** An item that is longer makes a batch of its own. */
  readonly lengthMax: number;
  lengthOf(item: Item): number;
  /** What items may have in common, and how many of a batch may; without it, all may. */
  readonly alike?: { keyOf(item: Item): string; readonly countMax: number };
}

/** The items in their order, in batches as large as the sizes allow. Takes no item before its batch is asked for. */
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
