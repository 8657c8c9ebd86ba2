/** The real world as base's `Runtime`: the machine's clock, chance, digests and compression. */
import type { Runtime, Trace } from "../base/index.ts";
import { systemClock } from "./system-clock.ts";
import { systemCompression } from "./system-compression.ts";
import { systemDigests } from "./system-digests.ts";
import { SystemRandom } from "./system-random.ts";

const SILENT: Trace = { event: () => {} };

export function createSystemRuntime(trace: Trace = SILENT): Runtime {
  return {
    clock: systemClock,
    random: new SystemRandom(),
    digests: systemDigests,
    compression: systemCompression,
    trace,
  };
}
