/** Groups of failing jobs, for a server that does not make them. Pure. */
import type { FailingGroup, Job } from "./types.ts";

/** The largest first. */
export function groupsOf(jobs: readonly Job[]): FailingGroup[] {
  const groups = new Map<string, FailingGroup>();
  for (const { last_failure: failure, failing_since: since } of jobs) {
    if (failure === null) continue;
    const { class: failureClass, side, host, error, reason, next_try: nextTry } = failure;
    const key = JSON.stringify([failureClass, side, host]);
    const known = groups.get(key);
    groups.set(key, {
      class: failureClass,
      side,
      host,
      error: known?.error ?? error,
      reason: known?.reason ?? reason,
      count: (known?.count ?? 0) + 1,
      since: earlier(known?.since ?? null, since) ?? failure.time,
      next_try: earlier(known?.next_try ?? null, nextTry),
    });
  }
  return [...groups.values()].sort((left, right) => right.count - left.count);
}

/** ISO times of one form are in order as texts. */
function earlier(left: string | null, right: string | null): string | null {
  if (left === null || right === null) return left ?? right;
  return left < right ? left : right;
}
