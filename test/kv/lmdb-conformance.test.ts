/** The contract on LMDB: in one process, in a subspace, and in two processes that alternate. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Runtime } from "../../src/base/index.ts";
import { createSystemRuntime, openLmdbEngine } from "../../src/host/index.ts";
import {
  type Engine,
  READ_VERSION_AGE_MS_MAX,
  Subspace,
  SubspaceEngine,
} from "../../src/kv/index.ts";
import { kvConformance, type OpenedEngines } from "../conformance/kv/index.ts";
import { openRemoteLmdbEngine } from "../support/kv/remote-engine.ts";
import { movableClock } from "../support/movable-clock.ts";

async function openLmdb(
  decorate: (engine: Engine) => Engine,
  openPeer?: (directory: string) => Promise<Engine>,
): Promise<OpenedEngines> {
  const directory = await mkdtemp(join(tmpdir(), "tandem-kv-"));
  const system = createSystemRuntime();
  const { clock, move } = movableClock(system.clock);
  const runtime: Runtime = { ...system, clock };
  const engine = decorate(await openLmdbEngine({ runtime, directory }));
  return {
    runtime,
    engine,
    peer: openPeer === undefined ? engine : decorate(await openPeer(directory)),
    async passReadVersionAge() {
      move(READ_VERSION_AGE_MS_MAX + 1);
    },
    remove: () => rm(directory, { recursive: true }),
  };
}

const supports = { propertyRunCount: 25 };

kvConformance({
  name: "lmdb, one process",
  open: () => openLmdb((engine) => engine),
  supports,
});

kvConformance({
  name: "lmdb, in a subspace",
  open: () => {
    const { prefix } = Subspace.fromTuple(["tandem", 1]);
    return openLmdb((engine) => new SubspaceEngine(engine, prefix));
  },
  supports,
});

kvConformance({
  name: "lmdb, two processes",
  open: () => openLmdb((engine) => engine, openRemoteLmdbEngine),
  supports,
});

kvConformance({
  name: "lmdb, two processes in a subspace",
  open: () => {
    const { prefix } = Subspace.fromTuple(["tandem", 2]);
    return openLmdb((engine) => new SubspaceEngine(engine, prefix), openRemoteLmdbEngine);
  },
  supports,
});
