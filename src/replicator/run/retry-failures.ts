/** Retries the revisions of a list of failures, and nothing else. */
import type { BatchCopier } from "../copying/copy-batch.ts";
import type { RunFailures } from "../failures/run-failures.ts";

/** The request of the regular retries, which no user made. */
export const SCHEDULED_RETRY = "scheduled";

/** Goes through the list once. What arrives leaves it, what is refused again stays with one try more. */
export async function retryFailures(
  batchCopier: BatchCopier,
  failures: RunFailures,
  request: string,
  signal: AbortSignal,
): Promise<void> {
  for await (const page of failures.pages()) {
    signal.throwIfAborted();
    await batchCopier.tryOnce(
      page.map(({ id, revision }) => ({ id, revisions: [revision] })),
      signal,
    );
  }
  await failures.retryDone(request);
}
