/** Compares the sides of a replication and, if requested, copies what the target lacks. */
import {
  BatchCopier,
  type Comparison,
  type ComparisonObserver,
  compareDatabases,
  type Difference,
  type DocumentFailure,
  type Endpoint,
  MemoryRunFailures,
  REPLICATOR_CONFIG_DEFAULT,
  type Replication,
} from "../../replicator/index.ts";
import type { Connections } from "./connections.ts";

/**
 * Reason why differing attachments of a common revision are not repaired. A write with `new_edits:
 * false` ignores existing revisions, so an operator has to decide.
 */
const SAME_REVISION =
  "both sides have this revision, and an existing revision cannot be overwritten; either attach the bytes again at the source, which creates a revision, and replicate, or purge the revision at the target (POST /{db}/_purge) and repair again";

/** Results of a comparison, reported as they are found. */
export type ComparisonFinding =
  | { readonly difference: Difference }
  | { readonly comparison: Comparison }
  | { readonly notRepaired: { readonly attachmentCount: number; readonly reason: string } }
  | {
      readonly repaired: {
        /** Number of documents whose revisions were all copied. */
        readonly documentCount: number;
        readonly failures: readonly DocumentFailure[];
      };
    };

export interface ComparedSides {
  readonly source: Endpoint;
  readonly target: Endpoint;
  readonly options: Replication["options"];
}

/** Compares both sides and, if requested, repairs the target. Returns the last comparison. */
export async function compareSides(
  { runtime, secrets }: Pick<Connections, "runtime" | "secrets">,
  { source, target, options }: ComparedSides,
  {
    repairs,
    write,
    onProgress,
  }: {
    readonly repairs: boolean;
    readonly write: (finding: ComparisonFinding) => void;
    readonly onProgress?: (comparison: Comparison) => void;
  },
  signal: AbortSignal,
): Promise<Comparison> {
  const failures = new MemoryRunFailures();
  const { copyLimits } = REPLICATOR_CONFIG_DEFAULT;
  const batchCopier = new BatchCopier(
    { runtime, source, target, options, copyLimits },
    { count: () => {}, failures, secrets },
  );
  let triedCount = 0;
  let failedCount = 0;
  let attachmentCount = 0;
  const progress = onProgress === undefined ? {} : { progress: onProgress };
  const observer: ComparisonObserver = {
    ...progress,
    difference: (difference) => {
      write({ difference });
      if (difference.attachment !== undefined) attachmentCount++;
    },
    // Documents that exist only on the target are kept, because they might be intentional.
    lacking: async (documents, repairSignal) => {
      if (!repairs) return;
      const failed = await batchCopier.tryOnce(documents, repairSignal);
      triedCount += documents.length;
      failedCount += new Set(failed.map(({ id }) => id)).size;
    },
  };
  let comparison = await compareDatabases(source, target, signal, observer);
  if (repairs && attachmentCount > 0) {
    write({ notRepaired: { attachmentCount, reason: SAME_REVISION } });
  }
  if (triedCount > 0) {
    write({ comparison });
    const documentCount = triedCount - failedCount;
    write({ repaired: { documentCount, failures: failures.failures } });
    comparison = await compareDatabases(source, target, signal, {
      ...progress,
      difference: (difference) => write({ difference }),
    });
  }
  write({ comparison });
  return comparison;
}
