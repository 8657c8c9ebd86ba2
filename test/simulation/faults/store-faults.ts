/** Faults of the store, which all nodes share. */
import type { World } from "../kernel/world.ts";
import type { Fault } from "./faults.ts";

/** Returns the fault that makes the store refuse commits for a while. */
export function fullStore({ condition }: World): Fault {
  return {
    name: "full store",
    durationMsMax: 8000,
    strike: () => condition.fill(),
  };
}

/**
 * Returns the fault that slows down each step of the store. A step can then take longer than the
 * time limit of a transaction.
 */
export function slowStore({ condition }: World): Fault {
  return {
    name: "slow store",
    durationMsMax: 10_000,
    strike: (random) => condition.slowDown(random.pick([200, 1000, 6000])),
  };
}
