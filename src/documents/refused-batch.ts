/**
 * Splits a batch that was refused as a whole into halves until the offending documents are found,
 * and writes all other documents.
 *
 * For n documents with g offenders, this takes at most 1 + 2 · g · ⌈log₂ n⌉ writes, and never more
 * than 2n - 1.
 */
import { append, assert } from "../base/index.ts";

/** Items refused together, with the reason. */
export interface RefusedBatch<Item, Cause> {
  readonly items: readonly Item[];
  readonly cause: Cause;
}

export interface BatchWriting<Item, Cause> {
  /**
   * Writes the items together. Resolves with those parts of the batch that were refused as a whole,
   * or an empty list if every item has its own outcome.
   */
  write(items: readonly Item[]): Promise<readonly RefusedBatch<Item, Cause>[]>;
  /** Called for an item that was refused even when written alone. */
  refuse(item: Item, cause: Cause): void | Promise<void>;
  /**
   * Whether both halves of a batch are written before either half is split again, so that all
   * acceptable items are written before any item is refused. Otherwise items are written and
   * refused in order.
   */
  readonly bothHalvesFirst?: boolean;
}

/** Writes the items, in one batch if possible. */
export async function writeInHalves<Item, Cause>(
  items: readonly Item[],
  writing: BatchWriting<Item, Cause>,
): Promise<void> {
  if (items.length === 0) return;
  for (const refused of await writing.write(items)) await splitRefused(refused, writing);
}

/** Splits a batch that was refused, and writes its parts. */
export async function splitRefused<Item, Cause>(
  { items, cause }: RefusedBatch<Item, Cause>,
  writing: BatchWriting<Item, Cause>,
): Promise<void> {
  assert(items.length > 0, "A refused batch must not be empty");
  if (items.length === 1) {
    await writing.refuse(items[0] as Item, cause);
    return;
  }
  const middle = Math.ceil(items.length / 2);
  const halves = [items.slice(0, middle), items.slice(middle)];
  const rounds = writing.bothHalvesFirst === true ? [halves] : halves.map((half) => [half]);
  for (const round of rounds) {
    const refused: RefusedBatch<Item, Cause>[] = [];
    for (const half of round) append(refused, await writing.write(half));
    for (const part of refused) await splitRefused(part, writing);
  }
}
