/**
 * The contract on the memory engine: in the whole store, in a subspace, and with each transaction
 * body run at least twice.
 */
import type { Runtime } from "../../src/base/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import {
  type Engine,
  MemoryEngine,
  MemoryStorage,
  READ_VERSION_AGE_MS_MAX,
  Subspace,
  SubspaceEngine,
} from "../../src/kv/index.ts";
import type { OpenedEngines } from "../../src/library/kv-conformance/fixture.ts";

import { spuriousConflicts } from "../support/faults/spurious-conflicts.ts";
import { testConformance } from "../support/kv/conformance.ts";
import { movableClock } from "../support/movable-clock.ts";

function openMemory(decorate: (engine: Engine) => Engine): OpenedEngines {
  const system = createSystemRuntime();
  const { clock, move } = movableClock(system.clock);
  const runtime: Runtime = { ...system, clock };
  const storage = new MemoryStorage({ clearsRangesAtOnce: true });
  return {
    engine: decorate(new MemoryEngine({ runtime, storage })),
    peer: decorate(new MemoryEngine({ runtime, storage })),
    async passReadVersionAge() {
      move(READ_VERSION_AGE_MS_MAX + 1);
    },
  };
}

const propertyRunCount = 100;

testConformance("memory", {
  open: async () => openMemory((engine) => engine),
  propertyRunCount,
});

testConformance("memory, in a subspace", {
  open: async () => {
    const { prefix } = Subspace.fromTuple(["tandem", 1]);
    return openMemory((engine) => new SubspaceEngine(engine, prefix));
  },
  propertyRunCount,
});

testConformance("memory, every body at least twice", {
  open: async () => openMemory(spuriousConflicts),
  propertyRunCount,
});
