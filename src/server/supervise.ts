/** Runs services side by side and restarts those that fail. */
import type { Runtime } from "../base/index.ts";

/** One piece of work that goes on until its signal aborts. `run` settles when nothing that it started is alive. */
export interface Service {
  readonly name: string;
  run(signal: AbortSignal): Promise<void>;
}

const PAUSE_MS_FIRST = 100;
const PAUSE_MS_MAX = 10_000;
/** A service that ran so long is taken for recovered. */
const HEALTHY_MS = 60_000;

/**
 * Settles when the signal has aborted and all services have ended. Failures are announced, except those that `isTold` knows from a
 * trouble that was announced when it began, and of which each attempt would tell again.
 */
export async function supervise(
  runtime: Runtime,
  services: readonly Service[],
  signal: AbortSignal,
  isTold: (error: unknown) => boolean = () => false,
): Promise<void> {
  await Promise.all(services.map((service) => keepRunning(runtime, service, signal, isTold)));
}

async function keepRunning(
  { clock, trace }: Runtime,
  service: Service,
  signal: AbortSignal,
  isTold: (error: unknown) => boolean,
): Promise<void> {
  let pauseMs = PAUSE_MS_FIRST;
  while (!signal.aborted) {
    const startedAtMs = clock.monotonicMs();
    try {
      await service.run(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!isTold(error)) {
        trace.event("service.failed", { service: service.name, error: String(error), pauseMs });
      }
    }
    if (clock.monotonicMs() - startedAtMs > HEALTHY_MS) pauseMs = PAUSE_MS_FIRST;
    await clock.sleep(pauseMs, signal).catch(() => {});
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX);
  }
}
