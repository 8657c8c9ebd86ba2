/** Determines how a job's run ended, from the results and errors of its directions' runs. Pure. */
import { assert, errorCode } from "../../base/index.ts";
import type { SecretsInUse } from "../../http-client/index.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";
import { classifyFailure, describeFailure, unreachableOrigin } from "../failures/failure.ts";
import type { Parked, RunEnding } from "../jobs/decide.ts";
import type { FailurePlace } from "../jobs/failing.ts";
import type { Replication } from "../request/replication.ts";
import type { ReplicationEnding, ReplicationRun } from "./replication-run.ts";

/** Error name for a server that still responds with 429 after all retries. */
export const RATE_LIMITED = "max_backoff";

/**
 * Returns the ending `caught-up`. For each direction, `runs` contains the run and the update
 * sequence up to which the run has copied all changes.
 */
export function quietAt(
  runs: readonly (readonly [run: ReplicationRun, updateSequence: SourceSequence])[],
): Extract<RunEnding, { kind: "caught-up" }> {
  const [forward, reverse] = runs.map(
    ([{ startTimes }, updateSequence]): Parked => ({ updateSequence, startTimes }),
  );
  assert(forward !== undefined, "A job must have a direction");
  return { kind: "caught-up", pending: 0, ...forward, reverse };
}

/** Returns the ending of a job whose runs have copied all changes in all directions. */
export function completed(endings: readonly ReplicationEnding[]): RunEnding {
  const [forward, reverse] = endings.map((ending) => ("result" in ending ? ending.result : {}));
  const result = reverse === undefined ? { ...forward } : { ...forward, reverse };
  return { kind: "completed", result };
}

/** Returns the ending of a run that failed. */
export function endingOf(
  error: unknown,
  replication: Replication,
  place: FailurePlace,
  secrets: SecretsInUse,
): RunEnding {
  const described = describeFailure(error);
  const failure = {
    error: secrets.redact(described.error),
    reason: secrets.redact(described.reason),
  };
  const cause = { ...place, class: classifyFailure(error) };
  if (errorCode(error) === "REPLICATOR_STALLED") return { kind: "stalled", reason: failure.reason };
  if (failure.error === RATE_LIMITED) return { kind: "rate-limited", failure, cause };
  if (isRefusal(error)) return { kind: "store-refused", failure, cause };
  // Do not report an outage of a server behind a proxy: other nodes might still reach the server.
  const isDirect = [replication.source, replication.target].every(
    (side) => side.kind === "local" || side.proxyUrl === undefined,
  );
  const unreachable = isDirect ? unreachableOrigin(error) : undefined;
  return { kind: "crashed", failure, cause, unreachable };
}

/** Whether the store is unavailable or rejects writes, for example because the disk is full. */
export function isRefusal(error: unknown): boolean {
  return errorCode(error) === "KV_UNAVAILABLE";
}
