import { expect, test } from "vitest";
import type { Endpoint } from "../endpoints/endpoint.ts";
import { findAtBeginning } from "./parked-place.ts";

/** Creates an endpoint without checkpoints whose database has this creation time. */
function madeAt(instanceStartTime: string): Endpoint {
  const info = async () => ({ instanceStartTime, updateSequence: 1 });
  return { info, readLocal: async () => undefined } as unknown as Endpoint;
}

test.each([
  [{ source: "1", target: "2" }, true],
  [{ source: "3", target: "2" }, false],
  [{ source: "1", target: "3" }, false],
  [{ source: "3", target: "3" }, false],
  [{ source: "0", target: "2" }, false],
  [{ source: "1", target: "0" }, false],
])(
  "resumes a job that was parked without a checkpoint only if both databases are the same: %j",
  async (now, isFound) => {
    const parts = {
      source: madeAt(now.source),
      target: madeAt(now.target),
      ids: { baseId: "b" },
      ownCheckpoint: {} as never,
    };
    for (const unknown of [undefined, "source", "target"] as const) {
      const startTimes = { source: "1", target: "2", ...(unknown && { [unknown]: "0" }) };
      const parked = { sequence: 0, statistics: {} as never, startTimes };
      const found = await findAtBeginning(parts, parked, new AbortController().signal);
      // If the creation time of a database is unknown, the database might have been re-created, so
      // the position must not be found.
      expect([unknown, found !== undefined]).toEqual([unknown, isFound && unknown === undefined]);
    }
  },
);
