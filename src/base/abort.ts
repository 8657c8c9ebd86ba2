/** Waiting that ends when a signal aborts. */
import type { Clock } from "./runtime.ts";

/** Settles as `promise` does, or rejects with `signal.reason` as soon as the signal aborts. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      // The caller left before it came, so its outcome is ignored.
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
 * Aborts `follower` when `signal` aborts, until the function that is returned is called. For what is done often, where
 * `AbortSignal.any` is dear: what that registers at a signal that lives long outlives the young generation's collections.
 */
export function abortWith(signal: AbortSignal, follower: AbortController): () => void {
  const onAbort = (): void => follower.abort(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  return () => signal.removeEventListener("abort", onAbort);
}

/**
 * Waits until `event` settles, the time is over, or the signal aborts, whichever comes first; true when it was the event, and
 * it came to pass. `event` is given a signal that aborts when the waiting is over.
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
    over.abort(new Error("The waiting is over"));
  }
}

/**
 * Settles as `work` does; work that takes longer is aborted with `late()`, and the call rejects with that. `work` has to end when its
 * signal aborts.
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
    over.abort(new Error("The work is done"));
    await timer;
  }
}
