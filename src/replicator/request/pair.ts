/**
 * `pair`: one job that replicates in both directions. The forward direction is from the document's
 * source to its target. Pure.
 */
import { ReplicationInvalidError } from "./parse-fields.ts";
import type { Replication } from "./replication.ts";

/**
 * Returns the reverse direction of a pair; undefined for a job with one direction. Only the forward
 * direction creates its target and copies the security object.
 */
export function reverseOf(replication: Replication): Replication | undefined {
  if (replication.pair !== true) return undefined;
  const { source, target, copiesSecurity: _, overwritesSecurity: __, ...others } = replication;
  return {
    ...others,
    source: target,
    target: source,
    createTarget: false,
    createTargetParameters: {},
  };
}

/** Returns the directions of a job, forward first. */
export function directionsOf(replication: Replication): readonly Replication[] {
  const reverse = reverseOf(replication);
  return reverse === undefined ? [replication] : [replication, reverse];
}

/** Throws a ReplicationInvalidError for a member that cannot apply to both directions. */
export function checkPair({ schedule, since_seq: since }: Readonly<Record<string, unknown>>): void {
  if (since !== undefined && since !== null) {
    throw new ReplicationInvalidError(
      "`since_seq` is a position in the source only; omit it, or use two documents instead of `pair`",
    );
  }
  if (typeof schedule === "string" && schedule.startsWith("after ")) {
    throw new ReplicationInvalidError(
      '`schedule` of a pair must not be a number of changes, because both databases have changes; use times, for example "every 15m"',
    );
  }
}
