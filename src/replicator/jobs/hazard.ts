/**
 * Record of work that could crash the node, such as parsing a very long response. The record is
 * written before the work starts, so that the next run detects a crash. If two runs of a job crash
 * their nodes consecutively, the job is quarantined until an operator acts.
 */
import { assert } from "../../base/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";
import type { ReplicationFailure } from "./failing.ts";

export interface Hazard {
  /**
   * Number of the operator's latest decision when the hazard was recorded. A later decision clears
   * the hazard.
   */
  readonly decision: number;
  readonly deathCount: number;
  /** Description of the work in progress. Absent between runs. */
  readonly work?: string;
}

export const NO_HAZARD: Hazard = { decision: 0, deathCount: 0 };

/** Number of crashed nodes at which a job is quarantined. A single crash can have any cause. */
const DEATHS_MAX = 2;

const FORMAT = 1;

/** Returns the hazard at the start of the next run. Unfinished work means that the node crashed. */
export function afterDeath({ work, ...hazard }: Hazard): Hazard {
  return work === undefined ? hazard : { ...hazard, deathCount: hazard.deathCount + 1 };
}

/**
 * Returns the failure with which to quarantine a job; undefined if too few nodes have crashed.
 * `work` is the work during which the last node crashed.
 */
export function quarantine(
  { deathCount }: Hazard,
  work: string | undefined,
): ReplicationFailure | undefined {
  if (deathCount < DEATHS_MAX) return undefined;
  const last = work === undefined ? "" : `, the last one while processing ${work}`;
  const reason = `${deathCount} nodes crashed while running this job${last}; retry the job to run it again`;
  return { error: "quarantined", reason };
}

export function encodeHazard({ decision, deathCount, work }: Hazard): Uint8Array {
  return packTuple([FORMAT, decision, deathCount, work ?? null]);
}

export function decodeHazard(value: Uint8Array): Hazard {
  const [format, decision, deathCount, work] = unpackTuple(value);
  assert(format === FORMAT, "A hazard must have a supported format version");
  const hazard = { decision: Number(decision), deathCount: Number(deathCount) };
  return typeof work === "string" ? { ...hazard, work } : hazard;
}
