/**
 * Splits a batch of writes that was refused as a whole into halves, until the documents to blame are found. All others
 * are written.
 *
 * Of n documents, g of which are to blame, this takes at most 1 + 2 · g · ⌈log₂ n⌉ writes, and never more than 2n - 1.
 */
import { append, assert } from "../base/index.ts";

/** What was refused together, and why. */
export interface RefusedBatch<Item, Cause> {
  readonly items: readonly Item[];
  readonly cause: Cause;
}

export interface BatchWriting<Item, Cause> {
  /**
   * Writes the items at once. Resolves with those of them that were refused as a whole, in one part or several: with none when each
   * of them has an outcome of its own.
   */
  write(items: readonly Item[]): Promise<readonly RefusedBatch<Item, Cause>[]>;
  /** Is told of an item that was refused alone. */
  refuse(item: Item, cause: Cause): void | Promise<void>;
  /**
   * Whether both halves of a batch are written before either is split further, so that what can be written is, before anything is
   * refused. Otherwise the items are written, and refused, in their order.
   */
  readonly bothHalvesFirst?: boolean;
}

/** Writes the items, as one batch if they are taken so. */
export async function writeInHalves<Item, Cause>(
  items: readonly Item[],
  writing: BatchWriting<Item, Cause>,
): Promise<void> {
  if (items.length === 0) return;
  for (const refused of await writing.write(items)) await splitRefused(refused, writing);
}

/** Goes on with a batch whose write was refused. */
export async function splitRefused<Item, Cause>(
  { items, cause }: RefusedBatch<Item, Cause>,
  writing: BatchWriting<Item, Cause>,
): Promise<void> {
  assert(items.length > 0, "What is refused holds something");
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
