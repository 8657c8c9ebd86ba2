/** Faults of a node. Each fault affects one random node. */
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { SimulatedNode } from "../kernel/simulated-node.ts";
import type { Fault } from "./faults.ts";

export type Nodes = () => readonly SimulatedNode[];

/** Returns the fault that crashes a node. Another node is started in its place later. */
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

/**
 * Returns the fault that moves a node's wall clock by at most `stepMsMax` in either direction, and
 * later moves the clock back.
 */
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
