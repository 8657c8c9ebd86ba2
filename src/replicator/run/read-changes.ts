/** Reads changes from the source's feed into the bounded queue of the copiers. */
import { abortable, type BoundedQueue } from "../../base/index.ts";
import { type ChangesItem, isChange } from "../endpoints/endpoint.ts";

/** Reads changes until the feed ends, and then closes the queue. Waits while the queue is full. */
export async function readChanges(
  feed: AsyncIterable<readonly ChangesItem[]>,
  queue: BoundedQueue<ChangesItem>,
  onRead: (count: number) => void,
  signal: AbortSignal,
): Promise<void> {
  const onAbort = (): void => queue.fail(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    for await (const items of feed) {
      onRead(changeCount(items));
      for (const item of items) {
        const weight = isChange(item) ? item.sizeBytes : 1;
        if (!queue.tryPush(item, weight)) await abortable(queue.push(item, weight), signal);
      }
    }
    queue.close();
  } catch (error) {
    queue.fail(error);
    throw error;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

export function changeCount(items: readonly ChangesItem[]): number {
  let count = 0;
  for (const item of items) if (isChange(item)) count++;
  return count;
}
