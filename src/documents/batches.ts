/** Batches that are bounded in count and length. */
export interface BatchSizes<Item> {
  readonly countMax: number;
  /** An item that is longer makes a batch of its own. */
  readonly lengthMax: number;
  lengthOf(item: Item): number;
}

/** The items in their order, in batches as large as the sizes allow. Takes no item before its batch is asked for. */
export function* batchesOf<Item>(
  items: Iterable<Item>,
  { countMax, lengthMax, lengthOf }: BatchSizes<Item>,
): Generator<readonly Item[]> {
  let batch: Item[] = [];
  let batchLength = 0;
  for (const item of items) {
    const length = lengthOf(item);
    const isFull = batch.length >= countMax || batchLength + length > lengthMax;
    if (isFull && batch.length > 0) {
      yield batch;
      batch = [];
      batchLength = 0;
    }
    batch.push(item);
    batchLength += length;
  }
  if (batch.length > 0) yield batch;
}
