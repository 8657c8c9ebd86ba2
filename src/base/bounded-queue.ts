/**
 * A producer-consumer queue with back-pressure: bounds the number and the total weight of its
 * items. A producer waits while the queue is full, a consumer while it is empty. An item heavier
 * than the bound is accepted when the queue is empty.
 */
export class BoundedQueue<Item> {
  readonly #itemCountMax: number;
  readonly #weightMax: number;
  readonly #items: { item: Item; weight: number }[] = [];
  #weight = 0;
  #state: { kind: "open" } | { kind: "closed" } | { kind: "failed"; error: unknown } = {
    kind: "open",
  };
  #changed: (() => void)[] = [];

  constructor(limits: { readonly itemCountMax: number; readonly weightMax?: number }) {
    this.#itemCountMax = limits.itemCountMax;
    this.#weightMax = limits.weightMax ?? Number.POSITIVE_INFINITY;
  }

  get length(): number {
    return this.#items.length;
  }

  /** Adds the item if the queue has capacity now. Returns false if it was not added. */
  tryPush(item: Item, weight = 1): boolean {
    if (this.#state.kind !== "open" || this.#isFull(weight)) return false;
    this.#items.push({ item, weight });
    this.#weight += weight;
    this.#announce();
    return true;
  }

  /**
   * Adds the item when the queue has capacity. Rejects with the error of `fail`, or if the queue is
   * closed.
   */
  async push(item: Item, weight = 1): Promise<void> {
    while (!this.tryPush(item, weight)) {
      if (this.#state.kind === "failed") throw this.#state.error;
      if (this.#state.kind === "closed") throw new Error("The queue is closed");
      await this.#nextChange();
    }
  }

  /**
   * Removes up to `countMax` items, at least one. Resolves with undefined when the queue is closed
   * and empty; rejects with the error given to `fail`. `onTaken` is called as items leave the
   * queue, in queue order across all consumers.
   */
  async takeUpTo(
    countMax: number,
    onTaken: (items: readonly Item[]) => void = () => {},
  ): Promise<Item[] | undefined> {
    while (this.#state.kind === "open" && this.#items.length === 0) await this.#nextChange();
    if (this.#state.kind === "failed") throw this.#state.error;
    if (this.#items.length === 0) return undefined;
    const taken = this.#items.splice(0, countMax);
    for (const { weight } of taken) this.#weight -= weight;
    const items = taken.map(({ item }) => item);
    onTaken(items);
    this.#announce();
    return items;
  }

  /** Refuses more items. Queued items can still be removed. */
  close(): void {
    if (this.#state.kind === "open") this.#state = { kind: "closed" };
    this.#announce();
  }

  /** Makes all calls of producers and consumers reject with `error`, and drops queued items. */
  fail(error: unknown): void {
    if (this.#state.kind !== "failed") this.#state = { kind: "failed", error };
    this.#announce();
  }

  #isFull(weight: number): boolean {
    if (this.#items.length === 0) return false;
    return this.#items.length >= this.#itemCountMax || this.#weight + weight > this.#weightMax;
  }

  #nextChange(): Promise<void> {
    return new Promise((resolve) => this.#changed.push(resolve));
  }

  #announce(): void {
    const waiting = this.#changed;
    this.#changed = [];
    for (const wake of waiting) wake();
  }
}
