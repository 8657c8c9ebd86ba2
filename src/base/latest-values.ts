/**
 * A value that changes, as an async iterable. A slow consumer skips to the latest value, so nothing
 * accumulates.
 */
export class LatestValues<T> {
  #latest: { readonly value: T } | undefined;
  #version = 0;
  #end: { readonly error?: unknown } | undefined;
  #changed = pendingChange();
  #consumerCount = 0;

  /** Whether an iteration is in progress. */
  get isFollowed(): boolean {
    return this.#consumerCount > 0;
  }

  set(value: T): void {
    this.#latest = { value };
    this.#version++;
    this.#wake();
  }

  /**
   * Ends all iterations once they have yielded the latest value. They then throw `error` if it is
   * given.
   */
  end(end: { readonly error?: unknown } = {}): void {
    this.#end = end;
    this.#wake();
  }

  async *values(): AsyncGenerator<T, void, undefined> {
    this.#consumerCount++;
    let seen = 0;
    try {
      for (;;) {
        const { promise: changed } = this.#changed;
        if (seen < this.#version && this.#latest !== undefined) {
          seen = this.#version;
          yield this.#latest.value;
        } else if (this.#end !== undefined) {
          if ("error" in this.#end) throw this.#end.error;
          return;
        } else await changed;
      }
    } finally {
      this.#consumerCount--;
    }
  }

  #wake(): void {
    const { wake } = this.#changed;
    this.#changed = pendingChange();
    wake();
  }
}

function pendingChange(): { readonly promise: Promise<void>; readonly wake: () => void } {
  let wake = (): void => {};
  const promise = new Promise<void>((resolve) => {
    wake = resolve;
  });
  return { promise, wake };
}
