/** Compares two databases in the caller's process. */
import { LatestValues } from "../../base/index.ts";
import type { Comparison } from "../../replicator/index.ts";
import { VERSION } from "../../server/index.ts";
import { compareSides } from "./compare.ts";
import { openConnections } from "./connections.ts";
import { parseOwnReplication } from "./endpoints.ts";
import type { FailedRevision, ReplicationEndpoint } from "./options.ts";
import { failedRevision, replicationError } from "./replication-error.ts";

export interface VerifyOptions {
  /** Aborts the comparison, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /**
   * Whether to copy the revisions that the target lacks, and compare again. Default: false.
   */
  readonly repair?: boolean;
  /** Called for each difference that remains after a repair, in no particular order. */
  readonly onDifference?: (difference: Difference) => void;
}

/** A leaf revision, or one of its attachments, that differs. */
export interface Difference {
  readonly id: string;
  readonly rev: string;
  readonly attachment?: string;
  readonly reason: string;
}

/** Progress of a comparison. Counts refer to the source unless stated otherwise. */
export interface VerificationProgress {
  readonly documents: number;
  readonly leaf_revisions: number;
  readonly attachments: number;
  /** Differences in either direction. */
  readonly differences: number;
}

export interface VerificationResult extends VerificationProgress {
  /** Whether both databases have the same leaf revisions and attachments. */
  readonly ok: boolean;
  /** Documents copied by a repair. */
  readonly repaired: number;
  /** The first revisions that a repair could not copy. */
  readonly failures: readonly FailedRevision[];
}

/** A comparison in progress: a promise of its result, and an async iterable of its progress. */
export interface Verification
  extends Promise<VerificationResult>,
    AsyncIterable<VerificationProgress> {}

/** Maximum number of failures in a result. */
const FAILURES_MAX = 1_000;

/**
 * Compares the leaf revisions and attachments of both databases. A document that changes meanwhile
 * might be reported as a difference. Rejects with a ReplicationError.
 */
export function verify(
  source: ReplicationEndpoint,
  target: ReplicationEndpoint,
  options: VerifyOptions = {},
): Verification {
  const progress = new LatestValues<VerificationProgress>();
  const result = compare(source, target, options, progress);
  result.then(
    () => progress.end(),
    (error: unknown) => progress.end({ error }),
  );
  // A promise without handlers: if the caller ignores a failure, the runtime reports an unhandled
  // rejection.
  const shown = result.then((value) => value);
  return Object.assign(shown, {
    [Symbol.asyncIterator]: () => {
      shown.catch(() => {});
      return progress.values();
    },
  });
}

async function compare(
  source: ReplicationEndpoint,
  target: ReplicationEndpoint,
  { signal = new AbortController().signal, repair = false, onDifference }: VerifyOptions,
  progress: LatestValues<VerificationProgress>,
): Promise<VerificationResult> {
  signal.throwIfAborted();
  const connections = openConnections({ userAgent: `Tandem/${VERSION}` });
  let repaired = 0;
  let failures: readonly FailedRevision[] = [];
  // With `repair`, keeps the differences until it is clear whether a second comparison follows.
  let isLast = !repair;
  try {
    const own = parseOwnReplication(source, target, {});
    const sides = {
      source: own.open(connections, "source"),
      target: own.open(connections, "target"),
      options: own.replication.options,
    };
    const found: Difference[] = [];
    const comparison = await compareSides(
      connections,
      sides,
      {
        repairs: repair,
        onProgress: (counts) => progress.set(shownProgress(counts)),
        write: (finding) => {
          if ("repaired" in finding) {
            repaired = finding.repaired.documentCount;
            failures = finding.repaired.failures.slice(0, FAILURES_MAX).map(failedRevision);
            isLast = true;
            found.length = 0;
          } else if ("difference" in finding) {
            const { revision: rev, ...rest } = finding.difference;
            const difference = { rev, ...rest };
            if (isLast) onDifference?.(difference);
            else if (onDifference !== undefined) found.push(difference);
          }
        },
      },
      signal,
    );
    for (const difference of found) onDifference?.(difference);
    const shown = shownProgress(comparison);
    return { ok: shown.differences === 0, ...shown, repaired, failures };
  } catch (error) {
    if (signal.aborted && error === signal.reason) throw error;
    throw replicationError(error);
  } finally {
    await connections.close();
  }
}

function shownProgress(comparison: Comparison): VerificationProgress {
  return {
    documents: comparison.documentCount,
    leaf_revisions: comparison.leafCount,
    attachments: comparison.attachmentCount,
    differences: comparison.differenceCount,
  };
}
