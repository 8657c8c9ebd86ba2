/** Retries the listed failures without copying other changes. */
import type { BatchCopier } from "../copying/copy-batch.ts";
import type { RetryRequest, RunFailures } from "../failures/run-failures.ts";

/**
 * Retries the requested failures once. Documents that arrive, or that no longer exist on the
 * source, are removed from the list. For all other documents, another attempt is counted.
 */
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
