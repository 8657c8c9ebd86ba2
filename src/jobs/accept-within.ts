/** Accepting with patience: the processor's call of RFC 007 with a timeout, for those that have no loop of their own. */
import { type Runtime, waitAtMost } from "../base/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import type { JobType } from "./job.ts";
import type { Acceptance, AcceptOptions, Jobs } from "./jobs.ts";

/** Timers do not count further than some weeks; and a clock may be set. */
const PAUSE_MS_MAX = 60_000;

export interface AcceptWithinParts {
  readonly clock: Runtime["clock"];
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
}

export interface AcceptWithinOptions extends Omit<AcceptOptions, "dueBySec"> {
  /** How long to wait for a job to be there and due. 0: not at all; undefined: until one is, or `signal` aborts. */
  readonly timeoutMs?: number | undefined;
  readonly signal: AbortSignal;
}

/** Jobs that are due now, as soon as there are any; undefined when the time is over or the signal aborts. */
export async function acceptWithin(
  { clock, kv, jobs }: AcceptWithinParts,
  type: JobType,
  { timeoutMs = Number.POSITIVE_INFINITY, signal, ...options }: AcceptWithinOptions,
): Promise<(Acceptance & { readonly kind: "accepted" }) | undefined> {
  const endMs = clock.monotonicMs() + timeoutMs;
  while (!signal.aborted) {
    const nowSec = Math.floor(clock.nowMs() / 1000);
    const dueBySec = options.noSchedule ? 0 : nowSec;
    const acceptance = await kv.transact((tx) => jobs.accept(tx, type, { ...options, dueBySec }));
    if (acceptance.kind === "accepted") return acceptance;
    const { enqueued, firstDueSec } = acceptance;
    try {
      const leftMs = endMs - clock.monotonicMs();
      if (leftMs <= 0) return undefined;
      // A job that comes due by its time is announced by nobody.
      const dueInMs =
        firstDueSec === undefined ? leftMs : Math.max(0, firstDueSec * 1000 - clock.nowMs());
      const pauseMs = Math.min(leftMs, dueInMs, PAUSE_MS_MAX);
      await waitAtMost(clock, pauseMs, signal, (over) => enqueued.fired(over));
    } finally {
      enqueued.cancel();
    }
  }
  return undefined;
}
