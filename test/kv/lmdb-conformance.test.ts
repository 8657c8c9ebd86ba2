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
import type { OpenedEngines } from "../../src/library/kv-conformance/fixture.ts";
import { testConformance } from "../support/kv/conformance.ts";
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
    engine,
    peer: openPeer === undefined ? engine : decorate(await openPeer(directory)),
    async passReadVersionAge() {
      move(READ_VERSION_AGE_MS_MAX + 1);
    },
    remove: () => rm(directory, { recursive: true }),
  };
}

const propertyRunCount = 25;

testConformance("lmdb, one process", {
  open: () => openLmdb((engine) => engine),
  propertyRunCount,
});

testConformance("lmdb, in a subspace", {
  open: () => {
    const { prefix } = Subspace.fromTuple(["tandem", 1]);
    return openLmdb((engine) => new SubspaceEngine(engine, prefix));
  },
  propertyRunCount,
});

testConformance("lmdb, two processes", {
  open: () => openLmdb((engine) => engine, openRemoteLmdbEngine),
  propertyRunCount,
});

testConformance("lmdb, two processes in a subspace", {
  open: () => {
    const { prefix } = Subspace.fromTuple(["tandem", 2]);
    return openLmdb((engine) => new SubspaceEngine(engine, prefix), openRemoteLmdbEngine);
  },
  propertyRunCount,
});
