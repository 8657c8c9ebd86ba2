/** The real world as base's `Runtime`: the machine's clock, chance, digests and compression. */
import type { Runtime, Spans, Trace } from "../../base/index.ts";
import { systemClock } from "./clock.ts";
import { systemCompression } from "./compression.ts";
import { systemDigests } from "./digests.ts";
import { SystemRandom } from "./random.ts";

const SILENT: Trace = { event: () => {} };

export function createSystemRuntime(trace: Trace = SILENT, spans?: Spans): Runtime {
  return {
    clock: systemClock,
    random: new SystemRandom(),
    digests: systemDigests,
    compression: systemCompression,
    trace,
    ...(spans === undefined ? {} : { spans }),
  };
}
