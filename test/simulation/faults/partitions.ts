/** Partitions between two parties, in one direction or in both. */
import { CUTS } from "../kernel/link.ts";
import type { Fault } from "./faults.ts";
import type { Nodes } from "./node-faults.ts";

/** Returns the fault that partitions a node from the store. */
export function partitionsFromStore(nodes: Nodes): Fault {
  return {
    name: "partition from the store",
    durationMsMax: 20_000,
    strike(random) {
      return random.pick(nodes()).cutOff(random.pick(CUTS));
    },
  };
}

/** Returns the fault that partitions a node from a server. */
export function partitionsFromServer(nodes: Nodes, hosts: readonly string[]): Fault {
  return {
    name: "partition from a server",
    durationMsMax: 15_000,
    strike(random) {
      return random.pick(nodes()).linkTo(random.pick(hosts)).cut(random.pick(CUTS));
    },
  };
}

/** Returns the fault that makes a server unreachable from all nodes. */
export function outages(nodes: Nodes, hosts: readonly string[]): Fault {
  return {
    name: "outage",
    durationMsMax: 15_000,
    strike(random) {
      const host = random.pick(hosts);
      const cut = random.pick(CUTS);
      const heals = nodes().map((node) => node.linkTo(host).cut(cut));
      return () => {
        for (const heal of heals) heal();
      };
    },
  };
}
