/** What a replication would meet, asked before it is made: docs/api/replication.md. */
import type { ReplicationDocument } from "./one-job.ts";
import { request, withQuery } from "./request.ts";
import type { JobState } from "./types.ts";

/** One side. `new`: it is not there, and will be made. */
export interface CheckedEndpoint {
  readonly state: "open" | "new" | "failed";
  /** Of a source; null: nobody knows. */
  readonly changes: number | null;
  readonly class: string | null;
  readonly error: string | null;
  readonly reason: string | null;
}

export interface CheckedReplication {
  /** Why the document would be refused; null: it would not. */
  readonly reason: string | null;
  /** What is wrong with its members. */
  readonly faults: readonly string[];
  readonly name_taken: boolean;
  /** Null: not looked at. */
  readonly source: CheckedEndpoint | null;
  readonly target: CheckedEndpoint | null;
  /** Another job that does the same. */
  readonly job: {
    readonly id: string;
    readonly database: string | null;
    readonly doc_id: string | null;
    readonly state: JobState;
  } | null;
}

/** Writes nothing. Throws a RequestError. */
export function checkReplication(
  database: string,
  document: ReplicationDocument,
  signal: AbortSignal,
): Promise<CheckedReplication> {
  const path = withQuery("_tandem/replications/_check", { database });
  return request("POST", path, { body: document, signal });
}
