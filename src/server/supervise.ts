/** Runs services concurrently and restarts those that fail. */
import { backoff, type Runtime } from "../base/index.ts";

/**
 * A task that runs until its signal aborts. `run` settles when everything that it started has
 * ended.
 */
export interface Service {
  readonly name: string;
  run(signal: AbortSignal): Promise<void>;
}

const PAUSE_MS = { min: 100, max: 10_000 };
/** Running time after which a service counts as recovered. */
const HEALTHY_MS = 60_000;

/**
 * Runs the services. Settles when the signal has aborted and all services have ended. Traces each
 * failure, unless `isReported` returns true because the problem was already reported.
 */
export async function supervise(
  runtime: Runtime,
  services: readonly Service[],
  signal: AbortSignal,
  isReported: (error: unknown) => boolean = () => false,
): Promise<void> {
  await Promise.all(services.map((service) => keepRunning(runtime, service, signal, isReported)));
}

async function keepRunning(
  { clock, trace }: Runtime,
  service: Service,
  signal: AbortSignal,
  isReported: (error: unknown) => boolean,
): Promise<void> {
  let failureCount = 1;
  while (!signal.aborted) {
    const startedAtMs = clock.monotonicMs();
    const pauseMs = backoff(PAUSE_MS, failureCount);
    try {
      await service.run(signal);
    } catch (error) {
      if (signal.aborted) return;
      if (!isReported(error)) {
        trace.event("service.failed", { service: service.name, error: String(error), pauseMs });
      }
    }
    const wasHealthy = clock.monotonicMs() - startedAtMs > HEALTHY_MS;
    await clock.sleep(wasHealthy ? PAUSE_MS.min : pauseMs, signal).catch(() => {});
    failureCount = wasHealthy ? 2 : failureCount + 1;
  }
}
