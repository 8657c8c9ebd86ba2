/**
 * Workloads of a run: continuous replications in each run, and other workloads drawn from the seed.
 */
import type { Workload } from "../../workload.ts";
import type { Scene } from "../scene.ts";
import { Convergence } from "./convergence.ts";
import { Edits } from "./edits.ts";
import { Hostility } from "./hostility.ts";
import { OneShots } from "./one-shots.ts";
import { Operators } from "./operators.ts";
import { Removals } from "./removals.ts";
import { Spending } from "./spending.ts";

const OPTIONAL = {
  "one-shots": { Kind: OneShots, ratio: 0.4 },
  operators: { Kind: Operators, ratio: 0.35 },
  removals: { Kind: Removals, ratio: 0.25 },
  spending: { Kind: Spending, ratio: 0.2 },
  hostility: { Kind: Hostility, ratio: 0.2 },
} as const;

export type WorkloadName = keyof typeof OPTIONAL;

/** Draws the workloads of a run at random. If `wanted` is set, returns these workloads instead. */
export function drawWorkloads(scene: Scene, wanted?: readonly WorkloadName[]): readonly Workload[] {
  const random = scene.random.fork("workloads");
  const names = Object.keys(OPTIONAL) as WorkloadName[];
  const drawn = names.filter((name) => random.chance(OPTIONAL[name].ratio));
  const chosen = wanted ?? drawn;
  return [
    new Edits(scene),
    new Convergence(scene),
    ...chosen.map((name) => new OPTIONAL[name].Kind(scene)),
  ];
}
