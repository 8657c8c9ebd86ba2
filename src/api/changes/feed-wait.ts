/** Waits for the next change of a feed, and sends heartbeats to clients that requested them. */
import { abortWith, type Clock } from "../../base/index.ts";

export interface FeedWait {
  readonly clock: Clock;
  /** Aborts when the client disconnects or the server stops. */
  readonly signal: AbortSignal;
  /** Heartbeat interval; undefined for none. */
  readonly heartbeatMs: number | undefined;
  /** Maximum wait of the feed. Without it, the feed waits until the client disconnects. */
  readonly timeoutMs: number | undefined;
  readonly heartbeat: string;
}

/**
 * Waits until `changed` settles, yielding `heartbeat` whenever one is due. Returns `changed`,
 * `timed-out` after the feed's timeout, or `gone` if the client disconnected or the database was
 * deleted. The signal passed to `changed` aborts when the wait ends.
 */
export async function* waitFor(
  changed: (signal: AbortSignal) => Promise<"changed" | "gone">,
  { clock, signal, heartbeatMs, timeoutMs, heartbeat }: FeedWait,
): AsyncGenerator<string, "changed" | "timed-out" | "gone", undefined> {
  const waiting = new AbortController();
  const unfollow = abortWith(signal, waiting);
  const startMs = clock.monotonicMs();
  try {
    const change = changed(waiting.signal);
    // Prevents an unhandled rejection if `changed` fails after the wait has ended.
    change.catch(() => {});
    for (;;) {
      const leftMs =
        timeoutMs === undefined ? undefined : startMs + timeoutMs - clock.monotonicMs();
      if (leftMs !== undefined && leftMs <= 0) return "timed-out";
      const pauseMs = Math.min(
        heartbeatMs ?? Number.POSITIVE_INFINITY,
        leftMs ?? Number.POSITIVE_INFINITY,
      );
      const woken = await Promise.race([change, pause(clock, pauseMs, waiting.signal)]);
      if (woken !== "paused") return woken;
      if (heartbeatMs !== undefined) yield heartbeat;
    }
  } finally {
    unfollow();
    waiting.abort(new Error("Aborted because the feed has stopped waiting for this"));
  }
}

async function pause(
  clock: Clock,
  durationMs: number,
  signal: AbortSignal,
): Promise<"paused" | "gone"> {
  try {
    await clock.sleep(durationMs, signal);
    return "paused";
  } catch {
    return "gone";
  }
}
