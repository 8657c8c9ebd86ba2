/** Seeded properties of a node's clocks, and of its connection to the store. */
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { NodeTraits } from "../kernel/simulated-node.ts";

export function randomTraits(random: SeededRandom): Partial<NodeTraits> {
  return {
    skewMs: random.between(-60_000, 60_000),
    clockRate: random.between(0.98, 1.02),
    delayMsMax: random.pick([0, 5, 50]),
    conflictRatio: random.pick([0, 0.05]),
    unknownRatio: random.pick([0, 0.03]),
    tooOldRatio: random.pick([0, 0.02]),
    retry: { backoffMsMin: random.pick([1, 10]), backoffMsMax: random.pick([20, 100, 500]) },
  };
}
