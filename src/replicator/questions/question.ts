/**
 * Questions to servers, as jobs of the queue: a node that only serves opens no connection to others, so it leaves what
 * needs one to a node that replicates. The question is the request of the job, and sealed like any other; the answer is
 * its data.
 */
import { OperationalError } from "../../base/index.ts";
import type { JobData } from "../../jobs/index.ts";

/** `check`: a replication document. `plan`: a rule as it would be put. */
export type QuestionKind = "check" | "plan";

/** What the data of an answered question holds. */
export type QuestionAnswer =
  | { readonly kind: "answered"; readonly answer: JobData }
  | {
      readonly kind: "failed";
      /** Of the error; null for one without a code. */
      readonly code: string | null;
      readonly error: string;
      readonly reason: string;
    };

/** No node of the cluster can ask, or none has in time. */
export class NoReplicationNodeError extends OperationalError {
  override readonly name = "NoReplicationNodeError";
  readonly reason: string;

  constructor(reason: string) {
    super("REPLICATOR_NO_NODE", "No replication node answers", { reason });
    this.reason = reason;
  }
}
