/** What happens to a node itself. Each strikes one of the nodes that there are. */
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { SimulatedNode } from "../kernel/simulated-node.ts";
import type { Fault } from "./faults.ts";

export type Nodes = () => readonly SimulatedNode[];

/** Crashes it; in its place another one starts later. */
export function crashes(nodes: Nodes, replace: () => void): Fault {
  return {
    name: "crash",
    durationMsMax: 20_000,
    strike(random) {
      const node = alive(random, nodes);
      node?.crash();
      return node === undefined ? () => {} : replace;
    },
  };
}

export function pauses(nodes: Nodes): Fault {
  return {
    name: "pause",
    durationMsMax: 20_000,
    strike: (random) => alive(random, nodes)?.pause() ?? (() => {}),
  };
}

/** Sets its wall clock by up to so much, forward or back, and right again. */
export function clockSteps(nodes: Nodes, stepMsMax: number): Fault {
  return {
    name: "clock step",
    durationMsMax: 20_000,
    strike(random) {
      const stepMs = random.between(-stepMsMax, stepMsMax);
      return alive(random, nodes)?.stepClock(stepMs) ?? (() => {});
    },
  };
}

function alive(random: SeededRandom, nodes: Nodes): SimulatedNode | undefined {
  const living = nodes().filter(({ isCrashed }) => !isCrashed);
  return living.length === 0 ? undefined : random.pick(living);
}
