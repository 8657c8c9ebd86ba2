/** Promises that belong together: no call leaves a promise behind that is still pending. */

/**
 * Runs tasks side by side under one signal. The first failure aborts the others; the call settles when all have ended, and
 * rejects with that first failure.
 */
export async function runTogether(
  signal: AbortSignal,
  tasks: readonly ((signal: AbortSignal) => Promise<void>)[],
): Promise<void> {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(signal.reason);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  let failure: { readonly error: unknown } | undefined;
  const guarded = tasks.map(async (task) => {
    try {
      await task(controller.signal);
    } catch (error) {
      failure ??= { error };
      controller.abort(error);
    }
  });
  await Promise.all(guarded);
  signal.removeEventListener("abort", onAbort);
  if (failure !== undefined) throw failure.error;
}

/**
 * Calls `visit` for each item, at most `countMax` at once. Stops handing out items after the first failure, and throws it. What needs
 * no promise need not return one.
 */
export async function forEachConcurrent<Item>(
  items: readonly Item[],
  countMax: number,
  visit: (item: Item) => void | Promise<void>,
): Promise<void> {
  let next = 0;
  let failure: { readonly error: unknown } | undefined;
  const lane = async (): Promise<void> => {
    while (next < items.length && failure === undefined) {
      const item = items[next++] as Item;
      try {
        const visited = visit(item);
        if (visited instanceof Promise) await visited;
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(countMax, items.length) }, lane));
  if (failure !== undefined) throw failure.error;
}

/**
 * The result of `work` for each item, all of them started before any is waited for. Results that are there at once cost no
 * promise. The first item is waited for alone: what it finds out for all, the others then know.
 */
export async function mapAtOnce<Item, Result>(
  items: readonly Item[],
  work: (item: Item, index: number) => Result | Promise<Result>,
): Promise<Result[]> {
  const results = new Array<Result | Promise<Result>>(items.length);
  let isThere = true;
  let index = 0;
  try {
    for (; index < items.length; index++) {
      const result = work(items[index] as Item, index);
      const isFirst = index === 0;
      results[index] = isFirst ? await result : result;
      if (result instanceof Promise && !isFirst) isThere = false;
    }
  } catch (error) {
    // Those that were started are heard to their end.
    results.length = index;
    results.push(Promise.reject(error));
    isThere = false;
  }
  return isThere ? (results as Result[]) : Promise.all(results);
}

/** Lets at most so many pieces of work run at once; the others wait their turn, first come, first served. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(countMax: number) {
    this.#free = countMax;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}
