/**
 * Structured concurrency: no call returns while one of its promises is pending, except `mapAtOnce`
 * after a failure.
 */
import { abortWith } from "./abort.ts";

/**
 * Runs tasks concurrently under one signal. The first failure aborts the other tasks. The call
 * settles when all tasks have ended, and rejects with the first failure.
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

/** Returns the results of tasks run by `runTogether`. */
export async function allTogether<Results extends readonly unknown[] | readonly []>(
  signal: AbortSignal,
  tasks: { readonly [At in keyof Results]: (signal: AbortSignal) => Promise<Results[At]> },
): Promise<Results> {
  const results: unknown[] = new Array(tasks.length);
  await runTogether(
    signal,
    tasks.map((task, at) => async (taskSignal) => {
      results[at] = await task(taskSignal);
    }),
  );
  return results as unknown as Results;
}

/**
 * Calls `visit` for each item, at most `countMax` concurrently. After a failure no more items are
 * visited, and the call rejects with the first failure. `visit` can be synchronous.
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
 * Returns the result of `work` for each item. Awaits the first call alone, so that the other calls
 * can use what it cached. Then starts all other calls before awaiting any. After a failure, rejects
 * without waiting for calls in progress. Creates no promise for synchronous results.
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
    // Keeps the started items: `Promise.all` also handles their later rejections.
    results.length = index;
    results.push(Promise.reject(error));
    isThere = false;
  }
  return isThere ? (results as Result[]) : Promise.all(results);
}

/** Runs at most `countMax` tasks concurrently; other tasks wait in order of arrival. */
export class Semaphore {
  #countMax: number;
  #count = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(countMax: number) {
    this.#countMax = countMax;
  }

  /** Changes the maximum. Running tasks are not interrupted. */
  resize(countMax: number): void {
    this.#countMax = countMax;
    this.#admit();
  }

  /** Whether nothing is running or waiting. */
  get isIdle(): boolean {
    return this.#count === 0 && this.#waiting.length === 0;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    const entered = this.enter();
    if (entered !== undefined) await entered;
    try {
      return await work();
    } finally {
      this.leave();
    }
  }

  /**
   * Begins a turn, which ends with `leave`. Returns a promise if the caller has to wait for its
   * turn.
   */
  enter(): Promise<void> | undefined {
    if (this.#count >= this.#countMax) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#count++;
    return undefined;
  }

  leave(): void {
    this.#count--;
    this.#admit();
  }

  #admit(): void {
    while (this.#count < this.#countMax) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#count++;
      next();
    }
  }
}

/**
 * Runs the tasks returned by `next`, as many concurrently as `turns` allows, until `next` returns
 * undefined. The first failure aborts the other tasks. Settles when all tasks have ended. The
 * caller's `next` must reject after a task has failed, and after the signal has aborted.
 */
export async function runInTurns(
  signal: AbortSignal,
  turns: Semaphore,
  next: () => Promise<((signal: AbortSignal) => Promise<void>) | undefined>,
): Promise<void> {
  const controller = new AbortController();
  const unfollow = abortWith(signal, controller);
  const running = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;
  const fail = (error: unknown): void => {
    failure ??= { error };
    controller.abort(error);
  };
  while (failure === undefined) {
    await turns.enter();
    const task = await next().catch(fail);
    const run = task?.(controller.signal)
      .catch(fail)
      .finally(() => {
        running.delete(run as Promise<void>);
        turns.leave();
      });
    if (run === undefined) {
      turns.leave();
      break;
    }
    running.add(run);
  }
  await Promise.all(running);
  unfollow();
  if (failure !== undefined) throw failure.error;
}
