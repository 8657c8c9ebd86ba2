/**
 * Requests to other servers, executed as jobs of the queue. An API-only node opens no connections
 * to other servers, so a replication node executes these jobs. Such a job stores the question as
 * its request, sealed as usual, and the response as its data.
 */
import { OperationalError } from "../../base/index.ts";
import type { JobData } from "../../jobs/index.ts";

/** Subject of the question: a replication document (`check`) or a changed rule (`plan`). */
export type QuestionKind = "check" | "plan";

/** Result of a question, stored as the job's data. */
export type QuestionAnswer =
  | { readonly kind: "answered"; readonly answer: JobData }
  | {
      readonly kind: "failed";
      /** Code of the error, if it has one. */
      readonly code: string | null;
      readonly error: string;
      readonly reason: string;
    };

/** Thrown if there is no replication node, or none has answered in time. */
export class NoReplicationNodeError extends OperationalError {
  override readonly name = "NoReplicationNodeError";
  readonly reason: string;

  constructor(reason: string) {
    super("REPLICATOR_NO_NODE", "No replication node has responded", { reason });
    this.reason = reason;
  }
}
