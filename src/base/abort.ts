/** Waits that end when an AbortSignal aborts. */
import type { Clock } from "./runtime.ts";

/** Settles as `promise` does, or rejects with `signal.reason` when the signal aborts. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      // Ignore the outcome of the promise, because the caller no longer waits for it.
      promise.catch(() => {});
      reject(signal.reason);
      return;
    }
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/**
 * Aborts `follower` when `signal` aborts, until the returned function is called. Cheaper than
 * `AbortSignal.any`, whose registrations on a long-lived signal survive young-generation
 * collections.
 */
export function abortWith(signal: AbortSignal, follower: AbortController): () => void {
  const onAbort = (): void => follower.abort(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  return () => signal.removeEventListener("abort", onAbort);
}

/**
 * Waits until `event` settles, the time limit passes or the signal aborts. Returns true if `event`
 * resolved in time. `event` receives a signal that aborts when the wait ends.
 */
export async function waitAtMost(
  clock: Clock,
  durationMs: number,
  signal: AbortSignal,
  event: (over: AbortSignal) => Promise<unknown>,
): Promise<boolean> {
  if (signal.aborted) return false;
  const over = new AbortController();
  const unfollow = abortWith(signal, over);
  const no = (): boolean => false;
  const happened = event(over.signal).then(() => true, no);
  const slept = clock.sleep(durationMs, over.signal).then(no, no);
  try {
    return await Promise.race([happened, slept]);
  } finally {
    unfollow();
    over.abort(new Error("Aborted because a wait with a time limit has ended"));
  }
}

/**
 * Settles as `work` does. If this takes longer than `durationMs`, aborts `work` with the error that
 * `late()` returns, and rejects with this error. `work` must end when its signal aborts.
 */
export async function finishWithin<T>(
  clock: Clock,
  durationMs: number,
  signal: AbortSignal,
  {
    work,
    late,
  }: { readonly work: (signal: AbortSignal) => Promise<T>; readonly late: () => Error },
): Promise<T> {
  const over = new AbortController();
  const limited = new AbortController();
  const unfollow = abortWith(signal, limited);
  const timer = clock.sleep(durationMs, over.signal).then(
    () => limited.abort(late()),
    () => {},
  );
  try {
    return await work(limited.signal);
  } finally {
    unfollow();
    over.abort(new Error("Timer stopped because the work has ended"));
    await timer;
  }
}
