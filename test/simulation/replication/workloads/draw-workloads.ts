/** What a run is put to: continuous replications always, and beside them what the seed says. */
import type { Workload } from "../../workload.ts";
import type { Scene } from "../scene.ts";
import { Convergence } from "./convergence.ts";
import { Edits } from "./edits.ts";
import { Hostility } from "./hostility.ts";
import { OneShots } from "./one-shots.ts";
import { Operators } from "./operators.ts";
import { Removals } from "./removals.ts";
import { Spending } from "./spending.ts";

const OPTIONAL = [
  [OneShots, 0.4],
  [Operators, 0.35],
  [Removals, 0.25],
  [Spending, 0.2],
  [Hostility, 0.2],
] as const;

export function drawWorkloads(scene: Scene): readonly Workload[] {
  const random = scene.random.fork("workloads");
  const chosen = OPTIONAL.filter(([_, ratio]) => random.chance(ratio));
  return [
    new Edits(scene),
    new Convergence(scene),
    ...chosen.map(([WorkloadClass]) => new WorkloadClass(scene)),
  ];
}
