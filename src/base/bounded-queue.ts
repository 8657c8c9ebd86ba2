/**
 * A queue between producers and consumers with a bound on the number and the weight of its items. A producer waits
 * while it is full, a consumer while it is empty. An item heavier than the whole queue passes alone.
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

  /** Takes the item if there is room at once; false: it was not taken. */
  tryPush(item: Item, weight = 1): boolean {
    if (this.#state.kind !== "open" || this.#isFull(weight)) return false;
    this.#items.push({ item, weight });
    this.#weight += weight;
    this.#announce();
    return true;
  }

  /** Waits until there is room. Rejects with the error of `fail`, or when the queue was closed. */
  async push(item: Item, weight = 1): Promise<void> {
    while (!this.tryPush(item, weight)) {
      if (this.#state.kind === "failed") throw this.#state.error;
      if (this.#state.kind === "closed") throw new Error("The queue is closed");
      await this.#nextChange();
    }
  }

  /**
   * Up to `countMax` items, at least one; undefined when the queue is closed and empty. Rejects with the error of `fail`.
   * `onTaken` is called when the items leave the queue: its calls are in the order of the items, over all consumers.
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

  /** No more items will come; what is queued can still be taken. */
  close(): void {
    if (this.#state.kind === "open") this.#state = { kind: "closed" };
    this.#announce();
  }

  /** Ends both sides with `error`; queued items are dropped. */
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
