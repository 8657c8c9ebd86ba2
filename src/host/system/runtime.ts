/** Implements base's `Runtime` with the machine's clock, randomness, digests and compression. */
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
