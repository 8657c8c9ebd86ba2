/** Retries the revisions of a list of failures, and nothing else. */
import type { BatchCopier } from "../copying/copy-batch.ts";
import type { RetryRequest, RunFailures } from "../failures/run-failures.ts";

/** Goes once through what was requested. What arrives leaves it, and what the source has no more; what is refused again stays with one try more. */
export async function retryFailures(
  batchCopier: BatchCopier,
  failures: RunFailures,
  { request, ids }: RetryRequest,
  signal: AbortSignal,
): Promise<void> {
  for await (const page of failures.pages(ids)) {
    signal.throwIfAborted();
    await batchCopier.retry(
      page.map(({ id, revision }) => ({ id, revisions: [revision] })),
      signal,
    );
  }
  await failures.retryDone(request);
}
