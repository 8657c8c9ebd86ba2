/**
 * Work of a run that may end its node, such as parsing a very long answer. It is stored before it begins, so that the next
 * run knows whether a node died over it. A job over which two nodes died in a row is quarantined until an operator decides
 * otherwise.
 */
import { assert } from "../../base/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";
import type { ReplicationFailure } from "./failing.ts";

export interface Hazard {
  /** The operator's decision that was in force. */
  readonly decision: number;
  readonly deathCount: number;
  /** For people. Absent between two runs. */
  readonly work?: string;
}

export const NO_HAZARD: Hazard = { decision: 0, deathCount: 0 };

/** One death may have any reason. */
const DEATHS_MAX = 2;

const FORMAT = 1;

/** The hazard as the next run finds it: work that was never finished was a node's last. */
export function afterDeath({ work, ...hazard }: Hazard): Hazard {
  return work === undefined ? hazard : { ...hazard, deathCount: hazard.deathCount + 1 };
}

/** Why a job must not run, if nodes died over it. `work`: what they did last. */
export function quarantine(
  { deathCount }: Hazard,
  work: string | undefined,
): ReplicationFailure | undefined {
  if (deathCount < DEATHS_MAX) return undefined;
  const last = work === undefined ? "" : `, the last one over ${work}`;
  const reason = `${deathCount} nodes died while they ran this job${last}; retry the job to run it again`;
  return { error: "quarantined", reason };
}

export function encodeHazard({ decision, deathCount, work }: Hazard): Uint8Array {
  return packTuple([FORMAT, decision, deathCount, work ?? null]);
}

export function decodeHazard(value: Uint8Array): Hazard {
  const [format, decision, deathCount, work] = unpackTuple(value);
  assert(format === FORMAT, "A hazard has a format of this version");
  const hazard = { decision: Number(decision), deathCount: Number(deathCount) };
  return typeof work === "string" ? { ...hazard, work } : hazard;
}
