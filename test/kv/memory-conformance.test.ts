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
import { kvConformance, type OpenedEngines } from "../conformance/kv/index.ts";
import { spuriousConflicts } from "../support/faults/spurious-conflicts.ts";
import { movableClock } from "../support/movable-clock.ts";

function openMemory(decorate: (engine: Engine) => Engine): OpenedEngines {
  const system = createSystemRuntime();
  const { clock, move } = movableClock(system.clock);
  const runtime: Runtime = { ...system, clock };
  const storage = new MemoryStorage({ clearsRangesAtOnce: true });
  return {
    runtime,
    engine: decorate(new MemoryEngine({ runtime, storage })),
    peer: decorate(new MemoryEngine({ runtime, storage })),
    async passReadVersionAge() {
      move(READ_VERSION_AGE_MS_MAX + 1);
    },
    async remove() {},
  };
}

const supports = { propertyRunCount: 100 };

kvConformance({
  name: "memory",
  open: async () => openMemory((engine) => engine),
  supports,
});

kvConformance({
  name: "memory, in a subspace",
  open: async () => {
    const { prefix } = Subspace.fromTuple(["tandem", 1]);
    return openMemory((engine) => new SubspaceEngine(engine, prefix));
  },
  supports,
});

kvConformance({
  name: "memory, every body at least twice",
  open: async () => openMemory(spuriousConflicts),
  supports,
});
